"""Questions to cross-attention: the first key, the diagonal, the same token, the order of what is read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.standard_questions import standard_questions
from headscope.models.protocol import Token

Sides = tuple[tuple[Token, ...], tuple[Token, ...]]
"""The tokens of queries and of keys; the same tuple twice in self-attention."""

ABOUT_PLACES = ("previous", "itself", "first")
MOST_PARTS = 16
"""Parts that both sides are divided into for the diagonal, where they have so many positions."""


def are_words(tokens: Sequence[Token]) -> bool:
    """Whether these are tokens of a vocabulary; patches and moments have only a position."""
    return all(token.id >= 0 for token in tokens)


def questions_between(sides: Sides, device: torch.device) -> dict[str, Question]:
    """The standard questions within one text, or those from one sequence to another."""
    query, key = (torch.tensor([token.id for token in side], device=device) for side in sides)
    words = all(any(token.id >= 0 for token in side) for side in sides)  # a patch among them matches no token
    if sides[0] is not sides[1]:
        return _cross_questions(query, key, words=words)
    return {name: q for name, q in standard_questions(query[None]).items() if words or name in ABOUT_PLACES}


def _cross_questions(query: Int[Tensor, " query"], key: Int[Tensor, " key"], *, words: bool) -> dict[str, Question]:
    """The mass on the first key; on the same part of the other side (*diagonal*); on the same token, between words.

    The diagonal divides both sides into equally many parts, at most sixteen; two positions on each side make the least.
    """
    n_query, n_key = len(query), len(key)
    place, other = torch.arange(n_query, device=query.device), torch.arange(n_key, device=query.device)
    asked = {"first": Question(torch.zeros_like(place), other)}
    parts = min(n_query, n_key, MOST_PARTS)
    if parts > 1:
        asked["diagonal"] = Question(place * parts // n_query, other * parts // n_key)
    if words:
        asked["same token"] = Question(query, key)
    return asked


def monotone_share(strongest: Int[Tensor, "head query"]) -> Float[Tensor, " head"] | None:
    """How often each head's strongest key is not before the strongest key of the query before; None for one query."""
    if strongest.shape[1] < 2:
        return None
    return (strongest[:, 1:] >= strongest[:, :-1]).float().mean(-1)
