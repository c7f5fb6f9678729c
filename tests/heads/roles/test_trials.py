"""Trials: the family of tests, its correction and the heads that earn a role, from numbers written by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.heads.controls import SIZES, opened
from tests.lab.by_hand import by_hand

from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import Measurement, ProbeResults
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.trials import (
    MOST_MOVERS,
    RoleScores,
    Trials,
    _drop_underpowered,
    _name_movers,
    _score,
    measure_roles,
    signed_ranks,
)
from headscope.names import Head
from headscope.scope import Scope

INDUCTION = BATTERY["induction"]


def scored(p: list[float], role: Role = INDUCTION, *, above: list[bool] | None = None, tested: list[bool] | None = None,
  score: list[float] | None = None, inputs: int = 32) -> RoleScores:  # fmt: skip
    scores = torch.tensor(score or [0.5] * len(p)).expand(inputs, -1)
    measured = Measurement(scores, torch.zeros_like(scores), ("x",) * len(p))
    p_value = torch.tensor(p, dtype=torch.float64)
    yes = torch.tensor(above or [True] * len(p)), torch.tensor(tested or [True] * len(p))
    return RoleScores(role, (measured,), (p_value, p_value / 2), *yes)


def trials(**each: RoleScores) -> Trials:
    return Trials(dict(each), {}, {}, {})


def holm_by_hand(p: list[float]) -> list[float]:
    """Each chance times how many are left when it is its turn, never below an earlier one, at most 1."""
    order = sorted(range(len(p)), key=lambda index: p[index])
    corrected, before = [0.0] * len(p), 0.0
    for place, index in enumerate(order):
        before = max(before, min(1.0, p[index] * (len(p) - place)))
        corrected[index] = before
    return corrected


chances = st.lists(st.floats(0, 1), min_size=3, max_size=3)


@given(chances, chances, st.lists(st.booleans(), min_size=3, max_size=3))
def test_holm_is_over_every_head_and_role(one: list[float], two: list[float], asked: list[bool]) -> None:
    made = trials(a=scored(one, tested=asked), b=scored(two))
    put = [p for p, yes in zip(one, asked, strict=True) if yes] + two
    expected = holm_by_hand(put)
    found = made.corrected()
    assert made.family == len(put)
    at = iter(expected)
    for p, yes in zip(found["a"].tolist(), asked, strict=True):
        assert p == (pytest.approx(next(at)) if yes else 1.0)
    assert found["b"].tolist() == pytest.approx(list(at))


@pytest.mark.parametrize(("inputs", "stays"), [(9, True), (8, False)])
def test_a_role_that_even_a_perfect_head_could_not_earn_was_not_tested(inputs: int, stays: bool) -> None:
    """Four heads at α = .01 need 2⁻ⁿ · 4 ≤ .01: nine inputs."""
    made = trials(a=scored([0.5] * 4, inputs=inputs))
    assert (float(signed_ranks(torch.ones(inputs, 1))) * 4 <= 0.01) == stays
    _drop_underpowered(made, 0.01)
    assert ("a" in made.scores) == stays
    if not stays:
        assert made.untested == {"a": "8 inputs cannot rule out chance among 4 questions; it takes at least 9"}


def test_at_most_four_movers_the_best_first() -> None:
    heads = [Head("0", index) for index in range(7)]
    score = [0.1, 0.9, 0.3, 0.8, 0.7, 0.6, 0.95]
    p = [1e-6, 1e-6, 0.9, 1e-6, 1e-6, 1e-6, 1e-6]
    mover = scored(p, BATTERY["name mover"], score=score, above=[True] * 6 + [False])
    made = Trials({"name mover": mover}, {}, {}, {})
    assert [head.head for head in _name_movers(made, heads, 0.01)] == [1, 3, 4, 5]
    assert MOST_MOVERS == 4
    assert _name_movers(trials(), heads, 0.01) == []


def test_a_head_without_a_score_on_some_input_is_not_tested(llama: Scope) -> None:
    """A missing number is no zero: the head is left out, and counts in no family."""
    role = replace(BATTERY["previous token"], name="mine")
    n_heads = llama.shape.n_heads
    made = measure_roles(llama.model, [role], {role.probe.name: "not this time"}, 0.01)
    assert made.untested == {"mine": "not this time"}
    collected = ProbeResults()
    scores = torch.full((12, n_heads), 0.9)
    scores[3, 2] = float("nan")
    collected.masses["previous", ""] = [scores]
    collected.masses["previous", "another"] = [torch.zeros(12, n_heads)]
    found = _score(llama.model, role, [collected.measurement("attention", "previous")])
    assert found.tested.tolist() == [index != 2 for index in range(n_heads)]
    assert math.isclose(float(found.p_values[0][0]), 2.0**-12)


@pytest.mark.parametrize(("why", "others", "floor"), [("family", 3000, -1.0), ("control", 0, 0.6), ("named", 0, -1.0)])
def test_the_movers_of_s_inhibition_are_named_by_the_standard_of_every_role(
    why: str, others: int, floor: float
) -> None:
    """A head that is a mover within its own role alone, or below the control's, is none for S-inhibition either."""
    heads = [Head("0", index) for index in range(2)]
    made = trials(**{"name mover": scored([1e-5, 0.9], BATTERY["name mover"])})
    made.waiting["the other roles"] = (INDUCTION, others)
    found = _name_movers(made, heads, 0.01, {"name mover": floor})
    assert found == ([heads[0]] if why == "named" else [])


def test_one_template_lost_is_a_role_lost() -> None:
    """Two heads with the same mean score and rival; one of them loses the second of two strata."""
    results, opponent = ProbeResults(), torch.full((8, 2), 0.3)
    wanted = torch.full((8, 2), 0.8)
    wanted[4:, 1], wanted[:4, 1] = 0.2, 1.4
    results.masses["arc", ""], results.masses["arc", "the distractor"] = [wanted], [opponent]
    results.strata["arc"], results.opponents["arc"] = [torch.tensor([0] * 4 + [1] * 4)], "the distractor"
    measured = results.measurement("attention", "arc")
    assert measured.wins is not None
    assert measured.wins.tolist() == [True, False]
    assert measured.scores.mean(0).tolist() == pytest.approx([0.8, 0.8])
    role = BATTERY["verb to subject"]
    model = opened(by_hand("induction", SIZES))
    model.shape = replace(model.shape, sites={"0": replace(model.shape.sites["0"], n_heads=2, n_kv_heads=2)})
    assert _score(model, role, [measured]).above_threshold.tolist() == [True, False]


@pytest.mark.parametrize("name", ["coreference", "verb to subject", "noun to modifier", "negation"])
def test_every_template_between_words_is_a_stratum(name: str) -> None:
    role = BATTERY[name]
    probe = role.probe.make(Vocabulary(opened(by_hand("induction", SIZES))), 32, 0)
    strata = torch.cat([batch.questions["arc"].strata for batch in probe.batches])  # type: ignore[list-item]
    assert {batch.questions["arc"].opponent for batch in probe.batches} == {"the distractor"}
    assert int(strata.max()) >= 5
    assert strata.bincount().min() >= 4
    half = probe.batches[0].part(3, 9)
    assert torch.equal(half.questions["arc"].strata, strata[3:9])  # type: ignore[arg-type]
