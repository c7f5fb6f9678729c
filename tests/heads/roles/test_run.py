"""From trials to a report: intervals, ablations, controls and the recipe, on a model written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.heads.controls import SIZES, opened
from tests.heads.dense import dense_scores

from headscope.attention.progress import progress_callback
from headscope.heads.bootstrap import bootstrap
from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.heads.roles.probes.token_probes import repeat
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, _some_inputs, run_battery
from headscope.heads.roles.significance import holm, signed_ranks
from headscope.heads.roles.task import ablated_task_scores
from headscope.heads.roles.trials import make_probes, run_trials
from headscope.lab.teach.by_hand import by_hand
from headscope.models.native import NativeModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head
from headscope.scan.recipe import describe_model

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
    trials = run_trials(model, roles, probes, OPTIONS.alpha)
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


def test_an_ablation_is_what_the_task_loses_on_some_of_the_inputs(model: NativeModel, report: Report) -> None:
    (finding,) = report.with_role("induction")
    assert finding.ablated is not None
    probe = repeat(Vocabulary(model, 3), 16, 3)
    part = _some_inputs(probe, 8)
    with torch.no_grad():
        without = ablated_task_scores(model, part, Head("1", 0))
    assert finding.ablated.whole - finding.ablated.loss == pytest.approx(float(without.mean()), abs=1e-4)
    assert finding.ablated.loss > 1
    assert finding.ablated.low <= finding.ablated.loss <= finding.ablated.high


def test_some_inputs_are_the_first_of_every_batch() -> None:
    batches = tuple(
        Batch(torch.arange(10 * n, 10 * n + 5 * size).view(size, 5)) for n, size in ((1, 4), (9, 1), (20, 3))
    )
    probe = Probe(batches, "")
    for count in (1, 3, 6, 99):
        part = _some_inputs(probe, count)
        for whole, some in zip(probe.batches, part.batches, strict=True):
            assert torch.equal(some.ids, whole.ids[: len(some)])
        assert all(len(batch) >= 1 for batch in part.batches)


def test_a_trained_head_scores_above_its_shuffled_copy(report: Report) -> None:
    for role in ("previous token", "induction"):
        control = report.trial(role).control
        assert control is not None
        assert control < max(score for score in report.trial(role).scores.values() if score is not None)


def test_without_controls_or_ablation_neither_is_reported(model: NativeModel) -> None:
    found = run_battery(model, replace(OPTIONS, controls=0, ablate=0))
    assert {trial.control for trial in found.trials} == {None}
    assert {finding.ablated for finding in found.findings} == {None}
    few = run_battery(model, replace(OPTIONS, controls=0, most_ablated=0))
    assert {finding.ablated for finding in few.findings} == {None}


def test_an_untested_role_has_a_reason_and_no_numbers(report: Report) -> None:
    trial = report.trial("alignment")
    assert (trial.tested, trial.why_not) == (False, "it has no cross attention")
    assert (trial.n_inputs, trial.n_heads, trial.scores, trial.control) == (0, 0, {}, None)


def test_a_report_and_a_census_of_one_model_carry_the_same_weight_hash(model: NativeModel, report: Report) -> None:
    assert report.recipe["weights"] == describe_model(model)["weights_sha256"] == weight_hash(model.model)


def test_the_recipe_reproduces_the_report(model: NativeModel, report: Report) -> None:
    recipe = report.recipe
    assert (recipe["inputs"], recipe["seed"], recipe["alpha"], recipe["controls"]) == (16, 3, 0.01, 1)
    assert recipe["family"] == 2 * model.shape.n_heads
    assert recipe["start_and_end"] == "as the model's tokenizer does it: before <s>, after nothing"
    assert recipe["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert run_battery(model, OPTIONS).to_dict() == report.to_dict()


def test_a_stricter_alpha_names_no_head(model: NativeModel, report: Report) -> None:
    strict = run_battery(model, replace(OPTIONS, alpha=1e-9, controls=0, ablate=0))
    assert strict.findings == ()
    assert "cannot rule out chance among" in strict.trial("induction").why_not
    assert len(report.findings) == 2


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
        assert "stopped " in str(found)
        assert Report.from_dict(found.to_dict()) == found
        assert weight_hash(model.model) == before
    with progress_callback(stop_at(0)), pytest.raises(KeyboardInterrupt):
        run_battery(model, options)


def test_what_was_stopped_still_counts_in_the_correction(model: NativeModel) -> None:
    options = replace(OPTIONS, roles=("previous token", "induction", "duplicate token"))
    with progress_callback(stop_at(4)):
        found = run_battery(model, options)
    assert found.recipe["family"] == 3 * model.shape.n_heads


def test_progress_ends_at_its_total(model: NativeModel) -> None:
    seen: list[tuple[str, int, int]] = []
    with progress_callback(lambda *each: seen.append(each)):
        run_battery(model, OPTIONS)
    assert list(dict.fromkeys(task for task, _, _ in seen)) == ["probes", "control with shuffled weights", "ablations"]
    done = [each for _, each, _ in seen]
    assert done == sorted(done)
    assert seen[-1][1] == seen[-1][2]


def test_only_roles_that_a_head_would_earn_have_a_control(model: NativeModel) -> None:
    found = run_battery(model, replace(OPTIONS, roles=("induction", "duplicate token")))
    assert found.trial("induction").control is not None
    assert (found.trial("duplicate token").named, found.trial("duplicate token").control) == ((), None)


def test_ctrl_c_before_s_inhibition_leaves_it_untested(model: NativeModel) -> None:
    options = replace(OPTIONS, roles=("induction", "name mover", "S-inhibition", "duplicate token"))
    for turn in (4, 5, 6):
        with progress_callback(stop_at(turn)):
            found = run_battery(model, options)
        trial = found.trial("S-inhibition")
        assert (trial.tested, trial.why_not) == (False, "stopped before it was tested")
        assert found.trial("induction").named == ("1.0",)
