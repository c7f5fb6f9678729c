"""Training rows: a pure function of seed and step, with copies at distances that vary."""

from __future__ import annotations

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.rows import Rows, Stream

COUNT = torch.arange(1, 901, dtype=torch.int32).repeat(20)


def rows(repeats: float = 0.5, seed: int = 0) -> Rows:
    return Rows([Stream("counting", COUNT, 1.0)], 1000, repeats=repeats, seed=seed)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    made = rows()
    later = made.batch(7, 8, 64)
    made.batch(3, 8, 64)
    assert torch.equal(made.batch(7, 8, 64), later)
    assert not torch.equal(rows(seed=1).batch(7, 8, 64), later)


def test_every_row_begins_with_the_start_token_and_goes_on_as_text() -> None:
    batch = rows(repeats=0.0).batch(0, 16, 64)
    assert batch.shape == (16, 65)
    assert (batch[:, 0] == 0).all()
    assert ((batch[:, 2:] - batch[:, 1:-1]).remainder(900) == 1).all()


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


def test_half_of_the_repeats_are_random_tokens() -> None:
    batch = rows(repeats=1.0).batch(0, 2, 512)
    assert (batch[0] > 900).any()
    assert not (batch[1] > 900).any()


def test_texts_are_taken_by_weight() -> None:
    streams = [Stream("low", torch.full((500,), 1), 3.0), Stream("high", torch.full((500,), 2), 1.0)]
    batch = Rows(streams, 10, repeats=0.0, seed=0).batch(0, 2000, 8)
    assert (batch[:, 1] == 1).float().mean().item() == pytest.approx(0.75, abs=0.04)


def test_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="at least one text"):
        Rows([], 10, repeats=0.1, seed=0)
