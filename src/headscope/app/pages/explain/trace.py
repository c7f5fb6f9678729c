"""A prediction traced back to tokens, for the page."""

from __future__ import annotations

from pydantic import Field

from headscope.app.pages.attribution import next_token
from headscope.app.pages.explain.why import PlaceInfo, WriterShare, check_stream, place_info, share_info
from headscope.app.pages.predictions import NextToken
from headscope.app.pages.schema import LookName, Request, Response
from headscope.errors import InputError
from headscope.heads.explain.trace import KeyRead, LeftOut, Step
from headscope.heads.look.look import Look


class TraceRequest(Request):
    """A next token after one position; the likeliest one unless an id is given."""

    look: LookName
    position: int = Field(ge=0)
    token: int | None = Field(default=None, ge=0)
    minus: int | None = Field(default=None, ge=0)
    floor: float = Field(default=0.03, ge=0.005, le=0.5, description="of the prediction: smaller shares are left out")


class LeftOutInfo(Response):
    """What a level does not show: how many terms, and their sum, positive and negative apart."""

    count: int
    up: float
    down: float


class TraceRead(PlaceInfo):
    """A key that a head read: what its value carried to the prediction, why it was found, and who wrote the value."""

    weight: float
    share: float
    total: float
    asked: list[WriterShare]
    answered: list[WriterShare]
    values: list[TraceStep]
    left_out: LeftOutInfo


class TraceStep(PlaceInfo):
    """A part that adds to the prediction, at the place where it wrote."""

    name: str
    kind: str
    share: float
    rests: bool
    note: str
    reads: list[TraceRead]
    left_out: LeftOutInfo


class TraceResponse(Response):
    """A prediction: ``total`` is the sum of the steps' shares, of what is left out, and of a constant."""

    look: str
    position: PlaceInfo
    token: NextToken
    minus: NextToken | None
    total: float
    constant: float
    floor: float
    steps: list[TraceStep]
    left_out: LeftOutInfo


def trace_back(look: Look, asked: TraceRequest) -> TraceResponse:
    """Trace a prediction of a look."""
    position, token = explained_token(look, asked.position, asked.token)
    minus = None if asked.minus is None else next_token(look, position, asked.minus)
    found = look.trace(token.id, None if minus is None else minus.id, position, asked.floor)
    return TraceResponse(
        look=asked.look,
        position=place_info(found.position),
        token=token,
        minus=minus,
        total=found.total,
        constant=found.constant,
        floor=found.floor,
        steps=[_step(step) for step in found.steps],
        left_out=_left_out(found.left_out),
    )


def explained_token(look: Look, position: int, token: int | None) -> tuple[int, NextToken]:
    """The position and the next token whose prediction is explained; refused where none is predicted or kept."""
    if look.shape.vocabulary is None:
        raise InputError(f"{look.shape.name} predicts no tokens: it has no unembedding to explain a prediction from")
    check_stream(look)
    place = look.position(position)
    return place, next_token(look, place, token)


def _step(step: Step) -> TraceStep:
    return TraceStep(
        **step.place.to_dict(),
        name=step.name,
        kind=step.kind,
        share=step.share,
        rests=step.rests,
        note=step.note,
        reads=[_read(read) for read in step.reads],
        left_out=_left_out(step.left_out),
    )


def _read(read: KeyRead) -> TraceRead:
    return TraceRead(
        **read.place.to_dict(),
        weight=read.weight,
        share=read.share,
        total=read.total,
        asked=[share_info(share) for share in read.asked],
        answered=[share_info(share) for share in read.answered],
        values=[_step(step) for step in read.values],
        left_out=_left_out(read.left_out),
    )


def _left_out(left: LeftOut) -> LeftOutInfo:
    return LeftOutInfo(count=left.count, up=left.up, down=left.down)
