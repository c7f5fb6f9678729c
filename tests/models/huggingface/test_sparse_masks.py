"""Masks of a few model families, element by element against plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.engine import observe
from headscope.attention.masks import Mask, causal
from headscope.attention.scores import Scores
from headscope.errors import MaskError
from headscope.models.huggingface.sparse_masks import IndexedKeys, RealKeys


def indexed_by_loops(indices: Tensor, n_heads: int, width: int, n_key: int) -> Tensor:
    """A key is visible where its block was selected for the group of the query head."""
    batch, groups, n_query, _ = indices.shape
    allowed = torch.zeros(batch, n_heads, n_query, n_key, dtype=torch.bool)
    for item in range(batch):
        for head in range(n_heads):
            for query in range(n_query):
                blocks = indices[item, head * groups // n_heads, query].tolist()
                for key in range(n_key):
                    allowed[item, head, query, key] = key // width in blocks
    return allowed


def some_indices(groups: int, blocks: int, seed: int, n_query: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, blocks, (2, groups, n_query, 3), generator=generator)


@given(groups=st.sampled_from([1, 2, 4]), width=st.integers(1, 4), n_key=st.integers(7, 13), seed=st.integers(0, 99))
def test_indexed_keys_are_those_of_the_selected_blocks(groups: int, width: int, n_key: int, seed: int) -> None:
    indices = some_indices(groups, -(-n_key // width), seed)
    mask = Mask((IndexedKeys(indices, 4, width),)).bind(2, 4, 7, n_key)
    assert torch.equal(mask.dense(7, n_key).expand(2, 4, 7, n_key), indexed_by_loops(indices, 4, width, n_key))


def test_a_block_of_rows_and_keys_is_a_slice_of_the_whole() -> None:
    indices = some_indices(2, 5, seed=3)
    part, whole = IndexedKeys(indices, 4, 2), indexed_by_loops(indices, 4, 2, 10)
    rows, columns = torch.tensor([5, 0, 3]), torch.tensor([9, 2, 3, 8])
    assert torch.equal(part.block(rows, columns, 3), whole[:, :, rows][..., columns])
    assert part.block(rows, columns[:0], 3).shape == (2, 4, 3, 0)


def test_indices_beyond_the_keys_select_nothing() -> None:
    indices = torch.tensor([[[[0, 99, -1]], [[-1, -1, 7]]]])
    found = IndexedKeys(indices, 2).block(torch.arange(1), torch.arange(4), 3)
    assert found[0, :, 0].tolist() == [[True, False, False, False], [False] * 4]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_one_head_alone_has_the_keys_selected_for_it(groups: int) -> None:
    """Each head's pattern, asked for alone, is its slice of the pattern of all heads."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 7, 8, dtype=torch.float64), torch.randn(2, 2, 7, 8, dtype=torch.float64)
    indices = some_indices(groups, 4, seed=5)
    indices[..., 0] = torch.arange(7) // 2
    seen = observe(q, k, k, scores=Scores(mask=causal() & Mask((IndexedKeys(indices, 4, 2),))))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k.repeat_interleave(2, 1)) / 8**0.5
    allowed = indexed_by_loops(indices, 4, 2, 7) & torch.ones(7, 7, dtype=torch.bool).tril()
    expected = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
    assert_close(seen.weights(), expected)
    for head in range(4):
        assert_close(seen.weights(head=head), expected[:, head : head + 1])
        assert_close(seen.pooled(head, (7, 7)).mean, expected[:, head])


def test_real_keys_mask_the_padding_at_any_position() -> None:
    real = torch.tensor([[True, False, True, True], [False, True, True, False]])
    mask = Mask((RealKeys(real),)).bind(2, 3, 2, 4)
    assert torch.equal(mask.dense(2, 4), real[:, None, None, :].expand(2, 1, 2, 4))
    assert torch.equal(mask.block(torch.tensor([1]), torch.tensor([3, 0]), 2), real[:, None, None, [3, 0]])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (RealKeys(torch.ones(3, 9, dtype=torch.bool)), r"padding of shape \(3, 9\) does not fit batch 2 and 9 keys"),
        (RealKeys(torch.ones(2, 8, dtype=torch.bool)), r"padding of shape \(2, 8\) does not fit batch 2 and 9 keys"),
        (
            IndexedKeys(torch.zeros(3, 1, 5, 2).long(), 4),
            r"\(3, 1, 5, 2\) do not fit batch 2, 4 heads and 5 queries",
        ),
        (IndexedKeys(torch.zeros(2, 3, 5, 2).long(), 4), r"shape \(2, 3, 5, 2\) do not fit batch 2, 4 heads"),
        (
            IndexedKeys(torch.zeros(2, 2, 6, 2).long(), 4),
            r"\(2, 2, 6, 2\) do not fit batch 2, 4 heads and 5 queries",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shape(part: RealKeys | IndexedKeys, message: str) -> None:
    with pytest.raises(MaskError, match=message):
        Mask((part,)).bind(2, 4, 5, 9)


def test_such_masks_bound_nothing_and_print_their_shapes() -> None:
    """No block may be skipped, and none taken as fully visible, because of these masks."""
    mask = Mask((RealKeys(torch.ones(1, 9, dtype=torch.bool)), IndexedKeys(torch.zeros(1, 1, 5, 2).long(), 4, 3)))
    assert mask.visible_to_any(0, 5, 4, 9) == (0, 9)
    assert mask.visible_to_all(0, 5, 4, 9) == (0, 0)
    assert repr(mask) == "real_keys(<1×9>) & indexed_keys(<1×1×5×2>, width=3)"
