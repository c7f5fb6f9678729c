"""Sample a next token: greedy, temperature, top-k, top-p, with the distribution after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.checked import checked, summary
from headscope.errors import InputError
from headscope.models.protocol import Token
from headscope.models.recording import OpenModel


@dataclass(frozen=True)
class Prediction:
    """A next token, its probability and its logit."""

    token: Token
    probability: float
    logit: float

    def __repr__(self) -> str:
        return f"{self.token.text.strip() or repr(self.token.text)} {self.probability:.0%}"


@dataclass(frozen=True)
class ClassPrediction:
    """A class that an input is put into, its probability and its logit."""

    name: str
    probability: float
    logit: float
    id: int = -1

    def __repr__(self) -> str:
        return f"{self.name} {self.probability:.0%}"


COLDEST = 1e-30
"""The lowest temperature above 0 by which a logit can be divided in float32."""


@checked
@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is sampled. Temperature 0 is greedy: always the likeliest."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not COLDEST <= self.temperature <= 1 / COLDEST:
            raise InputError(f"temperature={self.temperature}: give 0 (greedy) or more; 1 is the model's own")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k={self.top_k} keeps no token; give at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p={self.top_p}: give a share above 0 and at most 1")


@dataclass(frozen=True)
class Cuts:
    """The model's distribution, and what each step of sampling makes of it."""

    model: Float[Tensor, " vocabulary"]
    tempered: Float[Tensor, " vocabulary"]
    top_k: Float[Tensor, " vocabulary"]
    top_p: Float[Tensor, " vocabulary"]

    __repr__ = summary


def cuts(logits: Float[Tensor, " vocabulary"], sampling: Sampling) -> Cuts:
    """Temperature, then the k likeliest, then the fewest tokens that make up the share p; each renormalised."""
    logits = logits.float()
    model = logits.softmax(-1)
    greedy = sampling.temperature == 0
    if greedy:
        tempered = torch.zeros_like(model)
        tempered[logits.argmax()] = 1.0
    else:
        tempered = (logits / sampling.temperature).softmax(-1)
    # Greedy has one token left, and topk may take another one of equal logits.
    after_k = tempered if greedy or sampling.top_k is None else _keep_most(tempered, logits, sampling.top_k)
    after_p = after_k if sampling.top_p is None else _keep_share(after_k, sampling.top_p)
    return Cuts(model, tempered, after_k, after_p)


class Steps(Sequence[Cuts]):
    """The distribution at each generated token, computed from its logits when asked for.

    Logits are kept many rows to a buffer: a small tensor that stays between two growing KV caches keeps the allocator
    from giving their memory back, and generating then takes memory in proportion to the square of the length.
    """

    ROWS = 256

    def __init__(self, sampling: Sampling) -> None:
        self._sampling, self._length = sampling, 0
        self._buffers: list[Float[Tensor, "rows vocabulary"]] = []

    def append(self, logits: Float[Tensor, " vocabulary"]) -> None:
        buffer, row = divmod(self._length, self.ROWS)
        if not row:
            self._buffers.append(logits.new_empty(self.ROWS, len(logits)))
        self._buffers[buffer][row] = logits
        self._length += 1

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Steps({self._length} generated tokens)"

    @overload
    def __getitem__(self, index: int) -> Cuts: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cuts, ...]: ...
    def __getitem__(self, index: int | slice) -> Cuts | tuple[Cuts, ...]:
        if isinstance(index, slice):
            return tuple(self[step] for step in range(*index.indices(len(self))))
        step = index + len(self) if index < 0 else index
        if not 0 <= step < len(self):
            raise IndexError(f"step {index} of {len(self)}")
        return cuts(self._buffers[step // self.ROWS][step % self.ROWS], self._sampling)


def draw(logits: Float[Tensor, " vocabulary"], sampling: Sampling, generator: torch.Generator) -> int:
    """Draw one token."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(cuts(logits, sampling).top_p.cpu(), 1, generator=generator))


def class_predictions(model: OpenModel, logits: Tensor, count: int) -> list[ClassPrediction]:
    """The likeliest classes of a model that puts its whole input into one; refused for other outputs."""
    config = getattr(model.model, "config", None)
    names = getattr(config, "id2label", None) or {}
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    if "Classification" not in type(model.model).__name__ or logits.numel() != len(names) or several:
        raise InputError(f"{model.shape.name} does not choose one class: its output is {tuple(logits.shape)}")
    logits = logits.float().reshape(-1)
    shares = logits.softmax(-1)
    order = shares.argsort(descending=True)[:count].tolist()
    return [ClassPrediction(str(names[each]), float(shares[each]), float(logits[each]), each) for each in order]


def strongest_predictions(model: OpenModel, logits: Float[Tensor, " vocabulary"], count: int) -> list[Prediction]:
    """The likeliest tokens, most likely first."""
    if count < 1:
        raise InputError(f"count={count}: give at least 1")
    probabilities = logits.float().softmax(-1)
    top = probabilities.topk(min(count, len(probabilities)))
    ids = top.indices.tolist()
    found = torch.stack((top.values.double(), logits[top.indices].double())).tolist()
    tokens = model.processor.tokens_of(torch.tensor(ids))
    return [Prediction(token, p, logit) for token, p, logit in zip(tokens, *found, strict=True)]


def _keep_most(
    p: Float[Tensor, " vocabulary"], logits: Float[Tensor, " vocabulary"], k: int
) -> Float[Tensor, " vocabulary"]:
    """Keep the tokens of the k highest logits: softmax rounds logits that differ to equal probabilities."""
    top = logits.topk(min(k, len(p))).indices
    kept = torch.zeros_like(p).scatter(0, top, p[top])
    return kept / kept.sum()


def _keep_share(p: Float[Tensor, " vocabulary"], share: float) -> Float[Tensor, " vocabulary"]:
    ordered, index = p.sort(descending=True)
    before = ordered.cumsum(0) - ordered
    kept = torch.zeros_like(p).scatter(0, index, ordered.where(before < share, 0.0))
    return kept / kept.sum()
