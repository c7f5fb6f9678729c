"""Why a head looks there, for the page: one score split over who asked and who answered, and their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.errors import InputError
from headscope.heads.explain.why import Place, Share, Why
from headscope.heads.look.look import Look

PAIRED = 32  # writers of each side whose pairs are sent: 1,024 numbers
STREAM_BYTES = 2**30  # of the recorded residual stream of one text

Baseline = Literal["mean", "others"]


class WhyRequest(Request):
    """One arrow of one head, relative to the row's mean, to the others weighted by the pattern, or to another key."""

    look: LookName
    head: PartName
    query: int = Field(ge=0)
    key: int = Field(ge=0)
    minus: Baseline | int = "mean"


class PlaceInfo(Response):
    """A token of the text."""

    position: int
    token: str


class WriterRead(PlaceInfo):
    """What a head that is a writer read at the place where it wrote."""

    weight: float


class WriterShare(Response):
    """What one writer gives to a relative score; ``position_part`` of it is due to the offset."""

    name: str
    kind: str
    value: float
    position_part: float
    read: WriterRead | None


class WhyResponse(Response):
    """One arrow. ``asked`` and ``answered`` are by size, the largest first; each adds up, with the terms, to ``total``.

    ``pairs[a][b]`` is what ``asked[a]`` and ``answered[b]`` give together, for the first writers of each side.
    """

    look: str
    head: str
    group: list[str]
    query: PlaceInfo
    key: PlaceInfo
    weight: float
    score: float
    baseline: float
    total: float
    minus: str
    n_visible: int
    sink: float | None
    position_part: float
    asked: list[WriterShare]
    answered: list[WriterShare]
    terms: dict[str, float]
    pairs: list[list[float]]
    pairs_count: int = Field(description="of all pairs, sent or not")
    pairs_sum: float
    pairs_size: float = Field(description="the sum of the absolute values of all pairs")
    error: float


def split_arrow(look: Look, asked: WhyRequest) -> WhyResponse:
    """Split one arrow of a look."""
    check_stream(look)
    found = look.why(asked.head, asked.query, asked.key, None if asked.minus == "mean" else asked.minus)
    rows, columns = _by_size(found.asked), _by_size(found.answered)
    pairs = found.pairs[rows[:PAIRED]][:, columns[:PAIRED]]
    return WhyResponse(
        look=asked.look,
        head=str(found.head),
        group=[str(head) for head in found.group],
        query=place_info(found.query),
        key=place_info(found.key),
        asked=[share_info(found.asked[index]) for index in rows],
        answered=[share_info(found.answered[index]) for index in columns],
        pairs=pairs.tolist(),
        pairs_count=found.pairs.numel(),
        pairs_sum=float(found.pairs.sum()),
        pairs_size=float(found.pairs.abs().sum()),
        terms=dict(found.terms),
        **_numbers(found),
    )


def _numbers(found: Why) -> dict[str, Any]:
    names = ("weight", "score", "baseline", "total", "minus", "n_visible", "sink", "position_part", "error")
    return {name: getattr(found, name) for name in names}


def _by_size(shares: Sequence[Share]) -> list[int]:
    """Indices of shares, the largest first."""
    return sorted(range(len(shares)), key=lambda index: -abs(shares[index].value))


def place_info(place: Place) -> PlaceInfo:
    return PlaceInfo(position=place.position, token=place.token)


def share_info(share: Share) -> WriterShare:
    """A share as it is sent."""
    read = share.read
    sent = None if read is None else WriterRead(**read.place.to_dict(), weight=read.weight)
    return WriterShare(
        name=share.name, kind=share.kind, value=share.value, position_part=share.position_part, read=sent
    )


def stream_bytes(look: Look) -> int:
    """About how many bytes a recorded residual stream of this text holds: what each layer wrote, twice per layer."""
    return 4 * 2 * len(look.shape.sites) * len(look.tokens) * look.shape.d_model


def check_stream(look: Look) -> None:
    """Refuse a text whose recorded residual stream would be too large for a page."""
    size = stream_bytes(look)
    if size > STREAM_BYTES:
        most = len(look.tokens) * STREAM_BYTES // size
        raise InputError(
            f"what is written into the residual stream of {len(look.tokens)} tokens takes {size / 2**30:.1f} GiB, and "
            f"a page keeps {STREAM_BYTES / 2**30:.0f} GiB of it; explain a text of at most {most} tokens"
        )
