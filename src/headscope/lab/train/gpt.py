"""A small GPT built on MultiHeadAttention: rotary positions, RMSNorm, a gated MLP, tied embeddings.

It is the Llama architecture, so its weights convert to transformers' layout by renaming alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.errors import ShapeError


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The sizes of a GPT. ``context`` is the length it is trained for; longer texts are allowed."""

    vocabulary: int
    d_model: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_mlp: int | None = None
    context: int = 256
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.n_heads > self.d_model:
            raise ShapeError(
                f"n_heads={self.n_heads} with d_model={self.d_model}: each head needs at least 2 dimensions"
            )
        if self.d_model % self.n_heads or self.d_head % 2:
            raise ShapeError(
                f"d_model={self.d_model} does not divide into n_heads={self.n_heads} of an even d_head, as RoPE needs"
            )
        if min(self.vocabulary, self.n_layers, self.context) < 1:
            raise ShapeError(f"sizes must be at least 1: {self}")

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def mlp_width(self) -> int:
        """d_mlp, by default 3 × d_model: as many weights as an ungated MLP of 4.5 × d_model."""
        return 3 * self.d_model if self.d_mlp is None else self.d_mlp


class _GatedMLP(nn.Module):
    """SwiGLU: SiLU of one projection gates the other."""

    def __init__(self, d_model: int, d_mlp: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d_model, d_mlp, bias=False)
        self.up_proj = nn.Linear(d_model, d_mlp, bias=False)
        self.down_proj = nn.Linear(d_mlp, d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token d_model"]:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class _Block(nn.Module):
    """Pre-norm attention and MLP, each added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        rope = Rope(config.d_head, base=config.rope_base)
        self.attention_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.attention = MultiHeadAttention(config.d_model, config.n_heads, config.kv_heads, out_bias=False, rope=rope)
        self.mlp_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.mlp = _GatedMLP(config.d_model, config.mlp_width)

    def forward(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token d_model"]:
        x = x + self.attention(self.attention_norm(x), mask=causal())
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Tokens in, logits of the next token out."""

    def __init__(self, config: GPTConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.initialise(seed)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw normal weights; those that write to the residual stream are scaled down with depth."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                weight.fill_(1.0)
                continue
            residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            std = 0.02 / (2 * self.config.n_layers) ** 0.5 if residual else 0.02
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)

    def forward(self, tokens: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token vocabulary"]:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)

    def loss(self, rows: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens-1"]:
        """Cross-entropy of each token after the first, in nats."""
        logits = self(rows[:, :-1])
        losses = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), reduction="none")
        return losses.view(rows.shape[0], -1)

    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())
