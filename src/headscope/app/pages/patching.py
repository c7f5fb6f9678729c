"""The likeliest token after every layer, and which head or position carries what sets two texts apart."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headscope.app.pages.attribution import next_token
from headscope.app.pages.predictions import NextToken
from headscope.app.pages.schema import LookName, Request, Response
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.heads.patching import patching

LIKELIEST = 10
MOST_TOKENS = 256  # of a text that is patched: each position is a copy of it in a batch


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


def read_lens(look: Look, asked: LensRequest) -> LensResponse:
    """The logit lens of a look."""
    found = {point: best for point, (best,) in look.logit_lens(asked.position).items()}
    layers = [
        LensLayer(point=point, token=NextToken(text=best.token.text, id=best.token.id, probability=best.probability))
        for point, best in found.items()
    ]
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
    if clean.shape.vocabulary is None:
        raise InputError(f"{clean.shape.name} predicts no tokens, so there is no metric to patch for")
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
