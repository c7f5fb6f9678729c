"""Base classes of the API's requests and responses, and what every head is scored on. The front end's types are
generated from them.

A response that comes with arrays is the JSON part of a container (see wire.py); its docstring names the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

SCHEMA_VERSION = 1
MOST_MISTAKES = 100  # that a refusal is made from: the page shows one

LookName = Annotated[str, Field(max_length=64)]
PartName = Annotated[str, Field(max_length=200)]
"""The name of a head or of a site."""


class Request(BaseModel):
    """A request body, or a part of one. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_at_once(cls, data: Any, check: Callable[[Any], Any]) -> Any:
        """Refuse a request of countless mistakes as one: a report of each would take minutes and gigabytes."""
        try:
            return check(data)
        except ValidationError as error:
            count = error.error_count()
            if count <= MOST_MISTAKES:
                raise
            raise PydanticCustomError("mistakes", "{count} fields or items are wrong", {"count": count}) from None


class Response(BaseModel):
    """A response body, or a part of one. Every field is sent, also one that has its default value."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Problem(Response):
    """An error, as one sentence to show to the user."""

    kind: str
    message: str


Emit = Callable[[Any], None]
"""Send one response of a stream."""

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
