"""Recompute any rectangle of an attention pattern from q, k and the log-sum-exp: p_ij = exp(s_ij − lse_i)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.attention.scores import Scores
from headscope.checked import summary
from headscope.errors import InputError, ShapeError

Index = slice | Int[Tensor, "_"]

BLOCK = 512
INEXACT = 2**-10
"""A weight exp(s − lse) is off by about |lse| · ε, relative: past this it is refused."""


@dataclass(frozen=True)
class PatternSource:
    """What a pattern is recomputed from. ``scores`` is bound to the whole of q and k.

    ``by_row`` and ``by_key`` multiply every weight of a row and of a key, as in norm-weighted patterns.
    """

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    logsumexp: Float[Tensor, "batch head query"]
    scores: Scores
    by_row: Float[Tensor, " query"] | None = None
    by_key: Float[Tensor, " key"] | None = None

    __repr__ = summary

    @classmethod
    def of(cls, q: Tensor, k: Tensor, scores: Scores) -> PatternSource:
        """Sum the rows of an unobserved source, block by block."""
        n_query, n_key, sums = q.shape[2], k.shape[2], []
        for rows in torch.split(torch.arange(n_query, device=q.device), BLOCK):
            bounds = scores.mask.visible_to_any(int(rows[0]), int(rows[-1]) + 1, n_key - n_query, n_key)
            columns = torch.arange(n_key, device=q.device)[slice(*bounds)]
            with torch.autocast(q.device.type, enabled=False):
                block = scores.block(q[:, :, rows], k[:, :, columns], rows, columns, n_key - n_query)
            if scores.sinks is not None:
                block = torch.cat((block, scores.sinks.to(block)[:, None, None].expand(*block.shape[:3], 1)), dim=-1)
            sums.append(block.detach().logsumexp(-1))
        return cls(q, k, torch.cat(sums, dim=-1), scores)

    def only(self, head: int | None) -> PatternSource:
        """Return the source of one head's pattern, or this one for ``None``."""
        if head is None:
            return self
        n_heads, group = self.q.shape[1], self.q.shape[1] // self.k.shape[1]
        if not 0 <= head < n_heads:
            raise ShapeError(f"there is no head {head}; heads are 0–{n_heads - 1}")
        kv = head // group
        one = slice(head, head + 1)
        q, k, lse = self.q[:, one], self.k[:, kv : kv + 1], self.logsumexp[:, one]
        return replace(self, q=q, k=k, logsumexp=lse, scores=self.scores.only(head))


class Pooled(NamedTuple):
    """A pattern reduced to fewer cells: each is the mean, and the maximum, of the weights it covers."""

    mean: Float[Tensor, "batch height width"]
    maximum: Float[Tensor, "batch height width"]

    def __repr__(self) -> str:
        return summary(self)


def refuse_large_scores(largest: float, dtype: torch.dtype, where: str) -> None:
    """Refuse scores so large that their last digit decides a weight. ``largest`` is a log-sum-exp, or NaN."""
    exact = INEXACT / torch.finfo(dtype).eps
    if not abs(largest) <= exact:
        kind = str(dtype).removeprefix("torch.")
        wide = "" if dtype == torch.float64 else "; open the model with dtype=torch.float64"
        raise InputError(
            f"{where}: attention scores reach {largest:.3g}; in {kind}, weights are exact to {INEXACT:.3f} up to "
            f"{exact:,.0f}{wide}"
        )


def weights(source: PatternSource, rows: Index, columns: Index) -> Float[Tensor, "batch head query key"]:
    """Compute the attention weights of these rows and columns."""
    row_index = _indices(rows, source.q.shape[2], source.q.device)
    column_index = _indices(columns, source.k.shape[2], source.q.device)
    offset = source.k.shape[2] - source.q.shape[2]
    with torch.autocast(source.q.device.type, enabled=False):
        scores = source.scores.block(
            source.q[:, :, row_index], source.k[:, :, column_index], row_index, column_index, offset
        )
    lse = source.logsumexp[:, :, row_index, None].to(scores)
    if lse.numel():
        largest = lse.masked_fill(lse.isneginf(), 0.0).abs().amax()
        refuse_large_scores(float(largest), source.logsumexp.dtype, "this pattern")
    block = scores.sub_(lse.masked_fill(lse.isneginf(), 0.0)).exp_()
    if source.by_row is not None:
        block *= source.by_row[row_index, None]
    if source.by_key is not None:
        block *= source.by_key[column_index]
    return block


def pooled(source: PatternSource, shape: tuple[int, int], rows: slice, columns: slice) -> Pooled:
    """Reduce a rectangle of one head's pattern to ``shape`` cells, as equal in size as can be, block by block."""
    row_index = _indices(rows, source.q.shape[2], source.q.device)
    column_index = _indices(columns, source.k.shape[2], source.q.device)
    height, width = min(shape[0], len(row_index)), min(shape[1], len(column_index))
    if height < 1 or width < 1:
        raise ShapeError(
            f"{len(row_index)} rows and {len(column_index)} columns cannot be pooled into {shape[0]}×{shape[1]} cells; "
            "give at least one of each"
        )
    n_query, n_key = source.q.shape[2], source.k.shape[2]
    mean = source.logsumexp.new_zeros(source.q.shape[0], height, width)
    maximum = torch.zeros_like(mean)
    for across in _cells(row_index, height):
        report_progress("drawing the pattern", across.at.start, height)
        first, last = int(across.items.min()), int(across.items.max())
        low, high = source.scores.mask.visible_to_any(first, last + 1, n_key - n_query, n_key)
        for down in _cells(column_index, width):
            if int(down.items.max()) >= low and int(down.items.min()) < high:
                part = weights(source, across.items.flatten(), down.items.flatten())[:, 0]
                part = part.view(-1, *across.items.shape, *down.items.shape)
                here = (slice(None), across.at, down.at)
                mean[here] += torch.einsum("bymxn,ym,xn->byx", part, across.share.to(part), down.share.to(part))
                maximum[here] = torch.maximum(maximum[here], part.amax((2, 4)))
    return Pooled(mean, maximum)


class _Cells(NamedTuple):
    """Neighbouring cells along one side, the positions that each covers, and what each position is of its mean.

    A shorter cell repeats its last position, which counts once.
    """

    at: slice
    items: Int[Tensor, "cell item"]
    share: Float[Tensor, "cell item"]


def _cells(index: Int[Tensor, "_"], n_cells: int) -> Iterator[_Cells]:
    """Runs of cells that cover about ``BLOCK`` positions together; a longer cell comes in parts."""
    edges = torch.arange(n_cells + 1, device=index.device) * len(index) // n_cells
    at_once = max(1, BLOCK * n_cells // len(index))
    for first in range(0, n_cells, at_once):
        start, stop = edges[:-1, None][first : first + at_once], edges[1:, None][first : first + at_once]
        for place in torch.split(torch.arange(int((stop - start).max()), device=index.device), BLOCK):
            share = (start + place < stop).double() / (stop - start)
            yield _Cells(slice(first, first + len(start)), index[torch.minimum(start + place, stop - 1)], share)


def _indices(index: Index, length: int, device: torch.device) -> Int[Tensor, " chosen"]:
    if isinstance(index, slice):
        return torch.arange(length, device=device)[index]
    if len(index) and not -length <= int(index.min()) <= int(index.max()) < length:
        raise ShapeError(f"indices {int(index.min())}…{int(index.max())} are outside of the {length} positions")
    return index.to(device) % max(length, 1)
