"""What every opened model offers, whichever seam leads into it. The rooms above know models only through this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observer import Call
from headscope.names import ModelShape

SiteObserver = Callable[[str, Call], Tensor]
"""Given a site's name and its attention call, answers with z ``[batch, head, query, d_value]``."""

HeadSum = Literal["exact", "head-local", "mixed"]


@dataclass(frozen=True)
class Token:
    """One token of a text: its id, how it reads, and where it stands in the text (None for added ones)."""

    id: int
    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Prepared:
    """A text made ready for the model: the tensors it is called with, and the tokens they stand for."""

    inputs: Mapping[str, Tensor]
    tokens: tuple[Token, ...]
    decoder_tokens: tuple[Token, ...] = ()
    """Where a model reads one text and writes another: the tokens on the writing side."""
    stacks: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    """Places of stacks that read something beside the text, by the first word of their sites: a picture's patches."""


@dataclass(frozen=True)
class OutputWeight:
    """A site's W_O by head, its bias, and what kind of sum the head parts make.

    ``exact``: z itself is W_O's input. ``head-local``: a gate or norm acts on each head between z and W_O, so parts
    are taken at W_O's input. ``mixed``: something there mixes the heads; parts are not each head's own.
    """

    weight: Float[Tensor, "head d_value d_model"]
    bias: Float[Tensor, " d_model"] | None
    kind: HeadSum
    why: str = ""
    after: torch.nn.Module | None = None
    """A norm between W_O's output and the residual stream (Gemma 2, OLMo 2): parts are before it."""


@dataclass(frozen=True)
class SiteOutput:
    """What went into one site's W_O, by head, and what came out."""

    x: Float[Tensor, "batch query head d_value"]
    output: Float[Tensor, "batch query d_model"]

    @classmethod
    @torch.no_grad()
    def of(cls, matrix: torch.nn.Module, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput:
        """z, side by side as W_O reads it, and what W_O answers."""
        x = z.transpose(1, 2)
        return cls(x, matrix(x.flatten(2)))


def one_row(kept: Tensor, row: int | None) -> Tensor:
    """One position of what a pass keeps, as a tensor of its own; all of it if none is named."""
    return kept if row is None else kept[:, row : row + 1].clone()


@dataclass(frozen=True)
class Unembedding:
    """From the residual stream to logits: the final norm, then the rows of W_U."""

    norm: torch.nn.Module | None
    weight: Float[Tensor, "vocabulary d_model"]
    bias: Float[Tensor, " vocabulary"] | None
    note: str = ""
    """In words: how the final norm, a scale or a cap on the logits is treated when a logit is split over heads."""


@dataclass(frozen=True)
class Pass:
    """One forward pass: the logits (or, where a model has none, its last hidden states), and what was asked for."""

    logits: Float[Tensor, "batch query vocabulary"]
    outputs: Mapping[str, SiteOutput]
    residual: Float[Tensor, "batch row d_model"] | None
    """The input of the final norm, where it was asked for."""


@runtime_checkable
class OpenModel(Protocol):
    """A model under the microscope."""

    shape: ModelShape
    notes: Sequence[str]
    """What a person should know: parts that are not seen, how weights were loaded, and so on."""

    report: Any
    """The self-check; ``str()`` of it is the full text."""

    end_tokens: frozenset[int]
    """Tokens after which a text is over."""

    @property
    def model(self) -> torch.nn.Module: ...

    def prepare(self, text: Any) -> Prepared:
        """Text, token ids, messages, an image or audio features, as tensors and tokens; an InputError otherwise."""
        ...

    def tokens_of(self, ids: Int[Tensor, " token"]) -> tuple[Token, ...]: ...
    def decode(self, ids: Int[Tensor, " token"]) -> str: ...
    def token_ids(self, text: str) -> list[int]:
        """The ids of a piece of text, with no special tokens added."""
        ...

    def run(
        self,
        inputs: Mapping[str, Tensor],
        observer: SiteObserver | None = None,
        *,
        outputs: Sequence[str] = (),
        residual: bool = False,
        row: int | None = None,
    ) -> Pass:
        """One forward pass with our attention under it. ``outputs`` names sites whose W_O is to be recorded.

        With ``row``, of outputs and residual only that position is kept.
        """
        ...

    def observing(self, observer: SiteObserver) -> AbstractContextManager[None]:
        """Let the observer see every site inside the block, for calls this class does not make itself (generate)."""
        ...

    def output_weight(self, site: str) -> OutputWeight: ...
    def written(self, site: str, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput | None:
        """What W_O makes of a z that was kept; None where it reads something else than z itself."""
        ...

    def query_weight(self, site: str) -> Float[Tensor, "head d_model d_head"]:
        """W_Q by head, before any rotation or norm; refused by name where it cannot be had."""
        ...

    def key_weight(self, site: str) -> Float[Tensor, "kv d_model d_head"]: ...
    def value_weight(self, site: str) -> Float[Tensor, "kv d_model d_value"]: ...
    def embedding(self) -> Float[Tensor, "vocabulary d_model"]: ...
    def unembedding(self) -> Unembedding: ...

    def stream_scale(self, site: str) -> float:
        """What a site writes is multiplied by this on its way to the final norm; refused where that is no factor."""
        ...

    def site_modules(self) -> Mapping[str, torch.nn.Module]:
        """The attention module behind each site."""
        ...

    def close(self) -> None:
        """Leave the model as it was found."""
        ...
