"""Explain one text: why a head looks there, where a prediction comes from, and what cutting a path does to it.

Also the likeliest token after every layer, and which head or position carries what sets two texts apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from headscope.app.pages.attribution import next_token
from headscope.app.pages.predictions import NextToken, next_tokens
from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.errors import InputError
from headscope.heads.edits.path import path
from headscope.heads.explain.path_effect import Moved, path_effect
from headscope.heads.explain.trace import LeftOut, Step
from headscope.heads.explain.why import NUMBERS, Place, Share
from headscope.heads.look.look import Look, needs_predictions
from headscope.heads.patching import patching

PAIRED = 32  # writers of each side whose pairs are sent: 1,024 numbers
STREAM_BYTES = 2**30  # of the recorded residual stream of one text
LIKELIEST = 10
MOST_TOKENS = 256  # of a text that is patched: each position is a copy of it in a batch
ANSWERS = 8  # parts that answer a cut path, by name


class WhyRequest(Request):
    """One arrow of one head, relative to the row's mean, to the others weighted by the pattern, or to another key."""

    look: LookName
    head: PartName
    query: int = Field(ge=0)
    key: int = Field(ge=0)
    minus: Literal["mean", "others"] | int = "mean"


class WhyResponse(Response):
    """One arrow. ``asked`` and ``answered`` are by size, the largest first; each adds up, with the terms, to ``total``.

    ``pairs[a][b]`` is what ``asked[a]`` and ``answered[b]`` give together, for the first writers of each side.
    """

    look: str
    head: str
    group: list[str]
    query: Place
    key: Place
    weight: float
    score: float
    baseline: float
    total: float
    minus: str
    n_visible: int
    sink: float | None
    position_part: float
    asked: list[Share]
    answered: list[Share]
    terms: dict[str, float]
    pairs: list[list[float]]
    pairs_count: int = Field(description="of all pairs, sent or not")
    pairs_sum: float
    pairs_size: float = Field(description="the sum of the absolute values of all pairs")
    error: float


class TraceRequest(Request):
    """A next token after one position; the likeliest one unless an id is given."""

    look: LookName
    position: int = Field(ge=0)
    token: int | None = Field(default=None, ge=0)
    minus: int | None = Field(default=None, ge=0)
    floor: float = Field(default=0.03, ge=0.005, le=0.5, description="of the prediction: smaller shares are left out")


class TraceResponse(Response):
    """A prediction: ``total`` is the sum of the steps' shares, of what is left out, and of a constant."""

    look: str
    position: Place
    token: NextToken
    minus: NextToken | None
    total: float
    constant: float
    floor: float
    capped: bool = Field(description="the model caps its logits; the total is before the cap")
    steps: tuple[Step, ...]
    left_out: LeftOut


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


class CutPathResponse(Response):
    """One cut path. ``answers``: the parts whose shares in the logit change most, and their changes; ``others``: the
    change of all the rest; ``readers``: the reader first, then with ``group`` all heads that read the same keys."""

    look: str
    writer: str
    reader: str
    readers: list[str]
    into: str
    query: int
    key: int | None
    position: int
    token: NextToken
    weight: Moved | None
    logit: Moved
    probability: Moved
    answers: dict[str, float]
    others: float


class LensRequest(Request):
    """The logit lens at one position."""

    look: LookName
    position: int = Field(ge=0)


class LensLayer(Response):
    """The likeliest token if the stream at this point were its end. ``point``: ``resid_pre 3``, at last ``logits``."""

    point: str
    token: NextToken


class LensResponse(Response):
    """The logit lens at one position, in the order of the layers."""

    look: str
    position: int
    layers: list[LensLayer]


class PatchingRequest(Request):
    """Values of ``look``, the clean text, put into ``corrupted``; the likeliest next token of each unless given."""

    look: LookName
    corrupted: LookName
    right: int | None = Field(default=None, ge=0)
    wrong: int | None = Field(default=None, ge=0)
    at: Literal["z", "resid_pre", "attn_out", "mlp_out"] = "z"


class PatchingResponse(Response):
    """The metric is the logit of ``right`` minus that of ``wrong``. An effect of 1: as clean; 0: as corrupted."""

    look: str
    corrupted: str
    at: str
    by: Literal["head", "position"]
    right: NextToken
    wrong: NextToken
    clean: float
    unpatched: float
    layers: list[str]
    columns: list[str]
    effect: list[list[float | None]] = Field(description="by layer and column; null where there is no such head")


def split_arrow(look: Look, asked: WhyRequest) -> WhyResponse:
    """Split one arrow of a look."""
    _check_stream(look)
    found = look.why(asked.head, asked.query, asked.key, None if asked.minus == "mean" else asked.minus)
    rows, columns = _by_size(found.asked), _by_size(found.answered)
    return WhyResponse(
        **{name: getattr(found, name) for name in ("query", "key", *NUMBERS)},
        look=asked.look,
        head=str(found.head),
        group=[str(head) for head in found.group],
        asked=[found.asked[index] for index in rows],
        answered=[found.answered[index] for index in columns],
        pairs=found.pairs[rows[:PAIRED]][:, columns[:PAIRED]].tolist(),
        pairs_count=found.pairs.numel(),
        pairs_sum=float(found.pairs.sum()),
        pairs_size=float(found.pairs.abs().sum()),
        terms=dict(found.terms),
    )


