"""Training batches: a pure function of seed and step, with repeats at varying distances."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.lab.train.batches import FOLD, LONGEST, MOST_COPIES, SHORTEST, BatchSampler, TokenStream

COUNT = torch.arange(1, 901, dtype=torch.int32).repeat(20)


def rows(repeats: float = 0.5, seed: int = 0) -> BatchSampler:
    return BatchSampler([TokenStream("counting", COUNT, 1.0)], 1000, repeats=repeats, seed=seed)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    made = rows()
    later = made.batch(7, 8, 64)
    made.batch(3, 8, 64)
    assert torch.equal(made.batch(7, 8, 64), later)
    assert not torch.equal(rows(seed=1).batch(7, 8, 64), later)


def distances(row: torch.Tensor) -> set[int]:
    """How far back the last four tokens were last seen, at every place where they were."""
    seen: dict[tuple[int, ...], int] = {}
    found = set()
    for end in range(4, len(row)):
        key = tuple(row[end - 4 : end].tolist())
        if key in seen:
            found.add(end - seen[key])
        seen[key] = end
    return found


@pytest.mark.parametrize("context", [512, 2048])
def test_repeated_rows_repeat_at_many_distances(context: int) -> None:
    made = rows(repeats=1.0)
    found = [distances(row) for step in range(4) for row in made.batch(step, 4, context)[:, 1:]]
    assert all(found)
    assert len(set().union(*found)) > 12


def test_texts_are_taken_by_weight() -> None:
    streams = [TokenStream("low", torch.full((500,), 1), 3.0), TokenStream("high", torch.full((500,), 2), 1.0)]
    batch = BatchSampler(streams, 10, repeats=0.0, seed=0).batch(0, 2000, 8)
    assert (batch[:, 1] == 1).float().mean().item() == pytest.approx(0.75, abs=0.04)


class Marked(BatchSampler):
    """A sampler whose text is one token, so that repeated segments are visible."""

    def windows(self, n_rows: int, width: int) -> torch.Tensor:
        return torch.arange(100, 100 + width).repeat(n_rows, 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(40, 600), st.integers(0, 10_000))
def test_a_segment_is_repeated_whole_two_to_five_times_and_nothing_else_changes(width: int, seed: int) -> None:
    made = Marked([TokenStream("t", torch.arange(9), 1.0)], 1000, repeats=1.0, seed=0)
    made.generator.manual_seed(seed)
    before = torch.full((4, width), -1)
    after = made.with_repeats(before.clone())
    for number, row in enumerate(after.tolist()):
        pasted = [token for token in row if token != -1]
        length = next(size for size in range(SHORTEST, LONGEST + 1) if _is_copies(pasted, size))
        copies = len(pasted) // length
        assert 2 <= copies <= MOST_COPIES
        assert len(pasted) == copies * length <= width
        if number % 2:
            assert pasted[:length] == list(range(100, 100 + length)), "text, from the beginning of a window"
        else:
            assert all(1 <= token < 1000 for token in pasted), "random tokens, never the start token"


def test_a_row_longer_than_the_fold_has_repeats_in_each_part() -> None:
    made = BatchSampler([TokenStream("t", torch.arange(1, 20_001), 1.0)], 30_000, repeats=1.0, seed=0)
    whole = made.batch(0, 80, FOLD)[::2, 1:]
    assert max(max(distances(row)) for row in whole) > FOLD // 2
    context = 3 * FOLD + 99
    for row in made.batch(0, 8, context)[::2]:
        pieces = row[:context].view(3, -1)
        assert all(distances(piece[1:]) for piece in pieces), "each holds a repeat"
        assert max(distances(row)) < pieces.shape[1], "and none of another's"


def _is_copies(tokens: list[int], size: int) -> bool:
    """Whether the tokens are one stretch of this size, several times."""
    return len(tokens) % size == 0 and len(tokens) >= 2 * size and tokens == tokens[:size] * (len(tokens) // size)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(20, 60), min_size=1, max_size=4), st.integers(0, 999))
def test_a_window_stays_within_one_text_and_reaches_every_position(lengths: list[int], seed: int) -> None:
    streams = [TokenStream(str(n), torch.arange(size) + 1000 * (n + 1), 1.0) for n, size in enumerate(lengths)]
    batch = BatchSampler(streams, 9999, repeats=0.0, seed=seed).batch(0, 1500, 18)[:, 1:]
    assert ((batch[:, 1:] - batch[:, :-1]) == 1).all()
    for number, size in enumerate(lengths):
        mine = batch[batch[:, 0] // 1000 == number + 1]
        assert set((mine[:, 0] % 1000).tolist()) <= set(range(1, size - 17))
    if len(lengths) == 1:
        assert {int(batch[:, 0].min()), int(batch[:, -1].max())} == {1001, 1000 + lengths[0] - 1}
