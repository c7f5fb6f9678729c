"""What the heads of one layer hand to one position, and how much of any next token's logit is theirs."""

from __future__ import annotations

import unicodedata

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.app.pages import schema
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError, ModelError
from headscope.heads.look.look import Look
from headscope.models.protocol import OpenModel
from headscope.names import Head


def mix(look: Look, asked: schema.MixRequest) -> tuple[schema.MixCard, Arrays]:
    """One site at one position, head by head, and every head's share of the logit that was asked about."""
    place = look.position(asked.position)
    look.shape.find(Head(asked.site, 0))
    reads = [look.weights(head, slice(place, place + 1))[0] for head in look.shape.sites[asked.site].heads()]
    toward, minus, note, shares = _shares(look, place, asked)
    part = look.contributions(place, [asked.site]).sites[asked.site]  # after the shares: their pass sees every site
    card = schema.MixCard(
        look=asked.look, site=asked.site, position=place, toward=toward, minus=minus, kind=part.kind, note=note
    )
    return card, {
        "reads": numbers(torch.stack(reads)),
        "delivered": numbers(part.z),
        "parts": numbers(part.parts),
        "bias": numbers(part.bias),
        "output": numbers(part.output),
        "shares": shares,
    }


def _shares(
    look: Look, place: int, asked: schema.MixRequest
) -> tuple[schema.Guess | None, schema.Guess | None, str, NDArray[np.float32]]:
    """Whose logit, less whose; a note; and the share of every head of the model, NaN where none can be given."""
    shares = np.full(look.shape.n_heads, np.nan, dtype=np.float32)
    if look.shape.vocabulary is None or look.query_tokens(asked.site) != look.written:
        return None, None, "", shares
    toward = guess_toward(look, place, asked.toward)
    minus = None if asked.minus is None else guess_toward(look, place, asked.minus)
    try:
        found = look.logit_attribution(toward.id, minus.id if minus else None, position=place)
    except (InputError, ModelError) as why:  # logits that cannot be split: parts and sums are still there
        return None, None, str(why), shares
    shares[:] = [found.heads.get(head, np.nan) for head in look.shape.heads()]
    return toward, minus, found.note, shares


def guess_toward(look: Look, place: int, token: int | None) -> schema.Guess:
    """The token whose logit is split: the likeliest unless one is named."""
    probabilities = look.logits[place].double().softmax(-1)
    chosen = int(probabilities.argmax()) if token is None else token
    if not 0 <= chosen < len(probabilities):
        raise InputError(f"token {chosen} is not there: this model has tokens 0–{len(probabilities) - 1}")
    text = look.model.processor.tokens_of(torch.tensor([chosen]))[0].text
    return schema.Guess(text=text, id=chosen, probability=float(probabilities[chosen]))


def find_token(model: OpenModel, typed: str) -> schema.FoundToken:
    """The first token of what a person typed, and the one that stands for it after a space, where that is another."""
    if not typed:
        raise InputError("no token was typed; type a word, with a space before it where the text has one")
    if model.shape.vocabulary is None:
        raise InputError(f"{model.shape.name} predicts no tokens, so no logit can be split over its heads")
    first, of = _first(model, typed)
    if not _stands_for(first.text, typed):
        raise InputError(f"this model has no token for {typed!r}: it reads it as {first.text}, as anything unknown")
    spaced = None
    if not typed[0].isspace():
        other, pieces = _first(model, " " + typed)
        if other.id != first.id and pieces <= of and _stands_for(other.text, typed):
            spaced = other
    return schema.FoundToken(id=first.id, text=first.text, of=of, spaced=spaced)


def _first(model: OpenModel, text: str) -> tuple[schema.NamedToken, int]:
    ids = model.processor.token_ids(text)
    if not ids:
        raise InputError(f"this model reads nothing in {text!r}; type a word or a sign")
    token = model.processor.tokens_of(torch.tensor(ids[:1]))[0]
    return schema.NamedToken(id=token.id, text=token.text), len(ids)


def _stands_for(token: str, typed: str) -> bool:
    """Whether a token is some of the typed text, or bytes of it, and not a sign for words that are not known."""
    return "\N{REPLACEMENT CHARACTER}" in token or _bare(typed).startswith(_bare(token))


def _bare(text: str) -> str:
    """As a tokenizer without capitals or accents reads it."""
    apart = unicodedata.normalize("NFKD", text).strip().casefold()
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
