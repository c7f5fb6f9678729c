"""What every head is asked on the page, and its answer averaged over the places of a text where it can be asked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.app.schema import QuestionCard
from headscope.attention.observation import Rows
from headscope.attention.questions import Question
from headscope.names import Site

QUESTIONS = (
    QuestionCard(
        name="previous", title="Previous token", unit="share", sentence="How much lands on the token just before?"
    ),
    QuestionCard(name="itself", title="Itself", unit="share", sentence="How much stays on the token that is asking?"),
    QuestionCard(name="first", title="First token", unit="share", sentence="How much is parked on the first token?"),
    QuestionCard(
        name="duplicate",
        title="Duplicate token",
        unit="share",
        sentence="How much lands on earlier copies of this token?",
    ),
    QuestionCard(
        name="induction", title="Induction", unit="share", sentence="How much lands on what followed this token before?"
    ),
    QuestionCard(name="entropy", title="Entropy, nats", unit="nats", sentence="How widely is its attention spread?"),
    QuestionCard(
        name="distance", title="Distance, tokens", unit="tokens", sentence="How far back does it read, on average?"
    ),
)


def places(question: Question, causal: bool) -> Bool[Tensor, " query"]:
    """Where the question can be asked: some key that may be read carries the query's label.

    The first row of causal attention has one key to read and no choice, so it is never asked.
    """
    queries, keys = question.query[0].tolist(), question.key[0].tolist()
    at: dict[int, list[int]] = {}
    for place, label in enumerate(keys):
        at.setdefault(label, []).append(place)

    def some(place: int, label: int) -> bool:
        if label == -1 or (causal and place == 0):
            return False
        first_two = at.get(label, [])[:2]
        return any((not causal or key <= place) and not (question.exclude_self and key == place) for key in first_two)

    return torch.tensor([some(place, label) for place, label in enumerate(queries)], dtype=torch.bool)


def site_answers(
    site: Site, rows: Rows | None, asked: Mapping[str, Bool[Tensor, " query"]]
) -> Float[np.ndarray, "question head"]:
    """The mean answer of each head of a site; NaN where the text gives no place to ask, or the site was not reached."""
    answers = np.full((len(QUESTIONS), site.n_heads), np.nan, dtype=np.float32)
    if rows is None:
        return answers
    traits = {"entropy": rows.entropy, "distance": None if rows.distance is None else rows.distance.mean}
    for index, card in enumerate(QUESTIONS):
        values = traits.get(card.name) if card.name in traits else rows.mass.get(card.name)
        if values is None:
            continue
        where = asked.get(card.name)
        kept = values[0, :, 1:] if where is None else values[0][:, where.to(values.device)]
        if kept.shape[1]:
            answers[index] = kept.double().mean(1).cpu().numpy()
    return answers
