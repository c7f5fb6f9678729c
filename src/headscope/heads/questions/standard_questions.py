"""The five standard questions about a text's tokens, and the query rows that can answer a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.attention.questions import Question

STANDARD = ("previous", "itself", "first", "duplicate", "induction")


def standard_questions(
    tokens: Int[Tensor, "batch position"], real: Bool[Tensor, "batch position"] | None = None
) -> dict[str, Question]:
    """Previous token, itself, first token, an earlier copy of this token, and what followed an earlier copy.

    Padding (where ``real`` is False) is labelled −1, so it matches nothing; *first* is the first real token.
    """
    batch, length = tokens.shape
    position = torch.arange(length, device=tokens.device).expand(batch, -1)
    if real is None:
        real = torch.ones_like(tokens, dtype=torch.bool)
    key = position.where(real, -1)
    first = real.int().argmax(dim=1, keepdim=True).expand(-1, length)
    token = tokens.where(real, -1)
    before = torch.roll(token, 1, dims=1)
    before[:, 0] = -1
    return {
        "previous": Question((position - 1).where(real, -1), key),
        "itself": Question(key, key),
        "first": Question(first.where(real, -1), key),
        "duplicate": Question(token, token, exclude_self=True),
        "induction": Question(token, before.where(real, -1), exclude_self=True),
    }


class MatchingKeys(NamedTuple):
    """How many keys carry each query's label: among all keys, and among those up to the query's own position."""

    everywhere: Int[Tensor, "*batch query"]
    up_to_query: Int[Tensor, "*batch query"]

    def visible(self, causal: bool) -> Int[Tensor, "*batch query"]:
        """The count among the keys that a causal head, or any other, may attend to."""
        return self.up_to_query if causal else self.everywhere


def matching_keys(question: Question) -> MatchingKeys:
    """Count the keys that match each query of a question. Its labels are read, which waits for a GPU."""
    batch, device = max(len(question.query), len(question.key)), question.query.device
    query, key = question.query.expand(batch, -1), question.key.to(device).expand(batch, -1)
    return count_matching(query, key, int(question.exclude_self))


def count_matching(
    query: Int[Tensor, "*batch query"],
    key: Int[Tensor, "*batch key"],
    exclude_self: int | Int[Tensor, "*#batch 1"],
    largest: int | None = None,
) -> MatchingKeys:
    """Count each query's matching keys by binary search among keys sorted by label, then position: no pair is made.

    The last query stands at the last key. Label −1 matches nothing; ``exclude_self`` leaves out the query's own key.
    ``largest`` bounds the labels, which are then at least −1; without it they are read, which waits for a GPU.
    """
    n_query, n_key, device = query.shape[-1], key.shape[-1], query.device
    asks, labels = query != -1, torch.cat((query, key), dim=-1).long()
    low, high = _bounds(labels) if largest is None else (-1, largest)
    fits = low >= -1 and (high + 2) * n_key < 2**62
    ranks = labels + 1 if fits else torch.unique(labels, return_inverse=True)[1]  # labels that could overflow
    query, key = ranks.mul(n_key).split((n_query, n_key), dim=-1)
    ordered = (key + torch.arange(n_key, device=device)).sort(dim=-1).values
    own = torch.arange(n_key - n_query, n_key, device=device)
    first, here, end = (
        torch.searchsorted(ordered, sought.contiguous())
        for sought in (query, query + (own + 1).clamp(min=0), query + n_key)
    )
    itself = ((key[..., own.clamp(min=0)] == query) & (own >= 0)) * exclude_self
    return MatchingKeys((end - first - itself) * asks, (here - first - itself) * asks)


def answerable_rows(questions: Mapping[str, Question], causal: bool) -> dict[str, Bool[Tensor, "batch query"]]:
    """The rows of a text that can answer each of several questions, as ``answerable``, whose labels are on the CPU.

    By NumPy: texts are short, and PyTorch would wake all its threads for each.
    """
    return {name: torch.from_numpy(_answerable_here(question, causal)) for name, question in questions.items()}


def _answerable_here(question: Question, causal: bool) -> NDArray[np.bool_]:
    query, key = (np.ascontiguousarray(side.numpy()).astype(np.int64) for side in (question.query, question.key))
    batch, n_query, n_key = max(len(query), len(key)), query.shape[1], key.shape[1]
    query, key = np.broadcast_to(query, (batch, n_query)), np.broadcast_to(key, (batch, n_key))
    own = np.arange(n_key - n_query, n_key)
    if not batch or not n_key:
        return np.zeros((batch, n_query), dtype=bool)
    asked, there = query, key
    if batch > 1:  # all texts at once: labels are ranked, and those of different texts are never equal
        ranks = np.unique(np.concatenate((query.ravel(), key.ravel())), return_inverse=True)[1].reshape(-1)
        ranks = np.concatenate((ranks[: query.size].reshape(query.shape), ranks[query.size :].reshape(key.shape)), 1)
        asked, there = np.split(ranks + np.arange(batch)[:, None] * (ranks.max() + 1), [n_query], axis=1)
    labels, first, counts = np.unique(there, return_index=True, return_counts=True)
    at = np.minimum(np.searchsorted(labels, asked), len(labels) - 1)
    found: NDArray[np.bool_] = (labels[at] == asked) & (query != -1)
    if causal:
        # The first key with the label is the nearest to begin with: no other is needed.
        found &= first[at] % n_key < own + (not question.exclude_self)
    else:
        itself = (own >= 0) & (key[:, np.maximum(own, 0)] == query) & question.exclude_self
        found &= counts[at] > itself
    if causal and n_key == n_query:
        found[:, 0] = False
    return found


def _bounds(labels: Int[Tensor, "batch position"]) -> tuple[int, int]:
    if not labels.numel():
        return 0, 0
    low, high = torch.aminmax(labels)
    return int(low), int(high)


def answerable(question: Question, causal: bool) -> Bool[Tensor, "batch query"]:
    """The query rows that can answer a question: some key they may attend to carries their label.

    The first row of causal self-attention attends to one key whatever the head does, so it is left out.
    """
    found = matching_keys(question).visible(causal) > 0
    if causal and question.key.shape[1] == question.query.shape[1]:
        found[:, 0] = False
    return found
