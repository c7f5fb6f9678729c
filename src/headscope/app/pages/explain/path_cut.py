"""One path cut, for the page: the weight, the logit and the probability as they are, predicted, and in truth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headscope.app.pages.explain.trace import explained_token
from headscope.app.pages.predictions import NextToken
from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.heads.edits.path import path
from headscope.heads.explain.path_effect import Moved, path_effect
from headscope.heads.look.look import Look
from headscope.names import Head

ANSWERS = 8


class CutPathRequest(Request):
    """A path from a writer into the q, k or v of one head, in one row, and the token whose prediction is watched."""

    look: LookName
    writer: PartName
    reader: PartName
    into: Literal["q", "k", "v"] = "k"
    query: int = Field(ge=0)
    key: int | None = Field(default=None, ge=0)
    position: int | None = Field(default=None, ge=0, description="where the token is predicted; the query unless given")
    token: int | None = Field(default=None, ge=0, description="the likeliest next token unless given")
    group: bool = Field(default=False, description="cut it for all heads that read the same keys")


class MovedInfo(Response):
    """A number as it is, as the split predicts it without the path, and as it truly is without it."""

    as_is: float
    predicted: float
    true: float


class Answer(Response):
    """How the share of one part in the logit changes when the path is cut."""

    name: str
    change: float


class CutPathResponse(Response):
    """One cut path; ``answers``: the parts whose shares change most; ``others``: the change of all the rest."""

    look: str
    writer: str
    reader: str
    readers: list[str]
    """The reader first; with ``group``, all heads that read the same keys."""
    into: str
    query: int
    key: int | None
    position: int
    token: NextToken
    weight: MovedInfo | None
    logit: MovedInfo
    probability: MovedInfo
    answers: list[Answer]
    others: float


def cut_path(look: Look, asked: CutPathRequest) -> CutPathResponse:
    """Cut one path of a look."""
    position, token = explained_token(look, asked.query if asked.position is None else asked.position, asked.token)
    readers = group_of(look, asked.reader) if asked.group else (look.shape.find(asked.reader),)
    cut = path(asked.writer, readers, into=asked.into, query=asked.query, key=asked.key)
    found = path_effect(look, cut, token.id, position)
    changes = list(found.answers.items())
    names = asked.model_dump(include={"look", "writer", "reader", "into", "query", "key"})
    return CutPathResponse(
        **names,
        readers=[str(head) for head in readers],
        position=position,
        token=token,
        weight=None if found.weight is None else _moved(found.weight),
        logit=_moved(found.logit),
        probability=_moved(found.probability),
        answers=[Answer(name=name, change=change) for name, change in changes[:ANSWERS]],
        others=sum(change for _, change in changes[ANSWERS:]),
    )


def group_of(look: Look, name: str) -> tuple[Head, ...]:
    """All heads that read the same keys as a head, itself first."""
    own = look.shape.find(name)
    size = look.shape.sites[own.site].group_size
    first = own.head // size * size
    return (own, *(Head(own.site, head) for head in range(first, first + size) if head != own.head))


def _moved(moved: Moved) -> MovedInfo:
    return MovedInfo(as_is=moved.as_is, predicted=moved.predicted, true=moved.true)
