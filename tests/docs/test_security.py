"""docs/security.md and docs/reliability.md: the limits that they name are those of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from headscope.app.server import clients, fair_queue, worker
from headscope.app.server.serve import CONNECTIONS

ROOT = Path(__file__).parents[2]
KIB, MIB = 2**10, 2**20
LIMITS = [
    f"A request holds at most {clients.MAX_BODY / MIB:g} MiB",
    f"must arrive within {clients.BODY_TIMEOUT:g} seconds.",
    f"All bodies over {clients.SMALL_BODY / KIB:g} KiB hold at most {clients.HELD_BODIES / MIB:g} MiB together.",
    f"One address may make {clients.AT_ONCE:,.0f} requests at once and {clients.PER_SECOND:g} per second",
    f"A server keeps {CONNECTIONS:,} connections",
    f"An address gets {clients.NEW_AT_ONCE:g} cookies at once and one more per second.",
    f"One client may have {worker.UNDER_WAY} requests under way, and {fair_queue.LINE} may wait for one model.",
    f"The last {clients.ADDRESSES:,} addresses and clients are remembered.",
    f"The last {fair_queue.CLIENTS:,} addresses and clients are remembered.",
]


def words(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("said", LIMITS)
def test_limits_of_the_server_are_those_of_the_page_on_security(said: str) -> None:
    assert said in words("security.md")


def test_shares_of_the_queue_are_those_of_the_page_on_reliability() -> None:
    assert (fair_queue.LONG_AT_ONCE, 1 / fair_queue.SHARE, clients.NEW_PER_SECOND) == (4, 8, 1)
    assert "At most four long requests to a model have begun" in words("reliability.md")
    assert "long ones get an eighth of the time that these take" in words("reliability.md")
