"""The questions and traits that every head is scored on, and its mean score over a text."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headscope.app.pages.schema import Response
from headscope.heads.look.look import Look
from headscope.names import Site

Unit = Literal["share", "nats", "tokens"]


class QuestionInfo(Response):
    """What every head is scored on: a question (a share of its attention) or a trait."""

    name: str
    title: str
    sentence: str
    unit: Unit


_QUESTIONS: tuple[tuple[str, str, Unit, str], ...] = (
    ("previous", "Previous token", "share", "How much lands on the token just before?"),
    ("itself", "Itself", "share", "How much stays on the token that is asking?"),
    ("first", "First token", "share", "How much is parked on the first token?"),
    ("duplicate", "Duplicate token", "share", "How much lands on earlier copies of this token?"),
    ("induction", "Induction", "share", "How much lands on what followed this token before?"),
    ("entropy", "Entropy, nats", "nats", "How widely is its attention spread?"),
    ("distance", "Distance, tokens", "tokens", "How far back does it read, on average?"),
)
QUESTIONS = tuple(
    QuestionInfo(name=name, title=title, unit=unit, sentence=sentence) for name, title, unit, sentence in _QUESTIONS
)


def site_scores(look: Look, site: Site) -> Float[np.ndarray, "question head"]:
    """Each head's mean score; NaN where no row can answer the question, or the pass did not reach the site."""
    scores = np.full((len(QUESTIONS), site.n_heads), np.nan, dtype=np.float32)
    if site.name not in look.sites:
        return scores
    found = look.mean_answers(site.name) | _traits(look, site)
    for index, question in enumerate(QUESTIONS):
        if question.name in found:
            scores[index] = found[question.name].double().cpu().numpy()
    return scores


def _traits(look: Look, site: Site) -> dict[str, Float[Tensor, " head"]]:
    """Means over all rows, without the first row of causal attention: it has one key and no choice."""
    rows = look.statistics(site.name)
    first = 1 if site.causal and site.kind == "self" else 0
    if rows.entropy is None or rows.distance is None or rows.entropy.shape[2] <= first:
        return {}
    return {"entropy": rows.entropy[0, :, first:].mean(-1), "distance": rows.distance.mean[0, :, first:].mean(-1)}
