"""Heads whose weights are written, not trained: one small model for each role an attention pattern can play.

The residual stream is laid out so that a person can read it: which token this is, where it stands, what an earlier
layer noted about it, and what it answers. Each is one-hot, so every weight below is a sentence: "a query at place i
asks for place i − 1". They are ordinary models, and the census uses them as its known positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import InputError, ShapeError
from headscope.lab.teach.tiny_transformer import TinyConfig, TinyTransformer

SHARPNESS = 24.0
"""How many nats a wanted key scores above the others: e²⁴ to one."""

LOUDNESS = 10.0
"""How many nats the answer is above the other tokens in the logits."""


@dataclass(frozen=True, kw_only=True)
class HandSizes:
    """How many tokens there are, how long a text may be, and which tokens count as separators."""

    vocabulary: int = 32
    context: int = 64
    separators: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        if self.vocabulary < 4 or self.vocabulary % 2 or self.context < 2:
            raise ShapeError(
                f"vocabulary={self.vocabulary}, context={self.context}: a model by hand needs an even vocabulary of at "
                "least 4 and a context of at least 2"
            )
        if not all(0 <= token < self.vocabulary for token in self.separators):
            raise ShapeError(f"separators={self.separators} are not all tokens below vocabulary={self.vocabulary}")

    @property
    def d_model(self) -> int:
        return 3 * self.vocabulary + self.context

    @property
    def d_head(self) -> int:
        return self.vocabulary + self.context

    @property
    def token(self) -> slice:
        """Where the residual stream says which token this is."""
        return slice(0, self.vocabulary)

    @property
    def place(self) -> slice:
        """Where it says at which place the token stands."""
        return slice(self.vocabulary, self.vocabulary + self.context)

    @property
    def note(self) -> slice:
        """Where a first layer leaves a token for a second layer to find."""
        return slice(self.d_model - 2 * self.vocabulary, self.d_model - self.vocabulary)

    @property
    def answer(self) -> slice:
        """What the unembedding reads."""
        return slice(self.d_model - self.vocabulary, self.d_model)


class HandModel(TinyTransformer):
    """A transformer of nothing but attention, one head a layer, whose one-hot stream ``sizes`` describes."""

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
        self.places.weight[:, sizes.place] = torch.eye(sizes.context)
        self.unembedding.weight[:, sizes.answer] = LOUDNESS * torch.eye(sizes.vocabulary)

    def write(
        self,
        layer: int,
        query: Float[Tensor, "d_model d_head"],
        key: Float[Tensor, "d_model d_head"],
        value: Float[Tensor, "d_model d_head"],
        output: Float[Tensor, "d_head d_model"],
    ) -> None:
        """Set the four matrices of a layer's head. The query is sharpened so that softmax becomes a choice."""
        attention = self.attention(layer)
        attention.q_proj.weight.copy_(query.T * SHARPNESS * self.sizes.d_head**0.5)
        attention.k_proj.weight.copy_(key.T)
        attention.v_proj.weight.copy_(value.T)
        attention.o_proj.weight.copy_(output.T)


def read(
    sizes: HandSizes, where: slice, columns: Float[Tensor, "feature wanted"] | None = None, *, at: int = 0
) -> Float[Tensor, "d_model d_head"]:
    """A matrix that reads one part of the stream, as it is or through ``columns``, into columns from ``at`` on."""
    matrix = torch.zeros(sizes.d_model, sizes.d_head)
    columns = torch.eye(where.stop - where.start) if columns is None else columns
    matrix[where, at : at + columns.shape[1]] = columns
    return matrix


