"""The five standard questions, made from the tokens of a text. They can be put to every self-attention head."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.questions import Groups, Question, pairs, plan

STANDARD = ("previous", "itself", "first", "duplicate", "induction")


def standard_questions(
    tokens: Int[Tensor, "batch position"], real: Bool[Tensor, "batch position"] | None = None
) -> dict[str, Question]:
    """Previous token, itself, first token, an earlier copy of this token, and what followed an earlier copy.

    Padding (where ``real`` is False) is labelled −1, so it neither asks nor answers; *first* is the first real token.
    """
    batch, length = tokens.shape
    place = torch.arange(length, device=tokens.device).expand(batch, -1)
    if real is None:
        real = torch.ones_like(tokens, dtype=torch.bool)
    key = place.where(real, -1)
    first = real.int().argmax(dim=1, keepdim=True).expand(-1, length)
    token = tokens.where(real, -1)
    before = torch.roll(token, 1, dims=1)
    before[:, 0] = -1
    return {
        "previous": Question((place - 1).where(real, -1), key),
        "itself": Question(key, key),
        "first": Question(first.where(real, -1), key),
        "duplicate": Question(token, token, exclude_self=True),
        "induction": Question(token, before.where(real, -1), exclude_self=True),
    }


def answerable(question: Question, causal: bool) -> Bool[Tensor, "batch query"]:
    """The rows where a question has an answer: some key that may be read carries the query's label.

    The first row of causal attention has one key and no choice, so it is never asked.
    """
    n_query, offset = question.query.shape[1], question.key.shape[1] - question.query.shape[1]
    groups = plan(question, question.query.device, path="groups")
    assert isinstance(groups, Groups)
    found = torch.zeros(groups.start.shape, dtype=torch.bool, device=groups.start.device)
    for item in range(len(found)):
        rows, keys = pairs(groups, item, 0, n_query, offset)
        open_rows = rows[keys <= rows + offset] if causal else rows
        found[item, open_rows] = True
    if causal and offset == 0:
        found[:, 0] = False
    return found
