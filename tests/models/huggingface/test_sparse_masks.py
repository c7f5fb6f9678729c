"""Masks of a few model families, element by element against plain loops."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headscope.attention.masks import Mask
from headscope.models.huggingface.masks import IndexedKeys, RealKeys


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


def test_real_keys_mask_the_padding_at_any_position() -> None:
    real = torch.tensor([[True, False, True, True], [False, True, True, False]])
    mask = Mask((RealKeys(real),)).bind(2, 3, 2, 4)
    assert torch.equal(mask.dense(2, 4), real[:, None, None, :].expand(2, 1, 2, 4))
    assert torch.equal(mask.block(torch.tensor([1]), torch.tensor([3, 0]), 2), real[:, None, None, [3, 0]])
