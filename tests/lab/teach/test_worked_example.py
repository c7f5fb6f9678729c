"""The worked example equals the definition of attention."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.attention import reference
from headscope.lab.teach.worked_example import WorkedExample, _softmax, work


def test_from_the_start_it_is_the_definition_of_attention() -> None:
    worked = work()
    example = worked.example
    x = torch.tensor([example.x[example.reader]], dtype=torch.float64)
    context = torch.tensor([example.x[word] for word in example.words], dtype=torch.float64)
    allowed = torch.ones(1, len(example.words), dtype=torch.bool)
    for head, done in zip(example.heads, worked.heads, strict=True):
        matrices = [torch.tensor(matrix, dtype=torch.float64) for matrix in (head.W_Q, head.W_K, head.W_K)]
        theirs = reference.one_head(x, context, reference.HeadWeights(*matrices), allowed).weights[0]
        assert list(done.weights.values()) == pytest.approx(theirs.tolist())
    joined = torch.tensor([worked.concatenated], dtype=torch.float64)
    assert worked.mixed == pytest.approx((joined @ torch.tensor(example.W_O, dtype=torch.float64))[0].tolist())


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_any_number_of_heads_is_concatenated_and_mixed(n_heads: int) -> None:
    """What a head delivers stands in its own four numbers."""
    W_O = [[row + 10 * column for column in range(3)] for row in range(4 * n_heads)]
    head = WorkedExample().heads[0]
    worked = work(WorkedExample(heads=[head] * n_heads, W_O=W_O))
    assert worked.concatenated == worked.heads[0].z * n_heads
    sums = [sum(a * row[column] for a, row in zip(worked.concatenated, W_O, strict=True)) for column in range(3)]
    assert worked.mixed == pytest.approx(sums)


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6), st.floats(-2000, 2000))
def test_softmax_sums_to_one_and_is_invariant_to_a_shift(scores: list[float], shift: float) -> None:
    shares = _softmax({str(place): score for place, score in enumerate(scores)})
    moved = _softmax({str(place): score + shift for place, score in enumerate(scores)})
    theirs = torch.tensor(scores, dtype=torch.float64).softmax(0)
    assert list(shares.values()) == pytest.approx(theirs.tolist())
    assert list(moved.values()) == pytest.approx(theirs.tolist(), abs=1e-9)
