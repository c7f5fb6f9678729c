"""Traits against sums over dense patterns, row by row."""

from __future__ import annotations

import math

import pytest
import torch
from tests.heads.dense import patterns

from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.heads.roles.traits import MEANING, NEAR, traits
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
