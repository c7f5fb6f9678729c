"""The battery's table and its reports, against a dense computation."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from tests.heads.controls import CONTROLS, opened, random_model
from tests.heads.dense import dense_scores
from tests.lab.by_hand import by_hand

from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, run_battery, shuffled_weights
from headscope.heads.roles.traits import MEANING
from headscope.models.native import NativeModel

QUICK = RoleOptions(inputs=16, controls=0, ablate=0, roles=("previous token", "induction", "copying"))


@pytest.mark.parametrize("make", [lambda: random_model(3), lambda: NativeModel(by_hand("induction"), None, "hand")])
def test_previous_token_and_induction_agree_with_a_dense_computation(make: Callable[[], NativeModel]) -> None:
    model = make()
    report = run_battery(model, QUICK)
    for role, scores in dense_scores(model, QUICK.inputs).items():
        assert report.trial(role).scores == pytest.approx(scores, abs=1e-5)


def test_a_report_is_equal_when_run_twice_and_survives_json() -> None:
    model = NativeModel(by_hand("induction"), None, "hand")
    options = RoleOptions(inputs=16, separators=(1, 2))
    first, second = run_battery(model, options), run_battery(model, options)
    assert first.to_dict() == second.to_dict()
    assert Report.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    assert first.named == ["0.0", "1.0"]
    assert first.n_without == 0
    assert first.trial("induction").control is not None


def test_too_few_inputs_leave_roles_untested() -> None:
    report = run_battery(NativeModel(by_hand("itself"), None, "hand"), RoleOptions(inputs=8, controls=0, ablate=0))
    assert not report.findings
    why = report.trial("itself").why_not
    assert why.startswith("8 inputs cannot rule out chance among ")
    assert why.endswith("it takes at least 10")


def test_every_head_has_traits_and_no_trait_is_a_role() -> None:
    model = random_model(1)
    report = run_battery(model, QUICK)
    assert list(report.traits) == [str(head) for head in model.shape.heads()]
    assert all(set(each) == set(MEANING) for each in report.traits.values())
    assert not set(MEANING) & set(BATTERY)


def test_ablating_the_induction_head_ruins_the_second_copy() -> None:
    report = run_battery(NativeModel(by_hand("induction"), None, "hand"), RoleOptions(inputs=16, controls=0))
    found = {finding.role: finding for finding in report.of("1.0")}["induction"]
    assert found.ablated is not None
    assert found.ablated.low > 1.0
    assert found.ablated.whole == pytest.approx(0.0, abs=0.01)
    assert [piece.measure for piece in found.evidence] == ["attention: induction", "reading: itself"]
    assert found.evidence[0].low <= found.score <= found.evidence[0].high


def test_ablating_the_name_mover_of_the_crafted_circuit_costs_the_answer() -> None:
    with torch.no_grad():
        model = opened(CONTROLS["giving"].make().eval())
    report = run_battery(model, RoleOptions(inputs=16, controls=0, roles=("name mover",)))
    (mover,) = report.findings
    assert mover.ablated is not None
    assert mover.ablated.loss > 0.5 * mover.ablated.whole > 0


def test_shuffling_changes_every_matrix_and_restores_every_bit() -> None:
    model = random_model(0)
    before = {name: weight.clone() for name, weight in model.model.named_parameters()}
    with shuffled_weights(model, seed=0):
        inside = dict(model.model.named_parameters())
        matrices = [name for name, weight in before.items() if weight.ndim == 2]
        assert all(not torch.equal(inside[name], before[name]) for name in matrices)
        assert all(torch.equal(inside[name].sort(0).values.flatten().sort().values,
                               before[name].flatten().sort().values) for name in matrices)  # fmt: skip
    assert all(torch.equal(weight, before[name]) for name, weight in model.model.named_parameters())


def test_a_role_that_the_shuffled_copy_earns_too_is_not_given() -> None:
    """Shuffling a matrix of equal entries changes nothing: this head rests on the first token whatever it learned."""
    model = by_hand("first token")
    with torch.no_grad():
        attention = model.attention(0)
        attention.q_proj.weight.fill_(0.0)
        attention.k_proj.weight.fill_(0.0)
    report = run_battery(NativeModel(model, None, "flat"), RoleOptions(inputs=16))
    assert not report.findings
