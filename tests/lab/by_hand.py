"""Small models whose attention heads are written by hand, one for each role an attention pattern can play.

The residual stream has four one-hot parts: the token, its position, a note of an earlier layer, and the answer. So
each weight can be read: "a query at position i asks for position i − 1". The census uses these models as known
positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.lab.teach.tiny_transformer import TinyConfig, TinyTransformer

SHARPNESS = 24.0
"""By how many nats a wanted key scores above the others."""

LOGIT_GAP = 10.0
"""By how many nats the answer is above the other tokens in the logits."""


@dataclass(frozen=True, kw_only=True)
class HandSizes:
    """The vocabulary and context of a hand-written model, and which tokens are separators."""

    vocabulary: int = 32
    context: int = 64
    separators: tuple[int, ...] = (1, 2)

    @property
    def d_model(self) -> int:
        return 3 * self.vocabulary + self.context

    @property
    def d_head(self) -> int:
        return self.vocabulary + self.context

    @property
    def token(self) -> slice:
        """The part of the residual stream that holds the token."""
        return slice(0, self.vocabulary)

    @property
    def position(self) -> slice:
        """The part that holds the position."""
        return slice(self.vocabulary, self.vocabulary + self.context)

    @property
    def note(self) -> slice:
        """The part that a first layer writes for a second layer to read."""
        return slice(self.d_model - 2 * self.vocabulary, self.d_model - self.vocabulary)

    @property
    def answer(self) -> slice:
        """The part that the unembedding reads."""
        return slice(self.d_model - self.vocabulary, self.d_model)


class HandModel(TinyTransformer):
    """An attention-only transformer with one head per layer and the one-hot residual stream of ``sizes``."""

    def __init__(self, role: str, sizes: HandSizes, n_layers: int) -> None:
        config = TinyConfig(
            vocabulary=sizes.vocabulary,
            context=sizes.context,
            d_model=sizes.d_model,
            n_layers=n_layers,
            d_head=sizes.d_head,
        )
        super().__init__(config)
        self.role, self.sizes = role, sizes
        for weight in self.parameters():
            weight.requires_grad_(False).zero_()
        self.embedding.weight[:, sizes.token] = torch.eye(sizes.vocabulary)
        self.positions.weight[:, sizes.position] = torch.eye(sizes.context)
        self.unembedding.weight[:, sizes.answer] = LOGIT_GAP * torch.eye(sizes.vocabulary)

    def write(
        self,
        layer: int,
        query: Float[Tensor, "d_model d_head"],
        key: Float[Tensor, "d_model d_head"],
        value: Float[Tensor, "d_model d_head"],
        output: Float[Tensor, "d_head d_model"],
    ) -> None:
        """Set the four matrices of a layer's head; the query is scaled so that softmax picks one key."""
        attention = self.attention(layer)
        attention.q_proj.weight.copy_(query.T * SHARPNESS * self.sizes.d_head**0.5)
        attention.k_proj.weight.copy_(key.T)
        attention.v_proj.weight.copy_(value.T)
        attention.o_proj.weight.copy_(output.T)


def read(
    sizes: HandSizes, where: slice, columns: Float[Tensor, "feature wanted"] | None = None, *, at: int = 0
) -> Float[Tensor, "d_model d_head"]:
    """A matrix that reads one part of the residual stream, or ``columns`` of it, into columns from ``at`` on."""
    matrix = torch.zeros(sizes.d_model, sizes.d_head)
    columns = torch.eye(where.stop - where.start) if columns is None else columns
    matrix[where, at : at + columns.shape[1]] = columns
    return matrix


def write_token(sizes: HandSizes, where: slice, *, copy: bool) -> Float[Tensor, "d_head d_model"]:
    """A matrix that writes the token in z into a part of the residual stream.

    Without ``copy`` it writes the token half a vocabulary further on, so that the head moves the prediction but does
    not copy: half of the eigenvalues of that permutation are 1 and half are −1.
    """
    tokens = torch.eye(sizes.vocabulary)
    matrix = torch.zeros(sizes.d_head, sizes.d_model)
    matrix[: sizes.vocabulary, where] = tokens if copy else tokens.roll(sizes.vocabulary // 2, dims=1)
    return matrix


def _step_back(sizes: HandSizes) -> Tensor:
    """A query at position i asks for position i − 1; the first, which can only attend to itself, asks for itself."""
    wanted = torch.arange(sizes.context).sub(1).clamp(min=0)
    return torch.eye(sizes.context)[wanted]


def _one_layer(role: str, sizes: HandSizes, query: Tensor, key: Tensor) -> HandModel:
    """One head with these W_Q and W_K that writes the attended token, shifted, into the answer."""
    model = HandModel(role, sizes, 1)
    model.write(0, query, key, read(sizes, sizes.token), write_token(sizes, sizes.answer, copy=False))
    return model


def _previous_token(sizes: HandSizes) -> HandModel:
    """Every token reads the one before it."""
    query, key = read(sizes, sizes.position, _step_back(sizes)), read(sizes, sizes.position)
    return _one_layer("previous token", sizes, query, key)


def _itself(sizes: HandSizes) -> HandModel:
    """Every token reads itself."""
    return _one_layer("itself", sizes, read(sizes, sizes.position), read(sizes, sizes.position))


def _first_token(sizes: HandSizes) -> HandModel:
    """Every token reads the first one: what a sink does."""
    query = read(sizes, sizes.position, torch.ones(sizes.context, 1))
    return _one_layer("first token", sizes, query, read(sizes, sizes.position))


def _separators(sizes: HandSizes) -> HandModel:
    """Every token reads the separators before it."""
    is_separator = torch.zeros(sizes.vocabulary, 1)
    is_separator[list(sizes.separators)] = 1
    query = read(sizes, sizes.position, torch.ones(sizes.context, 1))
    return _one_layer("separators", sizes, query, read(sizes, sizes.token, is_separator))


def _duplicate_token(sizes: HandSizes) -> HandModel:
    """Every token reads earlier copies of itself, never itself; with none before it, it attends evenly.

    An equal token scores 1 and an equal position −2, so that a token prefers every other one to itself.
    """
    token, position = read(sizes, sizes.token), read(sizes, sizes.position, at=sizes.vocabulary)
    return _one_layer("duplicate token", sizes, token - 2 * position, token + position)


def _induction(sizes: HandSizes) -> HandModel:
    """Two layers: the first notes at each token which one stood before it; the second asks "who stood after me?".

    The first token has none before it and notes itself; the second layer's key removes that note.
    """
    model = HandModel("induction", sizes, 2)
    token = read(sizes, sizes.token)
    step_back, position = read(sizes, sizes.position, _step_back(sizes)), read(sizes, sizes.position)
    model.write(0, step_back, position, token, write_token(sizes, sizes.note, copy=True))
    not_at_the_start = torch.zeros(sizes.context, sizes.vocabulary)
    not_at_the_start[0] = -1
    noted = read(sizes, sizes.note) + read(sizes, sizes.position, not_at_the_start)
    model.write(1, token, noted, token, write_token(sizes, sizes.answer, copy=True))
    return model


ROLES: dict[str, Callable[[HandSizes], HandModel]] = {
    "previous token": _previous_token,
    "itself": _itself,
    "first token": _first_token,
    "separators": _separators,
    "duplicate token": _duplicate_token,
    "induction": _induction,
}


def by_hand(role: str, sizes: HandSizes | None = None) -> HandModel:
    """Make the hand-written model with this role and no other."""
    with torch.no_grad():
        return ROLES[role](sizes or HandSizes()).eval()
