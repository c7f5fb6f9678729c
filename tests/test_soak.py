"""The parts of `make soak`: each kind of work succeeds once, and the verdict tells a leak from noise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import headscope
from headscope.app.pages.microscope import Session
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import served
from tests.soak import (
    RISE,
    WORKS,
    Record,
    ask_like_a_page,
    export,
    hold_connections,
    judge,
    leave,
    scan,
    send_refused,
)


@pytest.mark.slow
def test_every_kind_of_work_can_be_done(tmp_path: Path) -> None:
    record, chance = Record(), random.Random(0)
    with headscope.load(small_model(), word_tokenizer()) as scope, served(Session(scope)) as address:
        ask_like_a_page(address, chance, record)
        export(scope, tmp_path, chance, record)
        scan(scope, tmp_path, chance, record)
        hold_connections(address, chance, record)
        send_refused(address, chance, record)
        leave(address, chance, record)
    assert record.done.pop("left", 0) <= 2, "unless the answers were faster"
    assert record.done == {"look": 1, "edit": 1, "export": 1, "scan": 1, "half-open": 1, "refused": 1}


def test_a_leak_of_a_tenth_is_seen_and_a_noisy_plateau_is_not() -> None:
    noise = [1000 + 8 * (number % 7) for number in range(30)]
    assert Record(memory=[float(one) for one in noise]).rise < 1.01
    assert Record(memory=[one + 5.0 * place for place, one in enumerate(noise)]).rise > RISE


def test_whatever_does_not_hold_is_said() -> None:
    rising = Record(memory=[1.0, 2.0, 4.0, 8.0], threads=[5], files=[2], troubles=["ReadTimeout: "])
    said = judge(rising, threads_before=4, files_before=2)
    assert said[:2] == ["ReadTimeout: ", f"memory rises: 3.000 after the warm-up, and at most {RISE} is flat"]
    assert said[2].startswith("1 threads were left")
    assert said[3:] == [f"no {work} was finished" for work in sorted(WORKS)]
