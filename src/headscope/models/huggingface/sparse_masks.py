"""Masks that only some families hand over: real keys in any order, and keys chosen for each query by an indexer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.masks import Allowed, Columns, Part, Rows
from headscope.errors import MaskError


@dataclass(frozen=True, eq=False)
class RealKeys(Part):
    """Padding that is neither all left nor all right: one truth value a key."""

    real: Bool[Tensor, "#batch key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return self.real.to(columns.device)[:, None, None, columns].expand(-1, 1, len(rows), -1)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.real.shape[0] not in (1, batch) or self.real.shape[1] != n_key:
            raise MaskError(f"padding of shape {tuple(self.real.shape)} does not fit batch {batch} and {n_key} keys")

    def __repr__(self) -> str:
        return f"real_keys(<{'×'.join(map(str, self.real.shape))}>)"


@dataclass(frozen=True, eq=False)
class ChosenKeys(Part):
    """Keys that an indexer chose for each query (DeepSeek sparse attention), in blocks of ``width`` keys (MiniMax).

    ``indices`` count blocks; −1 is an empty place. Its heads are shared by groups of query heads.
    """

    indices: Int[Tensor, "batch index_head query chosen"]
    n_heads: int
    width: int = 1

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        indices = self.indices.to(columns.device)[:, :, rows].long()
        blocks = columns // self.width
        last = int(blocks.max()) + 1 if len(blocks) else 0
        indices = torch.where((indices < 0) | (indices > last), last, indices)
        chosen = torch.zeros(*indices.shape[:3], last + 1, dtype=torch.bool, device=columns.device)
        chosen.scatter_(-1, indices, True)
        groups = self.n_heads // indices.shape[1] if indices.shape[1] > 1 else 1
        return chosen[..., blocks].repeat_interleave(groups, dim=1)

    def only(self, head: int) -> ChosenKeys:
        """What was chosen for one query head."""
        at = head * self.indices.shape[1] // self.n_heads
        return ChosenKeys(self.indices[:, at : at + 1], 1, self.width)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        shape = tuple(self.indices.shape)
        if shape[0] not in (1, batch) or n_heads % shape[1] or shape[2] != n_query:
            raise MaskError(f"chosen keys of shape {shape} do not fit {batch}×{n_heads} heads and {n_query} queries")

    def __repr__(self) -> str:
        return f"chosen_keys(<{'×'.join(map(str, self.indices.shape))}>, width={self.width})"