def tell(sizes: HandSizes, where: slice, *, copy: bool) -> Float[Tensor, "d_head d_model"]:
    """A matrix that writes the token a head carries into a part of the stream.

    Without ``copy`` it writes the token half a vocabulary further on, so that the head moves the prediction but does
    not copy: half of the eigenvalues of that permutation are 1 and half are −1.
    """
    tokens = torch.eye(sizes.vocabulary)
    matrix = torch.zeros(sizes.d_head, sizes.d_model)
    matrix[: sizes.vocabulary, where] = tokens if copy else tokens.roll(sizes.vocabulary // 2, dims=1)
    return matrix


def _step_back(sizes: HandSizes) -> Tensor:
    """A query at place i asks for place i − 1; the first place, which sees only itself, asks for itself."""
    wanted = torch.arange(sizes.context).sub(1).clamp(min=0)
    return torch.eye(sizes.context)[wanted]


def _always(length: int) -> Tensor:
    """One column of ones: the same whatever is read."""
    return torch.ones(length, 1)


def previous_token(sizes: HandSizes) -> HandModel:
    """Every token reads the one before it."""
    model = HandModel("previous token", sizes, 1)
    query, key = read(sizes, sizes.place, _step_back(sizes)), read(sizes, sizes.place)
    model.write(0, query, key, read(sizes, sizes.token), tell(sizes, sizes.answer, copy=False))
    return model


def itself(sizes: HandSizes) -> HandModel:
    """Every token reads itself."""
    model = HandModel("itself", sizes, 1)
    where = read(sizes, sizes.place)
    model.write(0, where, where, read(sizes, sizes.token), tell(sizes, sizes.answer, copy=False))
    return model


def first_token(sizes: HandSizes) -> HandModel:
    """Every token reads the first one: what a sink does."""
    model = HandModel("first token", sizes, 1)
    query, key = read(sizes, sizes.place, _always(sizes.context)), read(sizes, sizes.place)
    model.write(0, query, key, read(sizes, sizes.token), tell(sizes, sizes.answer, copy=False))
    return model


def separators(sizes: HandSizes) -> HandModel:
    """Every token reads the separators before it."""
    model = HandModel("separators", sizes, 1)
    is_separator = torch.zeros(sizes.vocabulary, 1)
    is_separator[list(sizes.separators)] = 1
    query = read(sizes, sizes.place, _always(sizes.context))
    key = read(sizes, sizes.token, is_separator)
    model.write(0, query, key, read(sizes, sizes.token), tell(sizes, sizes.answer, copy=False))
    return model


def duplicate_token(sizes: HandSizes) -> HandModel:
    """Every token reads earlier copies of itself, never itself; with none before it, it looks everywhere alike.

    An equal token scores 1 and an equal place −2, so that a token alone with itself prefers anything else.
    """
    model = HandModel("duplicate token", sizes, 1)
    token, place = read(sizes, sizes.token), read(sizes, sizes.place, at=sizes.vocabulary)
    model.write(0, token - 2 * place, token + place, token, tell(sizes, sizes.answer, copy=False))
    return model


def induction(sizes: HandSizes) -> HandModel:
    """Two layers: the first notes at each token which one stood before it; the second asks "who stood after me?".

    The first place has nothing before it and can only note itself; the second layer's key takes that note away.
    """
    model = HandModel("induction", sizes, 2)
    token = read(sizes, sizes.token)
    step_back, place = read(sizes, sizes.place, _step_back(sizes)), read(sizes, sizes.place)
    model.write(0, step_back, place, token, tell(sizes, sizes.note, copy=True))
    not_at_the_start = torch.zeros(sizes.context, sizes.vocabulary)
    not_at_the_start[0] = -1
    noted = read(sizes, sizes.note) + read(sizes, sizes.place, not_at_the_start)
    model.write(1, token, noted, token, tell(sizes, sizes.answer, copy=True))
    return model


ROLES: dict[str, Callable[[HandSizes], HandModel]] = {
    "previous token": previous_token,
    "itself": itself,
    "first token": first_token,
    "separators": separators,
    "duplicate token": duplicate_token,
    "induction": induction,
}


def by_hand(role: str, sizes: HandSizes | None = None) -> HandModel:
    """The model that plays this role and no other."""
    if role not in ROLES:
        raise InputError(f"there is no head by hand for {role!r}; there are {', '.join(ROLES)}")
    with torch.no_grad():
        return ROLES[role](sizes or HandSizes()).eval()
