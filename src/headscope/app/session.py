"""What the page is told, computed: the only file of the app that touches a Scope.

A session belongs to one model. Its methods run in a worker thread, one at a time (the server holds the lock), and keep
the last few looks, so that a second request about the same text costs no second reading.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.app import schema
from headscope.errors import HeadNameError, InputError

Arrays = dict[str, NDArray[Any]]

KEPT_LOOKS = 8
KEPT_TEXTS = 512
THUMBNAIL_SIDE = 32
LARGEST_ANSWER = 4_194_304

QUESTIONS = [
    schema.QuestionCard(
        name="previous", title="Previous token", unit="share", sentence="How much lands on the token just before?"
    ),
    schema.QuestionCard(
        name="itself", title="Itself", unit="share", sentence="How much stays on the token that is asking?"
    ),
    schema.QuestionCard(
        name="first", title="First token", unit="share", sentence="How much is parked on the first token?"
    ),
    schema.QuestionCard(
        name="duplicate",
        title="Duplicate token",
        unit="share",
        sentence="How much lands on earlier copies of this token?",
    ),
    schema.QuestionCard(
        name="induction",
        title="Induction",
        unit="share",
        sentence="How much lands on what followed this token before?",
    ),
    schema.QuestionCard(
        name="entropy", title="Entropy, nats", unit="nats", sentence="How widely is its attention spread?"
    ),
    schema.QuestionCard(
        name="distance", title="Distance, tokens", unit="tokens", sentence="How far back does it read, on average?"
    ),
]


class Session:
    """The questions the page may put to one model."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope

    def model(self) -> schema.ModelCard:
        raise NotImplementedError

    def look(self, asked: schema.LookRequest) -> tuple[schema.LookCard, Arrays]:
        raise NotImplementedError

    def weights(self, asked: schema.WeightsRequest) -> tuple[schema.WeightsCard, Arrays]:
        raise NotImplementedError

    def mix(self, asked: schema.MixRequest) -> tuple[schema.MixCard, Arrays]:
        raise NotImplementedError

    def predict(self, asked: schema.PredictRequest) -> schema.Prediction:
        raise NotImplementedError
