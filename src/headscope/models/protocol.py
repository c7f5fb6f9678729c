"""The values that go in and out of an opened model; ``recording.OpenModel`` is the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call

SiteObserver = Callable[[str, Call], Tensor]
"""Given a site's name and its attention call, returns z ``[batch, head, query, d_value]``."""

KEEP = "logits_to_keep"
"""The argument with which many models make logits of some positions alone."""

HeadSum = Literal["exact", "head-local", "mixed"]
Layout = Literal["batch first", "query first", "other"]


@dataclass(frozen=True)
class Token:
    """One token: its id, its text, and its character span in the input (None for added tokens)."""

    id: int
    text: str
    start: int | None = None
    end: int | None = None

    def __repr__(self) -> str:
        return f"Token({self.text!r}, id {self.id})"


@dataclass(frozen=True)
class Prepared:
    """The tensors that a model is called with, and the token at each position."""

    inputs: Mapping[str, Tensor]
    tokens: tuple[Token, ...]
    decoder_tokens: tuple[Token, ...] = ()
    """The decoder's tokens, in an encoder-decoder."""
    stacks: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    """Positions of stacks that read something beside the text (image patches), by the first word of their sites."""
    samples: Float[Tensor, " sample"] | None = None
    """The sound that was given, before features were made of it."""
    sampling_rate: int | None = None
    context: tuple[Token, ...] = ()
    """What cross-attention reads, where that is not the tokens: the words that a denoiser is given."""


@dataclass(frozen=True)
class OutputWeight:
    """W_O of a site by head, its bias, and how the heads' parts add up.

    ``exact``: z itself is W_O's input. ``head-local``: a gate or norm acts on each head between z and W_O, so parts
    are taken at W_O's input. ``mixed``: something there mixes the heads; parts are not each head's own.
    """

    weight: Float[Tensor, "head d_value d_model"]
    bias: Float[Tensor, " d_model"] | None
    kind: HeadSum
    why: str = ""
    layout: Layout = "batch first"
    """The order of the rows of W_O's input: as in z, with batch and query exchanged, or another."""
    post_norm: torch.nn.Module | None = None
    """A norm between W_O and the residual stream (Gemma 2, OLMo 2): head parts are before it."""


@dataclass(frozen=True)
class Unembedding:
    """From the residual stream to logits: the final norm, then the rows of W_U."""

    norm: torch.nn.Module | None
    weight: Float[Tensor, "vocabulary d_model"]
    bias: Float[Tensor, " vocabulary"] | None
    note: str = ""
    """How logit attribution treats the final norm, a scale or a cap on the logits."""
    caps: bool = False
    """Whether the model's logits are these after a cap, which is not linear."""


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass: its logits (or last hidden states, where a model has no logits), and the end of its stream."""

    logits: Float[Tensor, "batch query vocabulary"]
    residual: Float[Tensor, "batch row d_model"] | None
    """The input of the final norm, where it was asked for."""
