"""A small model of headscope's own attention, in layers with an MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = (
            MultiHeadAttention(16, 4),
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
        )
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), mask=causal())
        out: Tensor = x + self.mlp(self.second(x))
        return out


class Blocks(nn.Module):
    """Two layers, a final norm and W_U."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layers = nn.Embedding(13, 16), nn.ModuleList(_Block() for _ in range(2))
        self.norm, self.out = nn.LayerNorm(16), nn.Linear(16, 13)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.out(self.norm(x))
        return out
