"""Small modules in the forms that people write them in, with attention by sdpa and by eager code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, VOCABULARY = 32, 4, 50


class Attention(nn.Module):
    """Self-attention with a fused projection, as timm and nanoGPT write it."""

    def __init__(self, *, causal: bool = False, eager: bool = False) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.causal, self.eager = causal, eager
        self.drop = nn.Dropout(0.1)

    def heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return self.qkv(x).reshape(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)

    def pattern(self, x: Tensor) -> Tensor:
        q, k, _ = self.heads(x)
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        if self.causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
        return scores.softmax(-1)

    def weighted(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        if self.eager:
            return self.drop(self.pattern(x)) @ v
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.weighted(x).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A pre-norm layer."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(WIDTH), attention, nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """nanoGPT's form: logits at all positions where targets are given, at the last one otherwise."""

    def __init__(self, *, eager: bool = False) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(1024, WIDTH)
        self.h = nn.ModuleList(Block(Attention(causal=True, eager=eager)) for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class Vit(nn.Module):
    """timm's form: patches by a convolution, a class token, no logits by position."""

    def __init__(self, *, eager: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 8, 8)
        self.cls, self.pos = (nn.Parameter(torch.randn(1, n, WIDTH)) for n in (1, 13))
        self.blocks = nn.ModuleList(Block(Attention(eager=eager)) for _ in range(2))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(len(x), -1, -1), x), dim=1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def ids(length: int = 9) -> Tensor:
    return (torch.arange(length) * 7 + 3)[None] % VOCABULARY


def picture() -> Tensor:
    return torch.randn(1, 3, 24, 32, generator=torch.Generator().manual_seed(1))


def states(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed))


class CrossAttention(nn.Module):
    """Attention from one sequence to another; to itself where there is no other."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Denoiser(nn.Module):
    """A diffusion UNet's form: two resolutions, each with self-attention and attention to words; the time is added."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv2d(4, WIDTH, 3, padding=1)
        self.down, self.up = nn.Conv2d(WIDTH, WIDTH, 2, 2), nn.ConvTranspose2d(WIDTH, WIDTH, 2, 2)
        self.fine, self.coarse = (nn.ModuleList((CrossAttention(), CrossAttention())) for _ in range(2))
        self.out = nn.Conv2d(WIDTH, 4, 3, padding=1)

    def attend(self, x: Tensor, words: Tensor, level: nn.ModuleList) -> Tensor:
        sequence = x.flatten(2).transpose(1, 2)
        sequence = sequence + level[0](sequence)
        sequence = sequence + level[1](sequence, words)
        return sequence.transpose(1, 2).reshape(x.shape)

    def forward(self, sample: Tensor, timestep: Tensor, words: Tensor) -> Tensor:
        x = self.attend(self.into(sample) + torch.cos(timestep / 100), words, self.fine)
        return self.out(x + self.up(self.attend(self.down(x), words, self.coarse)))


def denoise(model: nn.Module, n_steps: int = 3) -> Tensor:
    """A pipeline's form: classifier-free guidance in one batch, and latents that are written into at every step."""
    latents = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(5)).repeat(2, 1, 1, 1)
    words = states(2, 5, seed=6)
    for time in reversed(range(n_steps)):
        without, given = model(latents, torch.tensor(100 * time), words).chunk(2)
        latents -= 0.1 * (without + 2 * (given - without))
    return latents
