"""S-inhibition effects, in a crafted circuit and against attention written out by hand."""

from __future__ import annotations

import pytest
import torch
from tests.heads.controls import giving, opened
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.roles.probes.probe import Batch, Probe, ProbeQuestion, one_row_question
from headscope.heads.roles.probes.text_probes import indirect_objects
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.task import mean_ablation
from headscope.heads.roles.trials import inhibition_effects
from headscope.models.native import NativeModel
from headscope.names import Head

MOVER, INHIBITS, DUPLICATE = Head("2", 0), Head("1", 0), Head("0", 0)


@pytest.fixture(scope="module")
def model() -> NativeModel:
    with torch.no_grad():
        return opened(giving(1.0).eval())


@pytest.fixture(scope="module")
def probe(model: NativeModel) -> Probe:
    return indirect_objects(Vocabulary(model), 8, 0)


def preference(model: NativeModel, batch: Batch, without: Head | None) -> torch.Tensor:
    """From the mover's whole pattern: its weight on the receiver, less its weight on both mentions of the giver."""
    ask = batch.questions["receiver"]
    ends = (ask.wanted.query != -1).int().argmax(1)
    edit = None if without is None else mean_ablation(without, ends)
    rows: list[torch.Tensor] = []

    def see(site: str, call: Call) -> torch.Tensor:
        if site == MOVER.site:
            scores = (call.q @ call.k.mT) * (call.scores.scale or call.q.shape[-1] ** -0.5)
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            rows.append(scores.masked_fill(hidden, float("-inf")).softmax(-1)[:, 0])
        return plain(call) if edit is None else edit(site, call)

    with torch.no_grad():
        model.run(batch.inputs(model), see)
    found = []
    for item, end in enumerate(ends.tolist()):
        weights = rows[0][item, end]
        marked = [q.key[item] == 1 for q in (ask.wanted, ask.rivals["the giver"], ask.rivals["the giver again"])]
        found.append(weights[marked[0]].sum() - weights[marked[1]].sum() - weights[marked[2]].sum())
    return torch.stack(found)


def test_an_effect_is_what_the_movers_attention_loses(model: NativeModel, probe: Probe) -> None:
    measured = inhibition_effects(model, probe, [MOVER], [INHIBITS])
    for part, batches in (
        (measured.scores, probe.batches),
        (measured.rivals, [b.counterfactual for b in probe.batches]),
    ):
        expected = torch.cat(
            [preference(model, b, None) - preference(model, b, INHIBITS) for b in batches if b is not None]
        )
        torch.testing.assert_close(part[:, 1], expected, atol=1e-4, rtol=1e-4)


def test_without_the_inhibiting_head_movers_turn_to_the_giver_only_where_a_name_is_repeated(
    model: NativeModel, probe: Probe
) -> None:
    measured = inhibition_effects(model, probe, [MOVER], [INHIBITS])
    assert float(measured.scores[:, 1].min()) > 0
    assert float(measured.scores[:, 1].mean()) > 0.2
    assert measured.rivals[:, 1].min() < 0 < measured.rivals[:, 1].max(), "in twins they turn either way"
    assert set(measured.rival_names) == {"nobody named twice"}


def test_only_candidates_are_tried_and_the_others_have_no_effect(model: NativeModel, probe: Probe) -> None:
    nobody = inhibition_effects(model, probe, [MOVER], [])
    assert not nobody.scores.any()
    assert nobody.scores.shape == (probe.n_inputs, 3)
    one = inhibition_effects(model, probe, [MOVER], [INHIBITS])
    assert not one.scores[:, [0, 2]].any()


def labelled(ids: Tensor, counterfactual: Batch | None = None) -> Batch:
    end = torch.full((len(ids),), ids.shape[1] - 1)

    def at(place: int) -> object:
        return one_row_question(end, [[place]] * len(ids), ids.shape[1])

    ask = ProbeQuestion(at(2), {"the giver": at(1), "the giver again": at(5)})  # type: ignore[arg-type, dict-item]
    return Batch(ids, questions={"receiver": ask}, counterfactual=counterfactual)
