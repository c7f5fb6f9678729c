"""The interface of an opened model, and the values that go through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.names import ModelShape

if TYPE_CHECKING:
    from headscope.models.finite import PassCheck
    from headscope.models.inputs.tokens import InputProcessor

SiteObserver = Callable[[str, Call], Tensor]
"""Given a site's name and its attention call, returns z ``[batch, head, query, d_value]``."""

HeadSum = Literal["exact", "head-local", "mixed"]


@dataclass(frozen=True)
class Token:
    """One token: its id, its text, and its character span in the input (None for added tokens)."""

    id: int
    text: str
    start: int | None = None
    end: int | None = None


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
    post_norm: torch.nn.Module | None = None
    """A norm between W_O and the residual stream (Gemma 2, OLMo 2): head parts are before it."""


@dataclass(frozen=True)
class SiteOutput:
    """The input of one site's W_O, by head, and its output."""

    x: Float[Tensor, "batch query head d_value"]
    output: Float[Tensor, "batch query d_model"]

    @classmethod
    @torch.no_grad()
    def of(cls, matrix: torch.nn.Module, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput:
        """Concatenate the heads of z and apply W_O."""
        x = z.transpose(1, 2)
        return cls(x, matrix(x.flatten(2)))


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
    """One forward pass: its logits (or last hidden states, where a model has no logits), and what was recorded."""

    logits: Float[Tensor, "batch query vocabulary"]
    outputs: Mapping[str, SiteOutput]
    residual: Float[Tensor, "batch row d_model"] | None
    """The input of the final norm, where it was asked for."""


@runtime_checkable
class OpenModel(Protocol):
    """A model whose attention calls can be observed and edited."""

    shape: ModelShape
    notes: Sequence[str]
    """Warnings for the user: parts that are not observed, how weights were loaded, and so on."""

    self_check: Any
    """The result of the self-check; ``str()`` of it is the full text."""

    end_tokens: frozenset[int]
    """Tokens that end a text."""

    processor: InputProcessor
    """Tokenizes and decodes."""

    @property
    def model(self) -> torch.nn.Module: ...

    def prepare(self, text: Any) -> Prepared:
        """Turn text, token ids, chat messages, an image or sound into tensors; refuse anything else."""
        ...

    def run(
        self,
        inputs: Mapping[str, Tensor],
        observer: SiteObserver | None = None,
        *,
        outputs: Sequence[str] = (),
        residual: bool = False,
        row: int | None = None,
    ) -> ForwardPass:
        """Run one forward pass, recording W_O at the sites in ``outputs`` and the final residual stream.

        With ``row``, only that position of outputs and residual is kept. Gradients flow where the caller lets them.
        """
        ...

    def observing(self, observer: SiteObserver) -> AbstractContextManager[PassCheck]:
        """Pass every attention call inside the block to the observer, for calls not made by ``run`` (generate).

        The check has seen z of every call; whoever reads the result verifies it.
        """
        ...

    def output_weight(self, site: str) -> OutputWeight: ...
    def apply_output_weight(self, site: str, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput | None:
        """Apply W_O to z; None where W_O's input is not z itself."""
        ...

    def query_weight(self, site: str) -> Float[Tensor, "head d_model d_head"]:
        """W_Q by head, before any rotation or norm; refused by name where it cannot be found."""
        ...

    def key_weight(self, site: str) -> Float[Tensor, "kv d_model d_head"]: ...
    def value_weight(self, site: str) -> Float[Tensor, "kv d_model d_value"]: ...
    def embedding(self) -> Float[Tensor, "vocabulary d_model"]: ...
    def unembedding(self) -> Unembedding: ...
    def unembedding_input(self) -> torch.nn.Module | None:
        """The module whose input is the residual stream that predictions are read from; None where none was found."""
        ...

    def output_matrix(self, site: str) -> torch.nn.Module:
        """The module of W_O; refused with the reason where no single matrix takes the heads."""
        ...

    def site_modules(self) -> Mapping[str, torch.nn.Module]:
        """The attention module of each site."""
        ...

    def close(self) -> None:
        """Restore the model to the state it was opened in."""
        ...
