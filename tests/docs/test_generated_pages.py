"""Each page that a script writes is the one that it writes today."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from docs.generate import commands, film, one_or_many, roles, sharing, signatures, tasks

from headscope.heads.film import Film
from headscope.heads.roles.traits import MEANING
from headscope.lab.teach.one_or_many import stored_results
from headscope.scope import EMBEDDED

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "film.md": lambda: film.page(Film.load(EMBEDDED / "film.safetensors")),
    "one-or-many.md": lambda: one_or_many.page(stored_results()),
    "reference/commands.md": commands.page,
    "reference/signatures.md": signatures.page,
    "tasks.md": tasks.page,
    "roles.md": roles.page,
    "sharing.md": lambda: sharing.page(json.loads(sharing.RESULTS.read_text(encoding="utf-8"))),
}


@pytest.mark.parametrize("page", PAGES)
def test_committed_page_is_the_generated_one(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), f"run python -m docs.generate.… docs/{page}"


def test_every_measure_and_every_trait_is_described() -> None:
    assert {evidence.kind for role in roles.ROLES for evidence in role.evidence} <= set(roles.MEASURES)
    assert all(f"- **{name}**: {meaning}" in roles.page() for name, meaning in MEANING.items())
