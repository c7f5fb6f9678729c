"""The questions and traits that every head is scored on."""

from __future__ import annotations

from typing import Literal

from headscope.app.pages.schema import Response

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
