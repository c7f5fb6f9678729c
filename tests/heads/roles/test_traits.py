"""Traits against the same sums over patterns that are written out, row by row."""

from __future__ import annotations

import math

import pytest
import torch
from tests.heads.dense import patterns
from tests.models import tiny
from torch import Tensor
from torch.testing import assert_close

import headscope
from headscope.attention.observer import Call, plain
from headscope.heads.roles.probes.probe import Batch, Probe, ProbeQuestion, one_row_question
from headscope.heads.roles.s_inhibition import inhibition_effects
from headscope.heads.roles.traits import MEANING, NEAR, traits
from headscope.names import Head
from headscope.scope import Scope


def probe(*lengths: int) -> Probe:
    generator = torch.Generator().manual_seed(2)
    return Probe(tuple(Batch(torch.randint(3, 80, (2, length), generator=generator)) for length in lengths), "")


def by_rows(rows: list[list[float]]) -> dict[str, float]:
    """The definitions: one list of weights a row, its own place last."""
    found = dict.fromkeys(MEANING, 0.0)
    for row in rows:
        back = [len(row) - 1 - place for place in range(len(row))]
        mean = sum(weight * far for weight, far in zip(row, back, strict=True))
        square = sum(weight * far**2 for weight, far in zip(row, back, strict=True))
        found["entropy"] -= sum(weight * math.log(weight) for weight in row if weight > 0)
        found["distance"] += mean
        found["spread"] += math.sqrt(max(square - mean**2, 0.0))
        found["strongest"] += max(row)
        found["locality"] += sum(row[-1 - NEAR :])
    return {name: total / len(rows) for name, total in found.items()}


def test_every_trait_is_its_mean_over_every_row(scope: Scope) -> None:
    given = probe(9, 4)
    found = traits(scope.model, given)
    assert list(found) == [str(head) for head in scope.shape.heads()]
    seen = [patterns(scope.model, batch.ids) for batch in given.batches]
    for head in scope.shape.heads():
        rows = [
            row[: place + 1]
            for each in seen
            for text in each[head.site][:, head.head].tolist()
            for place, row in enumerate(text)
        ]
        expected = by_rows(rows)
        assert set(found[str(head)]) == set(MEANING)
        for name, value in found[str(head)].items():
            assert value == pytest.approx(expected[name], abs=2e-4), (head, name)


def test_a_site_that_reads_another_text_has_no_neighbours() -> None:
    with headscope.load(tiny.t5()) as scope:
        batch = Batch(torch.randint(3, 80, (2, 5)), source=torch.randint(3, 80, (2, 8)))
        found = traits(scope.model, Probe((batch,), ""))
        assert set(found["encoder.0.1"]) == set(MEANING)
        assert set(found["decoder.1.cross.2"]) == set(MEANING) - {"locality"}


def towards(scope: Scope, ids: Tensor, mover: Head, without: Head | None) -> Tensor:
    """The definition, written out: what a mover gives the receiver (2) less both mentions of the giver (1 and 5).

    ``without`` a head: at the last place it says what it says on average over these inputs and their places.
    """
    found: list[Tensor] = []

    def see(site: str, call: Call) -> Tensor:
        z = plain(call).clone()
        if without is not None and site == without.site:
            z[:, without.head, -1] = z[:, without.head].flatten(0, 1).mean(0)
        if site == mover.site:
            keys = call.k.repeat_interleave(call.q.shape[1] // call.k.shape[1], dim=1)
            scores = call.q[:, mover.head, -1:] @ keys[:, mover.head].mT * call.q.shape[-1] ** -0.5
            found.append(scores.softmax(-1)[:, 0])
        return z

    with torch.no_grad():
        scope.model.run({"input_ids": ids}, see)
    (row,) = found
    return row[:, 2] - row[:, 1] - row[:, 5]


def giving(ids: Tensor, twin: Batch | None = None) -> Batch:
    end = torch.full((len(ids),), ids.shape[1] - 1)

    def at(place: int) -> object:
        return one_row_question(end, [[place]] * len(ids), ids.shape[1])

    ask = ProbeQuestion(at(2), {"the giver": at(1), "the giver again": at(5)})  # type: ignore[arg-type, dict-item]
    return Batch(ids, questions={"receiver": ask}, counterfactual=twin)


def test_inhibition_is_how_far_the_movers_turn_without_a_head(llama: Scope) -> None:
    ids, other = torch.randint(3, 80, (2, 3, 8)).unbind()
    movers, candidates = [Head("2", 4), Head("1", 5)], [Head("0", 1), Head("1", 3), Head("2", 0)]
    measured = inhibition_effects(llama.model, Probe((giving(ids, giving(other)),), ""), movers, candidates)
    assert set(measured.rival_names) == {"nobody named twice"}
    for index, head in enumerate(llama.shape.heads()):
        for found, texts in ((measured.scores, ids), (measured.rivals, other)):
            expected = torch.zeros(3)
            if head in candidates:
                turned = [towards(llama, texts, m, None) - towards(llama, texts, m, head) for m in movers]
                expected = torch.stack(turned).mean(0)
            assert_close(found[:, index], expected, atol=1e-5, rtol=1e-4)


def test_batches_are_joined_in_their_order(llama: Scope) -> None:
    ids = torch.randint(3, 80, (5, 8))
    parts = tuple(giving(part, giving(part)) for part in ids.split(1))
    measured = inhibition_effects(llama.model, Probe(parts, ""), [Head("2", 4)], [Head("0", 1)])
    for item in range(5):
        one = inhibition_effects(llama.model, Probe((parts[item],), ""), [Head("2", 4)], [Head("0", 1)])
        assert_close(measured.scores[item], one.scores[0])
