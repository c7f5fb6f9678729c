"""Masks of a few model families: padding at any position, and keys selected for each query by an indexer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.masks import Allowed, Columns, Part, Rows
from headscope.errors import MaskError


@dataclass(frozen=True, eq=False)
class RealKeys(Part):
    """Padding that is neither all left nor all right: one boolean per key."""

    real: Bool[Tensor, "#batch key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return self.real.to(columns.device)[:, None, None, columns].expand(-1, 1, len(rows), -1)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.real.shape[0] not in (1, batch) or self.real.shape[1] != n_key:
            raise MaskError(f"padding of shape {tuple(self.real.shape)} does not fit batch {batch} and {n_key} keys")

    def __repr__(self) -> str:
        return f"real_keys(<{'×'.join(map(str, self.real.shape))}>)"


@dataclass(frozen=True, eq=False)
class IndexedKeys(Part):
    """Keys that an indexer selected for each query (DeepSeek sparse attention), in blocks of ``width`` keys (MiniMax).

    ``indices`` count blocks; −1 selects nothing. Index heads are shared by groups of query heads.
    """

    indices: Int[Tensor, "batch index_head query selected"]
    n_heads: int
    width: int = 1

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        indices = self.indices.to(columns.device)[:, :, rows].long()
        blocks = columns // self.width
        last = int(blocks.max()) + 1 if len(blocks) else 0
        indices = torch.where((indices < 0) | (indices > last), last, indices)
        selected = torch.zeros(*indices.shape[:3], last + 1, dtype=torch.bool, device=columns.device)
        selected.scatter_(-1, indices, True)
        groups = self.n_heads // indices.shape[1] if indices.shape[1] > 1 else 1
        return selected[..., blocks].repeat_interleave(groups, dim=1)

    def only(self, head: int) -> IndexedKeys:
        """The keys selected for one query head."""
        at = head * self.indices.shape[1] // self.n_heads
        return IndexedKeys(self.indices[:, at : at + 1], 1, self.width)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        shape = tuple(self.indices.shape)
        if shape[0] not in (1, batch) or n_heads % shape[1] or shape[2] != n_query:
            raise MaskError(f"indices of shape {shape} do not fit batch {batch}, {n_heads} heads and {n_query} queries")

    def __repr__(self) -> str:
        return f"indexed_keys(<{'×'.join(map(str, self.indices.shape))}>, width={self.width})"
