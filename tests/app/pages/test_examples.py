"""Every example of the microscope shows its phenomenon on the built-in model, and on smollm2 where it is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bench.test_real_heads import need_smollm2

import headscope
from headscope.heads.look.look import Look
from headscope.scope import Scope

EXAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "web/src/examples.json").read_text(encoding="utf-8")
)
READS = 0.25  # as in web/src/examples.ts


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("smollm2", marks=[pytest.mark.slow, pytest.mark.registry])]
)
def scope(request: pytest.FixtureRequest) -> Scope:
    if request.param == "smollm2":
        need_smollm2()
    return headscope.load(None if request.param == "embedded" else request.param)


def find(look: Look, word: str) -> int:
    return max(at for at, token in enumerate(look.tokens) if token.text.strip() == word)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["key"]))
def test_the_model_shows_what_the_example_is_about(example: dict[str, Any], scope: Scope) -> None:
    look = scope.look(example["text"])
    if "expects" in example:
        token = look.predictions()[0].token.text.strip()
        assert token
        assert any(word.startswith(token) or token.startswith(word) for word in example["expects"]), token
        assert max(float(look.patterns(site)[:, -1, find(look, token)].max()) for site in look.sites) >= READS
    elif "reads" in example:
        query, key = find(look, example["at"]), find(look, example["reads"])
        assert max(float(look.patterns(site)[:, query, key].max()) for site in look.sites) >= READS
    else:
        assert max(float(look.mean_answers(site)[example["by"]].max()) for site in look.sites) >= READS
