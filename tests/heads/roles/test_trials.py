"""Trials: the family of tests, its correction and the heads that earn a role, from numbers written by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.heads.controls import SIZES, opened

from headscope.heads.roles.battery import BATTERY, CAUSAL, CROSS, Evidence, ProbeMaker, Role
from headscope.heads.roles.measures import Measurement, ProbeResults
from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.significance import signed_ranks
from headscope.heads.roles.trials import (
    MOST_MOVERS,
    RoleScores,
    Trials,
    _drop_underpowered,
    _name_movers,
    _requested,
    _score,
    make_probes,
    run_trials,
    why_untestable,
)
from headscope.lab.teach.by_hand import by_hand
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


def test_the_largest_p_value_counts() -> None:
    assert scored([0.2, 0.01]).p.tolist() == [0.2, 0.01]


def test_a_role_needs_a_threshold_a_test_and_a_small_p() -> None:
    p = [1e-6, 1e-6, 1e-6, 0.5]
    made = trials(a=scored(p, above=[True, False, True, True], tested=[True, True, False, True]))
    assert made.named(0.01)["a"].tolist() == [True, False, False, False]


def test_without_a_tested_role_no_head_is_named() -> None:
    assert trials().corrected() == {}
    assert trials().named(0.01) == {}
    assert trials().family == 0


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


def test_a_probe_is_measured_for_all_roles_that_use_it() -> None:
    maker = ProbeMaker("mine", lambda vocabulary, count, seed: Probe((), ""))
    role = Role("r", "", maker, (), CAUSAL, None)

    def asks(kind: str, of: str) -> Evidence:
        return Evidence(kind, of, 0.5, 0.1, "")  # type: ignore[arg-type]

    roles = [
        replace(role, evidence=(asks("attention", "a"), asks("reading", "b"))),
        replace(role, evidence=(asks("attention", "a"), asks("share", "+")), sites=CROSS),
        replace(role, evidence=(asks("accuracy", "c"), asks("effect", "x"))),
        replace(role, evidence=(asks("attention", "elsewhere"),), probe=replace(maker, name="other")),
    ]
    assert _requested(roles, "mine") == {
        ("attention", "a"): CAUSAL | CROSS,
        ("reading", "b"): CAUSAL,
        ("share", "+"): CROSS,
        ("accuracy", "c"): CAUSAL,
        ("effect", "x"): CAUSAL,
    }


def test_each_probe_is_made_once_or_gives_a_reason() -> None:
    calls: list[str] = []

    def make(name: str, fails: bool) -> ProbeMaker:
        def made(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
            calls.append(name)
            if fails:
                raise UntestableError("there is no such word")
            return Probe((Batch(torch.zeros(count, 5, dtype=torch.long)),), "made")

        return ProbeMaker(name, made)

    model = opened(by_hand("induction", SIZES))
    role = replace(INDUCTION, evidence=())
    good, bad = replace(role, probe=make("good", False)), replace(role, probe=make("bad", True))
    far = replace(role, probe=make("far", False), sites=CROSS)
    probes = make_probes(Vocabulary(model), [good, bad, good, far], 3, 0)
    assert calls == ["good", "bad"]
    assert probes["bad"] == "there is no such word"
    assert isinstance(probes["good"], Probe)
    assert probes["good"].n_inputs == 3
    done = run_trials(model, [replace(bad, name="b"), replace(far, name="f")], probes, 0.01)
    assert done.untested == {"b": "there is no such word", "f": "it has no cross attention"}
    assert done.scores == {}


def test_why_a_role_cannot_be_tested(llama: Scope) -> None:
    assert why_untestable(llama.model, INDUCTION) is None
    assert why_untestable(llama.model, replace(INDUCTION, sites=CROSS)) == "it has no cross attention"
    both = replace(INDUCTION, sites=CROSS | frozenset({"bidirectional"}))
    assert why_untestable(llama.model, both) == "it has no bidirectional or cross attention"


def test_a_head_without_a_score_on_some_input_is_not_tested(llama: Scope) -> None:
    """A missing number is no zero: the head is left out, and counts in no family."""
    role = replace(BATTERY["previous token"], name="mine")
    n_heads = llama.shape.n_heads
    made = run_trials(llama.model, [role], {role.probe.name: "not this time"}, 0.01)
    assert made.untested == {"mine": "not this time"}
    collected = ProbeResults()
    scores = torch.full((12, n_heads), 0.9)
    scores[3, 2] = float("nan")
    collected.masses["previous", ""] = [scores]
    collected.masses["previous", "another"] = [torch.zeros(12, n_heads)]
    found = _score(llama.model, role, [collected.measurement("attention", "previous")])
    assert found.tested.tolist() == [index != 2 for index in range(n_heads)]
    assert math.isclose(float(found.p_values[0][0]), 2.0**-12)
