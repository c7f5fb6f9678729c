"""Trials: the family, the correction and who is named, from numbers written down by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.heads.controls import SIZES, opened

from headscope.heads.roles.battery import BATTERY, CAUSAL, CROSS, Evidence, ProbeMaker, Role
from headscope.heads.roles.measures import Collected, Measured
from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.significance import signed_ranks
from headscope.heads.roles.trials import (
    MOST_MOVERS,
    Trials,
    Tried,
    _leave_out_the_powerless,
    _movers,
    _try,
    _wanted,
    make_probes,
    run_trials,
    why_not,
)
from headscope.lab.teach.by_hand import by_hand
from headscope.names import Head
from headscope.scope import Scope

INDUCTION = BATTERY["induction"]


def tried(p: list[float], role: Role = INDUCTION, *, enough: list[bool] | None = None, asked: list[bool] | None = None,
          score: list[float] | None = None, inputs: int = 32) -> Tried:  # fmt: skip
    scores = torch.tensor(score or [0.5] * len(p)).expand(inputs, -1)
    measured = Measured(scores, torch.zeros_like(scores), ("x",) * len(p))
    piece = torch.tensor(p, dtype=torch.float64)
    yes = [True] * len(p)
    return Tried(role, (measured,), (piece, piece / 2), torch.tensor(enough or yes), torch.tensor(asked or yes))


def trials(**each: Tried) -> Trials:
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
def test_holm_is_over_every_question_of_every_role(one: list[float], two: list[float], asked: list[bool]) -> None:
    made = trials(a=tried(one, asked=asked), b=tried(two))
    put = [p for p, yes in zip(one, asked, strict=True) if yes] + two
    expected = holm_by_hand(put)
    found = made.corrected()
    assert made.family == len(put)
    at = iter(expected)
    for p, yes in zip(found["a"].tolist(), asked, strict=True):
        assert p == (pytest.approx(next(at)) if yes else 1.0)
    assert found["b"].tolist() == pytest.approx(list(at))


def test_the_weakest_piece_speaks() -> None:
    assert tried([0.2, 0.01]).p.tolist() == [0.2, 0.01]


def test_a_name_needs_all_three() -> None:
    p = [1e-6, 1e-6, 1e-6, 0.5]
    made = trials(a=tried(p, enough=[True, False, True, True], asked=[True, True, False, True]))
    assert made.named(0.01)["a"].tolist() == [True, False, False, False]


def test_nothing_tried_names_nothing() -> None:
    assert trials().corrected() == {}
    assert trials().named(0.01) == {}
    assert trials().family == 0


@pytest.mark.parametrize(("inputs", "stays"), [(9, True), (8, False)])
def test_a_role_that_even_a_perfect_head_could_not_earn_was_not_tested(inputs: int, stays: bool) -> None:
    """Four heads at α = .01 need 2⁻ⁿ · 4 ≤ .01: nine inputs."""
    made = trials(a=tried([0.5] * 4, inputs=inputs))
    assert (float(signed_ranks(torch.ones(inputs, 1))) * 4 <= 0.01) == stays
    _leave_out_the_powerless(made, 0.01)
    assert ("a" in made.tried) == stays
    if not stays:
        assert made.untested == {"a": "8 inputs cannot rule out chance among 4 questions; it takes at least 9"}


def test_at_most_four_movers_the_best_first() -> None:
    heads = [Head("0", index) for index in range(7)]
    score = [0.1, 0.9, 0.3, 0.8, 0.7, 0.6, 0.95]
    p = [1e-6, 1e-6, 0.9, 1e-6, 1e-6, 1e-6, 1e-6]
    mover = tried(p, BATTERY["name mover"], score=score, enough=[True] * 6 + [False])
    made = Trials({"name mover": mover}, {}, {}, {})
    assert [head.head for head in _movers(made, heads, 0.01)] == [1, 3, 4, 5]
    assert MOST_MOVERS == 4
    assert _movers(trials(), heads, 0.01) == []


def test_what_is_wanted_of_a_probe_is_what_its_roles_ask() -> None:
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
    found = _wanted(roles, "mine")
    assert found.asks == {"a": CAUSAL | CROSS}
    assert (found.readings, found.arcs, found.shares) == (frozenset({"b"}), frozenset({"c"}), True)


def test_each_probe_is_made_once_and_a_reason_stands_where_it_cannot_be() -> None:
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
    assert done.tried == {}


def test_why_a_role_cannot_be_put(llama: Scope) -> None:
    assert why_not(llama.model, INDUCTION) is None
    assert why_not(llama.model, replace(INDUCTION, sites=CROSS)) == "it has no cross attention"
    both = replace(INDUCTION, sites=CROSS | frozenset({"bidirectional"}))
    assert why_not(llama.model, both) == "it has no bidirectional or cross attention"


def test_a_head_that_was_not_asked_somewhere_is_not_asked_at_all(llama: Scope) -> None:
    """A missing number is no zero: the head is left out, and counts in no family."""
    role = replace(BATTERY["previous token"], name="mine")
    n_heads = llama.shape.n_heads
    made = run_trials(llama.model, [role], {role.probe.name: "not this time"}, 0.01)
    assert made.untested == {"mine": "not this time"}
    collected = Collected(llama.shape.heads())
    scores = torch.full((12, n_heads), 0.9)
    scores[3, 2] = float("nan")
    collected.masses["previous", ""] = [scores]
    collected.masses["previous", "another"] = [torch.zeros(12, n_heads)]
    found = _try(llama.model, role, [collected.attention("previous")])
    assert found.asked.tolist() == [index != 2 for index in range(n_heads)]
    assert math.isclose(float(found.pieces[0][0]), 2.0**-12)
