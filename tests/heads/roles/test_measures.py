"""The measures of heads against the same quantities computed pair by pair from dense patterns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.heads.controls import random_model
from tests.heads.dense import patterns
from tests.heads.explain.families import ROPE
from tests.models import tiny
from torch import Tensor

import headscope
from headscope.attention.observer import Call, plain
from headscope.heads.roles.measures import (
    Measure,
    Measurement,
    run_probe,
)
from headscope.heads.roles.probes.probe import (
    AttentionKind,
    Batch,
    LogitDifference,
    OVRanking,
    Probe,
    ProbeQuestion,
    one_key_question,
)
from headscope.heads.roles.task import TaskAblation, mean_ablation, task_scores
from headscope.models.native import NativeModel
from headscope.names import Head
from headscope.scope import Scope

CAUSAL: frozenset[AttentionKind] = frozenset({"causal"})
LENGTH, INPUTS = 14, 5


@pytest.fixture(scope="module")
def model() -> NativeModel:
    return random_model(2)


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(2, 200, (INPUTS, LENGTH), generator=torch.Generator().manual_seed(3))


def measure(model: NativeModel, probe: Probe, kind: Measure, of: str) -> Measurement:
    return run_probe(model, probe, {(kind, of): CAUSAL}).measurement(kind, of)


def every_head(model: NativeModel, by_site: dict[str, Tensor]) -> Tensor:
    """``[input, head]`` in the model's order."""
    return torch.cat([by_site[name] for name in model.shape.sites], dim=1).float()


