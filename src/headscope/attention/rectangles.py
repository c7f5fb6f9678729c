"""Any rectangle of a pattern from q, k and the log-sum-exp alone: p_ij = exp(s_ij − lse_i)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.masks import Dense, Mask
from headscope.attention.scores import Alibi, DenseBias, Relative, Scores
from headscope.errors import ShapeError

Index = slice | Int[Tensor, " chosen"]

BLOCK = 512


@dataclass(frozen=True)
class Source:
    """What a pattern is recomputed from. ``scores`` is bound to the whole of q and k."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    logsumexp: Float[Tensor, "batch head query"]
    scores: Scores

    def only(self, head: int | None) -> Source:
        """The same, for one head."""
        if head is None:
            return self
        n_heads, group = self.q.shape[1], self.q.shape[1] // self.k.shape[1]
        if not 0 <= head < n_heads:
            raise ShapeError(f"head {head}: there are heads 0–{n_heads - 1}")
        kv = head // group
        one = slice(head, head + 1)
        return Source(self.q[:, one], self.k[:, kv : kv + 1], self.logsumexp[:, one], _one_head(self.scores, head))


class Pooled(NamedTuple):
    """A pattern as a picture: each cell is the mean, and the maximum, of the weights it covers."""

    mean: Float[Tensor, "batch height width"]
    maximum: Float[Tensor, "batch height width"]


def weights(source: Source, rows: Index, columns: Index) -> Float[Tensor, "batch head query key"]:
    """The weights of these rows and columns."""
    row_index = _indices(rows, source.q.shape[2], source.q.device)
    column_index = _indices(columns, source.k.shape[2], source.q.device)
    offset = source.k.shape[2] - source.q.shape[2]
    scores = source.scores.block(
        source.q[:, :, row_index], source.k[:, :, column_index], row_index, column_index, offset
    )
    lse = source.logsumexp[:, :, row_index, None].to(scores)
    return torch.exp(scores - lse.masked_fill(lse.isneginf(), 0.0))


def pooled(source: Source, shape: tuple[int, int], rows: slice, columns: slice) -> Pooled:
    """One head's rectangle in ``shape`` cells. Works block by block; cells split rows and columns as evenly as can be."""
    row_index = _indices(rows, source.q.shape[2], source.q.device)
    column_index = _indices(columns, source.k.shape[2], source.q.device)
    height, width = min(shape[0], len(row_index)), min(shape[1], len(column_index))
    if height < 1 or width < 1:
        raise ShapeError(f"a picture of {shape[0]}×{shape[1]} cells over {len(row_index)} rows and "
                         f"{len(column_index)} columns is empty")
    batch = source.q.shape[0]
    mean = torch.zeros(batch, height, width, dtype=source.logsumexp.dtype, device=source.q.device)
    maximum = torch.zeros_like(mean)
    for row_cells in _cell_blocks(len(row_index), height, source.q.device):
        for column_cells in _cell_blocks(len(column_index), width, source.q.device):
            part = weights(source, row_index[row_cells.items], column_index[column_cells.items])[:, 0]
            _pool_into(part, row_cells, column_cells, mean, maximum)
    return Pooled(mean, maximum)


class _Cells(NamedTuple):
    """Consecutive items, and the cell that each belongs to."""

    items: slice
    cell: Int[Tensor, " item"]
    first: int
    count: int
    sizes: Float[Tensor, " cell"]


def _cell_blocks(n_items: int, n_cells: int, device: torch.device) -> list[_Cells]:
    """Cells in runs whose items together make about one block."""
    edges = [n_items * cell // n_cells for cell in range(n_cells + 1)]
    blocks, first = [], 0
    for cell in range(1, n_cells + 1):
        if cell == n_cells or edges[cell + 1] - edges[first] > BLOCK:
            sizes = torch.tensor([b - a for a, b in zip(edges[first:cell], edges[first + 1 : cell + 1], strict=True)])
            owner = torch.repeat_interleave(torch.arange(cell - first), sizes).to(device)
            blocks.append(_Cells(slice(edges[first], edges[cell]), owner, first, cell - first, sizes.to(device)))
            first = cell
    return blocks


def _pool_into(part: Tensor, rows: _Cells, columns: _Cells, mean: Tensor, maximum: Tensor) -> None:
    batch, n_rows, _ = part.shape
    wide_sum = part.new_zeros(batch, n_rows, columns.count).index_add_(2, columns.cell, part)
    wide_max = part.new_zeros(batch, n_rows, columns.count).index_reduce_(2, columns.cell, part, "amax")
    sums = part.new_zeros(batch, rows.count, columns.count).index_add_(1, rows.cell, wide_sum)
    largest = part.new_zeros(batch, rows.count, columns.count).index_reduce_(1, rows.cell, wide_max, "amax")
    area = rows.sizes[:, None] * columns.sizes[None, :]
    here = (slice(None), slice(rows.first, rows.first + rows.count), slice(columns.first, columns.first + columns.count))
    mean[here], maximum[here] = sums / area, largest


def _indices(index: Index, length: int, device: torch.device) -> Int[Tensor, " chosen"]:
    if isinstance(index, slice):
        return torch.arange(length, device=device)[index]
    if len(index) and not -length <= int(index.min()) <= int(index.max()) < length:
        raise ShapeError(f"indices {int(index.min())}…{int(index.max())} go beyond the {length} positions there are")
    return index.to(device) % max(length, 1)


def _one_head(scores: Scores, head: int) -> Scores:
    """The scores of one head: per-head masks, biases and sinks cut down to it."""
    one = slice(head, head + 1)
    parts = tuple(
        Dense(part.allowed[:, one]) if isinstance(part, Dense) and part.allowed.shape[1] > 1 else part
        for part in scores.mask.parts
    )
    bias = scores.bias
    if isinstance(bias, DenseBias) and bias.values.shape[1] > 1:
        bias = DenseBias(bias.values[:, one])
    elif isinstance(bias, Alibi):
        bias = Alibi(bias.slopes[one])
    elif isinstance(bias, Relative):
        bias = Relative(bias.table[one], bias.zero)
    sinks = None if scores.sinks is None else scores.sinks[one]
    return Scores(scale=scores.scale, mask=Mask(parts), bias=bias, softcap=scores.softcap, sinks=sinks)
