"""What each head of a site adds to one position, and each head's share of a next token's logit."""

from __future__ import annotations

import unicodedata

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from headscope.app.pages.predictions import NextToken
from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError, ModelError
from headscope.heads.look.attribution import site_contribution
from headscope.heads.look.look import Look
from headscope.models.protocol import HeadSum
from headscope.models.recording import OpenModel
from headscope.names import Head


class AttributionRequest(Request):
    """Logit attribution at one position, and the head outputs of one site there."""

    look: LookName
    site: PartName
    position: int = Field(ge=0)
    toward: int | None = Field(default=None, description="a token id; the likeliest next token unless given")
    minus: int | None = Field(default=None, description="a token id; its logit is subtracted from the first one's")


class AttributionResponse(Response):
    """One site at one position, head by head.

    Arrays, float32: ``reads`` [head, key], the attention row; ``delivered`` [head, d_value], z; ``parts``
    [head, d_model], each head's z through W_O; ``bias`` [d_model]; ``output`` [d_model], the site's output, so that
    parts + bias = output; ``shares`` [head of the whole model], each head's share of the logit of ``toward``, less that
    of ``minus``.
    """

    look: str
    site: str
    position: int
    toward: NextToken | None = Field(description="none where no logit can be split over the heads; the note says why")
    minus: NextToken | None = None
    kind: HeadSum = Field(description="what kind of sum the parts make")
    note: str = Field(default="", description="how the final norm was taken into account, or why it was not")


class TokenRequest(Request):
    """A next token as the user types it."""

    text: str = Field(max_length=200)


class NamedToken(Response):
    """A token of the vocabulary."""

    id: int
    text: str


class TokenResponse(NamedToken):
    """The first token of the typed text; ``spaced``: the token of the same text after a space."""

    of: int = Field(description="how many tokens were typed")
    spaced: NamedToken | None


def attribute(look: Look, asked: AttributionRequest) -> tuple[AttributionResponse, Arrays]:
    """One site at one position, head by head, and every head's share of the requested logit."""
    look.shape.find(Head(asked.site, 0))
    position = _position(look, asked)
    reads = [look.weights(head, slice(position, position + 1))[0] for head in look.shape.sites[asked.site].heads()]
    toward, minus, note, shares = _shares(look, position, asked)
    part = site_contribution(look, asked.site, position)
    found = AttributionResponse(
        look=asked.look, site=asked.site, position=position, toward=toward, minus=minus, kind=part.kind, note=note
    )
    return found, {
        "reads": numbers(torch.stack(reads)),
        "delivered": numbers(part.z),
        "parts": numbers(part.parts),
        "bias": numbers(part.bias),
        "output": numbers(part.output),
        "shares": shares,
    }


def _position(look: Look, asked: AttributionRequest) -> int:
    """The position of a site's query; a site that reads patches, or an encoder, has others than what is written."""
    length = len(look.query_tokens(asked.site))
    if asked.position >= length:
        raise InputError(f"position {asked.position}: the queries of {asked.site} are positions 0–{length - 1}")
    return asked.position


def _shares(
    look: Look, position: int, asked: AttributionRequest
) -> tuple[NextToken | None, NextToken | None, str, NDArray[np.float32]]:
    """The two tokens, a note, and the share of every head of the model, NaN where the logit cannot be split."""
    shares = np.full(look.shape.n_heads, np.nan, dtype=np.float32)
    if look.shape.vocabulary is None or look.query_tokens(asked.site) != look.written:
        return None, None, "", shares
    toward = next_token(look, position, asked.toward)
    minus = None if asked.minus is None else next_token(look, position, asked.minus)
    try:
        found = look.logit_attribution(toward.id, minus.id if minus else None, position=position)
    except (InputError, ModelError) as why:  # logits that cannot be split: parts and sums are still there
        return None, None, str(why), shares
    shares[:] = [found.heads.get(head, np.nan) for head in look.shape.heads()]
    return toward, minus, found.note, shares


def next_token(look: Look, position: int, token: int | None) -> NextToken:
    """This token with its probability; the likeliest one unless an id is given."""
    probabilities = look.cache.logits_at(position).double().softmax(-1)
    chosen = int(probabilities.argmax()) if token is None else token
    if not 0 <= chosen < len(probabilities):
        raise InputError(f"token {chosen} is not in the vocabulary: this model has tokens 0–{len(probabilities) - 1}")
    text = look.model.processor.tokens_of(torch.tensor([chosen]))[0].text
    return NextToken(text=text, id=chosen, probability=float(probabilities[chosen]))


def find_token(model: OpenModel, typed: str) -> TokenResponse:
    """Return the first token of a typed text, and of that text after a space if that token differs."""
    if not typed:
        raise InputError("no token was typed; type a word, with a space before it where the text has one")
    if model.shape.vocabulary is None:
        raise InputError(f"{model.shape.name} predicts no tokens, so no logit can be split over its heads")
    first, of = _first(model, typed)
    if not _stands_for(first.text, typed):
        raise InputError(f"this model has no token for {typed!r}: it reads {first.text}, its unknown token")
    spaced = None
    if not typed[0].isspace():
        other, count = _first(model, " " + typed)
        if other.id != first.id and count <= of and _stands_for(other.text, typed):
            spaced = other
    return TokenResponse(id=first.id, text=first.text, of=of, spaced=spaced)


def _first(model: OpenModel, text: str) -> tuple[NamedToken, int]:
    ids = model.processor.token_ids(text)
    if not ids:
        raise InputError(f"{text!r} has no tokens for this model; type a word or a sign")
    token = model.processor.tokens_of(torch.tensor(ids[:1]))[0]
    return NamedToken(id=token.id, text=token.text), len(ids)


def _stands_for(token: str, typed: str) -> bool:
    """Whether a token is the beginning of the typed text, or bytes of it, and not the unknown token."""
    return "\N{REPLACEMENT CHARACTER}" in token or _bare(typed).startswith(_bare(token))


def _bare(text: str) -> str:
    """The text as a tokenizer without capitals or accents reads it."""
    apart = unicodedata.normalize("NFKD", text).strip().casefold()
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
