"""A transformer small enough to write by hand or to train in seconds; the lab's models are built on it.

Learned position embeddings, attention blocks with or without norm and FFN, an unembedding. Embeddings are not tied,
so that every matrix can be set and read on its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.attention.masks import causal, full
from headscope.attention.module import MultiHeadAttention
from headscope.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TinyConfig:
    """The sizes of a tiny transformer: no FFN with ``d_ff=0``, no residual connection without ``residual``."""

    vocabulary: int
    context: int
    d_model: int
    n_layers: int = 1
    n_heads: int = 1
    n_kv_heads: int | None = None
    d_head: int | None = None
    d_ff: int = 0
    norm: bool = False
    causal: bool = True
    residual: bool = True


class TinyBlock(nn.Module):
    """Attention and an optional FFN; each adds to the residual stream."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.mask = causal() if config.causal else full()
        self.residual = config.residual
        self.attention_norm = nn.RMSNorm(config.d_model) if config.norm else nn.Identity()
        self.attention = MultiHeadAttention(
            config.d_model, config.n_heads, config.n_kv_heads, config.d_head, out_bias=False
        )
        self.ffn_norm = nn.RMSNorm(config.d_model) if config.norm and config.d_ff else nn.Identity()
        self.ffn: nn.Module | None = None
        if config.d_ff:
            up, down = nn.Linear(config.d_model, config.d_ff), nn.Linear(config.d_ff, config.d_model)
            self.ffn = nn.Sequential(up, nn.GELU(), down)

    def forward(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token d_model"]:
        added = self.attention(self.attention_norm(x), mask=self.mask)
        x = x + added if self.residual else added
        return x if self.ffn is None else x + self.ffn(self.ffn_norm(x))


class TinyTransformer(nn.Module):
    """Token ids in, logits out."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.blocks = nn.ModuleList(TinyBlock(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model) if config.norm else nn.Identity()
        self.unembedding = nn.Linear(config.d_model, config.vocabulary, bias=False)

    def embed(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token d_model"]:
        """Token plus position embeddings."""
        length, context = ids.shape[1], self.config.context
        if length > context:
            raise InputError(f"{length} tokens, but the context of this model is {context}; use a larger context")
        return self.embedding(ids) + self.positions.weight[:length]  # type: ignore[no-any-return]

    def forward(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token vocabulary"]:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.unembedding(self.norm(x))  # type: ignore[no-any-return]

    def attention(self, layer: int = 0) -> MultiHeadAttention:
        """The attention module of one layer."""
        block = self.blocks[layer]
        assert isinstance(block, TinyBlock)
        return block.attention

    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw normal weights, scaled by their input width; set biases to zero. Equal seeds give equal weights."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                continue
            std = 1.0 if name.startswith(("embedding", "positions")) else weight.shape[1] ** -0.5
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
        for name, bias in self.named_parameters():
            if name.endswith("bias"):
                bias.zero_()


class Adam:
    """Adam (Kingma & Ba 2015); torch.optim imports a compiler on first use, which takes longer than a fit."""

    def __init__(self, weights: Iterable[Tensor], rate: float) -> None:
        self.weights, self.rate, self.steps = list(weights), rate, 0
        self.mean = [torch.zeros_like(weight) for weight in self.weights]
        self.square = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def descend(self, loss: Float[Tensor, ""]) -> None:
        """Take one step on this loss."""
        gradients = torch.autograd.grad(loss, self.weights)
        self.steps += 1
        size, correction = self.rate / (1 - 0.9**self.steps), 1 - 0.999**self.steps
        for weight, gradient, mean, square in zip(self.weights, gradients, self.mean, self.square, strict=True):
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            weight.addcdiv_(mean, (square / correction).sqrt().add_(1e-8), value=-size)
