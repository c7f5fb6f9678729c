"""From trials to a report: intervals, ablations, controls and the recipe, on a model written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.heads.controls import SIZES, opened
from tests.heads.dense import dense_scores
from tests.lab.by_hand import by_hand

from headscope.attention.progress import progress_callback
from headscope.heads.bootstrap import bootstrap
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.heads.roles.trials import holm, make_probes, measure_roles, signed_ranks
from headscope.models.native import NativeModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head
from headscope.scan.shards import describe_model

OPTIONS = RoleOptions(roles=("previous token", "induction", "alignment"), inputs=16, seed=3, ablate=8)


@pytest.fixture(scope="module")
def model() -> NativeModel:
    return opened(by_hand("induction", SIZES))


@pytest.fixture(scope="module")
def report(model: NativeModel) -> Report:
    return run_battery(model, OPTIONS)


def test_both_heads_of_the_circuit_are_named_and_no_other(report: Report) -> None:
    assert {(each.head, each.role) for each in report.findings} == {("0.0", "previous token"), ("1.0", "induction")}
    assert all(each.strongest for each in report.findings)


def test_a_trial_has_every_heads_score_from_dense_patterns(model: NativeModel, report: Report) -> None:
    expected = dense_scores(model, 16, seed=3)
    for role in ("previous token", "induction"):
        found = report.trial(role).scores
        assert list(found) == [str(head) for head in model.shape.heads()]
        for head, score in found.items():
            assert score == pytest.approx(expected[role][head], abs=2e-3)


def test_a_finding_has_its_interval_rival_and_p_value(model: NativeModel, report: Report) -> None:
    roles = OPTIONS.chosen()
    probes = make_probes(Vocabulary(model, OPTIONS.seed), roles, OPTIONS.inputs, OPTIONS.seed)
    trials = measure_roles(model, roles, probes, OPTIONS.alpha)
    measured = trials.scores["induction"].measured[0]
    index = model.shape.heads().index(Head("1", 0))
    (finding,) = report.with_role("induction")
    piece = finding.evidence[0]
    low, high = bootstrap(measured.scores, OPTIONS.seed)
    assert piece.score == pytest.approx(float(measured.scores[:, index].mean()), abs=1e-6)
    assert piece.rival == pytest.approx(float(measured.rivals[:, index].mean()), abs=1e-6)
    assert (piece.low, piece.high) == pytest.approx((float(low[index]), float(high[index])), abs=1e-6)
    assert piece.low <= piece.score <= piece.high
    assert piece.rival_name == measured.rival_names[index]
    chance = signed_ranks(measured.scores - measured.rivals)[index]
    assert piece.p == pytest.approx(float(chance), rel=1e-2)
    every = torch.cat([each.p[each.tested] for each in trials.scores.values()])
    assert finding.p <= float(holm(every).max())
    assert finding.p == pytest.approx(float(trials.corrected()["induction"][index]), rel=1e-2)


def test_a_trained_head_scores_above_its_shuffled_copy(report: Report) -> None:
    for role in ("previous token", "induction"):
        control = report.trial(role).control
        assert control is not None
        assert control < max(score for score in report.trial(role).scores.values() if score is not None)


def test_a_report_and_a_census_of_one_model_carry_the_same_weight_hash(model: NativeModel, report: Report) -> None:
    assert report.recipe["weights"] == describe_model(model)["weights_sha256"] == weight_hash(model.model)


def test_the_recipe_reproduces_the_report(model: NativeModel, report: Report) -> None:
    recipe = report.recipe
    assert (recipe["inputs"], recipe["seed"], recipe["alpha"], recipe["controls"]) == (16, 3, 0.01, 1)
    assert recipe["family"] == 2 * model.shape.n_heads
    assert recipe["start_and_end"] == "as the model's tokenizer does it: before <s>, after nothing"
    assert recipe["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert run_battery(model, OPTIONS).to_dict() == report.to_dict()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs": 7}, "inputs=7: a role is tested on 8 to 4096 inputs per probe"),
        ({"inputs": 4097}, "inputs=4097"),
        ({"alpha": 0.0}, "alpha=0.0: the family-wise error rate is between 0 and 1"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"roles": ("induction", "spelling")}, "no role is called spelling; there are"),
    ],
)
def test_bad_options_are_refused_with_their_values(wrong: dict[str, object], message: str) -> None:
    from headscope.errors import InputError

    with pytest.raises(InputError, match=message):
        RoleOptions(**wrong)  # type: ignore[arg-type]


def stop_at(turn: int) -> Callable[[str, int, int], None]:
    """A progress callback that presses Ctrl-C at its ``turn``-th call."""
    calls = iter(range(10**6))

    def callback(task: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        if next(calls) == turn:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_keeps_the_roles_that_are_done_and_the_weights(model: NativeModel, report: Report) -> None:
    before = weight_hash(model.model)
    options = replace(OPTIONS, roles=("previous token", "induction", "duplicate token"))
    for turn, said in ((5, "in the control"), (4, "at the probe scattered"), (9, "in the ablations")):
        with progress_callback(stop_at(turn)):
            found = run_battery(model, options)
        assert said in found.recipe["stopped"]
        assert {(each.head, each.role) for each in found.findings} == {("0.0", "previous token"), ("1.0", "induction")}
        assert found.trial("induction").scores == pytest.approx(report.trial("induction").scores)
        assert found.trial("duplicate token").tested == (turn > 4)
        assert f"Stopped {said}" in str(found)
        assert Report.from_dict(found.to_dict()) == found
        assert weight_hash(model.model) == before
    with progress_callback(stop_at(0)), pytest.raises(KeyboardInterrupt):
        run_battery(model, options)