def test_attention_is_the_mean_mass_of_the_asked_rows(model: NativeModel, ids: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(LENGTH)
    target = (torch.rand(INPUTS, LENGTH, generator=generator) * (place + 1)).long()
    asks = torch.rand(INPUTS, LENGTH, generator=generator) < 0.6
    wanted = one_key_question(target.where(asks, -1))
    previous = one_key_question((place - 1).expand_as(ids).where(asks, -1))
    first = one_key_question(torch.zeros_like(ids).where(asks, -1))
    ask = ProbeQuestion(wanted, {"previous": previous, "first": first})
    probe = Probe((Batch(ids, questions={"it": ask}),), "by hand")
    measured = measure(model, probe, "attention", "it")
    dense = patterns(model, ids)

    def mean_at(keys: Tensor) -> Tensor:
        found = {}
        for site, weights in dense.items():
            sums = torch.zeros(INPUTS, weights.shape[1], dtype=torch.float64)
            for item in range(INPUTS):
                rows = [row for row in range(LENGTH) if asks[item, row]]
                for row in rows:
                    if keys[item, row] >= 0:
                        sums[item] += weights[item, :, row, keys[item, row]] / len(rows)
            found[site] = sums
        return every_head(model, found)

    torch.testing.assert_close(measured.scores, mean_at(target), atol=1e-5, rtol=1e-5)
    rivals = {"previous": mean_at((place - 1).expand_as(ids)), "first": mean_at(torch.zeros_like(ids))}
    for head, name in enumerate(measured.rival_names):
        assert name == max(rivals, key=lambda rival: float(rivals[rival][:, head].mean()))
        torch.testing.assert_close(measured.rivals[:, head], rivals[name][:, head], atol=1e-5, rtol=1e-5)


def test_an_ov_rank_is_the_share_of_candidates_that_the_circuit_raises_less(model: NativeModel, ids: Tensor) -> None:
    places = torch.tensor([[2, 7], [0, 3], [5, 6], [1, 13], [8, 9]])
    candidates = torch.tensor([40, 3, 77, 120, 9, 31])
    right, wrong = candidates[torch.tensor([[0, 1], [2, 3], [4, 5], [0, 5], [1, 2]])], candidates[
        torch.tensor([[1, 2], [3, 4], [5, 0], [1, 0], [2, 3]])
    ]  # fmt: skip
    ranking = OVRanking(places, right, wrong, candidates)
    measured = measure(model, Probe((Batch(ids, ov_rankings={"r": ranking}),), ""), "reading", "r")
    values: dict[str, Tensor] = {}

    def see(site: str, call: object) -> Tensor:
        values[site] = call.v  # type: ignore[attr-defined]
        return mean_ablation(Head("none", 0))(site, call)  # type: ignore[arg-type]

    with torch.no_grad():
        model.run({"input_ids": ids}, see)
    rows = model.model.unembedding.weight.detach() * model.model.norm.weight.detach()  # type: ignore[union-attr, operator]
    for column, head in enumerate(model.shape.heads()):
        weight = model.output_weight(head.site).weight[head.head].detach()
        raised = torch.stack([values[head.site][i, head.head, places[i]] @ weight @ rows[candidates].T for i in range(INPUTS)])  # fmt: skip  # noqa: E501
        raised = raised - raised.mean((0, 1))
        for item in range(INPUTS):
            share = 0.0
            for at in range(2):
                own = raised[item, at, candidates.tolist().index(int(right[item, at]))]
                share += float((raised[item, at] < own).float().mean()) + float((raised[item, at] == own).float().mean()) / 2  # fmt: skip  # noqa: E501
            assert float(measured.scores[item, column]) == pytest.approx(share / 2, abs=1e-5)


def test_shares_of_a_logit_difference_are_direct_attributions(model: NativeModel, ids: Tensor) -> None:
    place = torch.tensor([13, 10, 5, 12, 9])
    right, wrong = torch.tensor([5, 6, 7, 8, 9]), torch.tensor([50, 60, 70, 80, 90])
    answer = LogitDifference(place, right, wrong, torch.tensor([[100, 101]] * INPUTS))
    probe = Probe((Batch(ids, logit_difference=answer),), "")
    measured = measure(model, probe, "share", "+")
    z: dict[str, Tensor] = {}

    def see(site: str, call: Call) -> Tensor:
        z[site] = plain(call)
        return z[site]

    with torch.no_grad():
        model.run({"input_ids": ids}, see)
    rows = model.model.unembedding.weight.detach() * model.model.norm.weight.detach()  # type: ignore[union-attr, operator]
    for item in range(INPUTS):
        along = rows[right[item]] - rows[wrong[item]]
        parts = []
        for head in model.shape.heads():
            x = z[head.site][item, head.head, place[item]]
            parts.append(float(x @ model.output_weight(head.site).weight[head.head].detach() @ along))
        expected = torch.tensor(parts) / torch.tensor(parts).abs().sum()
        torch.testing.assert_close(measured.scores[item], expected, atol=1e-4, rtol=1e-3)
    assert torch.equal(measure(model, probe, "share", "-").scores, -measured.scores)


@pytest.fixture(scope="module", params=["gemma2", "olmo2"])
def normed(request: pytest.FixtureRequest) -> Iterator[Scope]:
    """A model with a norm between W_O and the stream, its gains far from one."""
    kinds = {"gemma2": ("Gemma2Config", "Gemma2ForCausalLM"), "olmo2": ("Olmo2Config", "Olmo2ForCausalLM")}
    made = tiny.build(*kinds[request.param], **ROPE)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" in name:
                weight.copy_(2 * torch.rand(weight.shape, generator=draw))
    with headscope.load(made) as scope:
        yield scope


def test_shares_pass_the_norm_after_w_o(normed: Scope) -> None:
    ids = torch.randint(3, 90, (2, 12), generator=torch.Generator().manual_seed(2))
    place, right, wrong = torch.tensor([11, 7]), torch.tensor([5, 6]), torch.tensor([50, 60])
    answer = LogitDifference(place, right, wrong, torch.tensor([[70, 71]] * 2))
    found = run_probe(normed.model, Probe((Batch(ids, logit_difference=answer),), ""), {("share", "+"): CAUSAL})
    for item in range(2):
        shares = normed.look(ids[item].tolist()).logit_attribution(
            int(right[item]), int(wrong[item]), position=int(place[item])
        )
        expected = torch.tensor(list(shares.heads.values()))
        own = found.measurement("share", "+").scores[item]
        torch.testing.assert_close(own, expected / expected.abs().sum(), atol=1e-5, rtol=1e-4)


def test_an_ov_circuit_passes_the_norm_after_w_o(normed: Scope) -> None:
    ids = torch.randint(3, 90, (2, 12), generator=torch.Generator().manual_seed(2))
    candidates = torch.arange(3, 23)
    tokens = torch.tensor([[4], [9]])
    ranking = OVRanking(torch.tensor([[2], [5]]), tokens, tokens + 1, candidates)
    found = run_probe(normed.model, Probe((Batch(ids, ov_rankings={"r": ranking}),), ""), {("reading", "r"): CAUSAL})
    values: dict[str, Tensor] = {}

    def see(site: str, call: Call) -> Tensor:
        values[site] = call.v
        return plain(call)

    with torch.no_grad():
        normed.model.run({"input_ids": ids}, see)
    end = normed.model.unembedding()
    assert end.norm is not None
    for column, head in enumerate(normed.shape.heads()):
        out = normed.model.output_weight(head.site)
        assert out.post_norm is not None
        v = values[head.site][:, head.head // 2]
        written = torch.stack([v[item, at] for item, at in enumerate((2, 5))]) @ out.weight[head.head].detach()
        gains = [norm(torch.ones(32)[None, None])[0, 0].detach() for norm in (out.post_norm, end.norm)]
        raised = (written * gains[0] * gains[1]) @ end.weight[candidates].detach().T
        raised = raised - raised.mean(0)
        for item in range(2):
            below = (raised[item] < raised[item, tokens[item] - 3]).float().mean()
            same = (raised[item] == raised[item, tokens[item] - 3]).float().mean()
            rank = float(found.measurement("reading", "r").scores[item, column])
            assert rank == pytest.approx(float(below + same / 2))


def test_task_scores_are_logit_differences_or_mean_log_probabilities(ids: Tensor) -> None:
    logits = torch.randn(INPUTS, LENGTH, 200, generator=torch.Generator().manual_seed(1))
    place = torch.tensor([3, 4, 5, 6, 7])
    answer = LogitDifference(
        place, torch.tensor([1, 2, 3, 4, 5]), torch.tensor([11, 12, 13, 14, 15]), torch.zeros(5, 2).long()
    )
    found = task_scores(Batch(ids, logit_difference=answer), logits)
    assert found is not None
    assert float(found[2]) == pytest.approx(float(logits[2, 5, 3] - logits[2, 5, 13]))
    graded = torch.zeros(INPUTS, LENGTH, dtype=torch.bool)
    graded[:, 4:7] = True
    found = task_scores(Batch(ids, task_rows=graded), logits)
    assert found is not None
    expected = [float(logits[1, at].log_softmax(-1)[ids[1, at + 1]]) for at in (4, 5, 6)]
    assert float(found[1]) == pytest.approx(sum(expected) / 3, abs=1e-5)
    assert task_scores(Batch(ids), logits) is None


def test_mean_ablation_costs_what_replacing_z_by_hand_costs(model: NativeModel, ids: Tensor) -> None:
    graded = torch.ones(INPUTS, LENGTH, dtype=torch.bool)
    probe = Probe((Batch(ids, task_rows=graded),), "")
    head = model.shape.heads()[3]
    without = TaskAblation(model, probe).scores(head)
    attention = model.model.attention(0)  # type: ignore[operator]
    d_head = attention.d_head

    def replaced(_: object, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        z = given[0].clone()
        part = slice(head.head * d_head, (head.head + 1) * d_head)
        z[..., part] = z[..., part].mean((0, 1))
        return (z,)

    hook = attention.o_proj.register_forward_pre_hook(replaced)
    with torch.no_grad():
        logits = model.model(ids)
    hook.remove()
    expected = task_scores(probe.batches[0], logits)
    assert expected is not None
    torch.testing.assert_close(without, expected, atol=1e-4, rtol=1e-4)
