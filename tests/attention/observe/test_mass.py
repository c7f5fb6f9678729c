"""Masses are computed one band of weights at a time, and add up however the pattern is split into bands."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.questions import Band, Path, Plan, Question, matches, plan

HEADS, N_QUERY, N_KEY, BATCH = 2, 9, 13, 2
OFFSET = N_KEY - N_QUERY


def by_pairs(question: Question, weights: Tensor, item: int) -> Tensor:
    """The definition: a weight counts where the labels are equal, are not −1, and the key is not the query's own."""
    query, key = (labels[min(item, len(labels) - 1)].tolist() for labels in (question.query, question.key))
    found = torch.zeros(HEADS, N_QUERY, dtype=torch.float64)
    for row, asked in enumerate(query):
        for position, label in enumerate(key):
            if asked == label != -1 and not (question.exclude_self and position == row + OFFSET):
                found[:, row] += weights[item, :, row, position]
    return found


def of_band(plans: dict[str, Plan], weights: Tensor, band: Band, item: int) -> dict[str, Tensor]:
    found = [match.masses(weights) for match in matches(plans, band, item, weights.dtype)]
    return {name: mass for masses in found for name, mass in masses.items()}


def in_bands(plans: dict[str, Plan], weights: Tensor, item: int, rows: list[int], keys: list[int]) -> dict[str, Tensor]:
    """Split the pattern at these rows and keys, and add up the masses of the bands."""
    totals: dict[str, Tensor] = {}
    for start, stop in zip([0, *rows], [*rows, N_QUERY], strict=True):
        for low, high in zip([0, *keys], [*keys, N_KEY], strict=True):
            band = weights[item, :, start:stop, low:high].contiguous()
            for name, mass in of_band(plans, band, Band(start, stop, low, high, OFFSET), item).items():
                into = totals.setdefault(name, torch.zeros(HEADS, N_QUERY, dtype=torch.float64))
                into[:, start:stop] += mass
    return totals


def some_question(seed: int, most: int, exclude_self: bool) -> Question:
    """Labels from −1 to ``most``, for one item or for each."""
    generator = torch.Generator().manual_seed(seed)
    items = 1 + seed % BATCH
    query, key = (torch.randint(-1, most + 1, (items, n), generator=generator) for n in (N_QUERY, N_KEY))
    return Question(query, key, exclude_self)


drawn = st.tuples(st.integers(0, 999), st.sampled_from([0, 2, 40]), st.booleans())


@settings(max_examples=40)
@given(
    st.lists(drawn, min_size=1, max_size=3), st.integers(1, 8), st.integers(2, 12),
    st.sampled_from(["groups", "classes", None]),
)  # fmt: skip
def test_bands_add_up_to_the_definition(
    asked: list[tuple[int, int, bool]], tall: int, wide: int, path: Path | None
) -> None:
    weights = torch.rand(BATCH, HEADS, N_QUERY, N_KEY, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    named = {f"question {number}": some_question(*each) for number, each in enumerate(asked)}
    plans = {name: plan(each, "cpu", path) for name, each in named.items()}
    for item in range(BATCH):
        found = in_bands(plans, weights, item, list(range(tall, N_QUERY, tall)), list(range(wide, N_KEY, wide)))
        assert set(found) == set(named)
        for name, question in named.items():
            assert_close(found[name], by_pairs(question, weights, item))