def trace_back(look: Look, asked: TraceRequest) -> TraceResponse:
    """Trace a prediction of a look."""
    position, token = _explained_token(look, asked.position, asked.token)
    minus = None if asked.minus is None else next_token(look, position, asked.minus)
    found = look.trace(token.id, None if minus is None else minus.id, position, asked.floor)
    names = ("position", "total", "constant", "floor", "capped", "steps", "left_out")
    return TraceResponse(look=asked.look, token=token, minus=minus, **{name: getattr(found, name) for name in names})


def cut_path(look: Look, asked: CutPathRequest) -> CutPathResponse:
    """Cut one path of a look: the weight, the logit and the probability as they are, predicted, and in truth."""
    position, token = _explained_token(look, asked.query if asked.position is None else asked.position, asked.token)
    reader = look.shape.find(asked.reader)
    group = look.shape.sites[reader.site].group(reader.head) if asked.group else ()
    readers = (reader, *(head for head in group if head != reader))
    cut = path(asked.writer, readers, into=asked.into, query=asked.query, key=asked.key)
    found = path_effect(look, cut, token.id, position)
    changes = list(found.answers.items())
    return CutPathResponse(
        **asked.model_dump(include={"look", "writer", "reader", "into", "query", "key"}),
        readers=[str(head) for head in readers],
        position=position,
        token=token,
        weight=found.weight,
        logit=found.logit,
        probability=found.probability,
        answers=dict(changes[:ANSWERS]),
        others=sum(change for _, change in changes[ANSWERS:]),
    )


def read_lens(look: Look, asked: LensRequest) -> LensResponse:
    """The logit lens of a look."""
    found = {point: next_tokens(each)[0] for point, each in look.logit_lens(asked.position).items()}
    layers = [LensLayer(point=point, token=best) for point, best in found.items()]
    return LensResponse(look=asked.look, position=asked.position, layers=layers)


def _other_token(clean: Look, corrupted: Look, right: int) -> int:
    """The likeliest token of the corrupted text; where that is the right one, which of its likeliest gains most."""
    likeliest = corrupted.logits[-1].topk(min(LIKELIEST, corrupted.logits.shape[-1])).indices
    if int(likeliest[0]) != right:
        return int(likeliest[0])
    others = likeliest[likeliest != right]
    return int(others[(corrupted.logits[-1] - clean.logits[-1])[others].argmax()])


def patch_texts(clean: Look, corrupted: Look, asked: PatchingRequest) -> PatchingResponse:
    """Patch every head, or every position, of one look into another."""
    needs_predictions(clean)
    if len(clean.tokens) > MOST_TOKENS:
        raise InputError(
            f"this text has {len(clean.tokens)} tokens, and a page patches at most {MOST_TOKENS}; shorten both texts, "
            "or use scope.patching in Python"
        )
    right = next_token(clean, -1, asked.right)
    wrong = next_token(corrupted, -1, _other_token(clean, corrupted, right.id) if asked.wrong is None else asked.wrong)
    if right.id == wrong.id:
        raise InputError(f"{right.text!r} is chosen on both sides; choose another next token on one of them")
    by: Literal["head", "position"] = "head" if asked.at == "z" else "position"
    found = patching(clean, corrupted, (right.id, wrong.id), asked.at, by, "exact")
    effect = [[None if cell != cell else cell for cell in row] for row in found.effect.tolist()]
    return PatchingResponse(
        look=asked.look, corrupted=asked.corrupted, at=asked.at, by=by, right=right, wrong=wrong, clean=found.clean,
        unpatched=found.corrupted, layers=list(found.layers), columns=list(found.columns), effect=effect,
    )  # fmt: skip


def _explained_token(look: Look, position: int, token: int | None) -> tuple[int, NextToken]:
    """The position and the next token whose prediction is explained; refused where none is predicted or kept."""
    needs_predictions(look)
    _check_stream(look)
    place = look.position(position)
    return place, next_token(look, place, token)


def _by_size(shares: Sequence[Share]) -> list[int]:
    """Indices of shares, the largest first."""
    return sorted(range(len(shares)), key=lambda index: -abs(shares[index].value))


def _check_stream(look: Look) -> None:
    """Refuse a text whose recorded residual stream would be too large for a page."""
    size = 4 * 2 * len(look.shape.sites) * len(look.tokens) * look.shape.d_model  # about: twice per layer
    if size > STREAM_BYTES:
        most = len(look.tokens) * STREAM_BYTES // size
        raise InputError(
            f"what is written into the residual stream of {len(look.tokens)} tokens takes {size / 2**30:.1f} GiB, and "
            f"a page keeps {STREAM_BYTES / 2**30:.0f} GiB of it; explain a text of at most {most} tokens"
        )
