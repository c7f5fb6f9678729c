"""The next token: as the model predicts it, and under edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.errors import InputError
from headscope.heads.edits.ablate import ablate
from headscope.heads.edits.edit import Edit, Edits
from headscope.heads.edits.hidden_keys import knock_out
from headscope.heads.look.look import Look
from headscope.heads.look.sampling import Prediction
from headscope.models.selfcheck import relative_difference

Removal = Literal["zero", "mean"]
Predicts = Literal["token", "class", "vector", "unknown"]


class NextToken(Response):
    """A possible next token."""

    text: str
    id: int
    probability: float


class HeadArrow(Request):
    """One arrow of one head: the attention of a query to a key."""

    head: PartName
    query: int = Field(ge=0)
    key: int = Field(ge=0)


class PredictRequest(Request):
    """The next token of the unchanged model, and with some heads ablated or some arrows knocked out."""

    look: LookName
    position: int = Field(ge=0)
    off: list[PartName] = Field(default=[], max_length=4_096)
    cuts: list[HeadArrow] = Field(default=[], max_length=64)
    how: Removal = "zero"
    count: int = Field(default=6, ge=1, le=100)


class PredictResponse(Response):
    """``without``: the same tokens' probabilities under the edits; ``kl``: KL(unchanged ‖ edited) in nats.

    A classifier's guesses are classes. Of a model that predicts neither, ``moved`` says how far its output moves under
    the edits, relative to its largest number.
    """

    look: str
    position: int
    off: list[str]
    cuts: list[HeadArrow] = []
    how: Removal
    predicts: Predicts = "token"
    guesses: list[NextToken] = []
    without: list[float] | None = None
    kl: float | None = None
    moved: float | None = None


def edits_of(asked: PredictRequest, look: Look) -> list[Edit]:
    """The edits of a request, each head and arrow checked against this text."""
    shape = look.shape
    off = [str(shape.find(name)) for name in dict.fromkeys(asked.off)]
    edges = [_checked(edge, look) for edge in dict.fromkeys(asked.cuts)]
    ablated: list[Edit] = [ablate(*off, how=asked.how)] if off else []
    return [*ablated, *(knock_out(edge.head, edge.query, edge.key) for edge in edges)]


def _checked(edge: HeadArrow, look: Look) -> HeadArrow:
    site = look.shape.find(edge.head).site
    rows, columns = len(look.query_tokens(site)), len(look.key_tokens(site))
    if edge.query >= rows or edge.key >= columns:
        raise InputError(
            f"the arrow of {edge.head} from token {edge.query} to token {edge.key} is not in this text: "
            f"it has {rows} query tokens and {columns} key tokens"
        )
    return edge


def logits_under(look: Look, edits: Sequence[Edit]) -> Float[Tensor, "query vocabulary"]:
    """Run the text again with these edits and measure nothing: a third of the cost of a look."""
    under = Edits(look.model, [edit.bind(look.model) for edit in edits])
    with torch.no_grad():
        return under.run(look.prepared.inputs).logits[0]


def next_tokens(found: Iterable[Prediction]) -> list[NextToken]:
    """Predictions for the page."""
    return [NextToken(text=each.token.text, id=each.token.id, probability=each.probability) for each in found]


def with_edits(
    shown: PredictResponse, before: Float[Tensor, " vocabulary"], after: Float[Tensor, " vocabulary"]
) -> PredictResponse:
    """The response with its tokens' probabilities under the edits, and the KL divergence."""
    as_is, changed = before.double().log_softmax(-1), after.double().log_softmax(-1)
    without = changed.exp()[[guess.id for guess in shown.guesses]].tolist()
    kl = max(0.0, float((as_is.exp() * (as_is - changed)).nansum()))
    return shown.model_copy(update={"without": without, "kl": kl})


def without_tokens(shown: PredictResponse, look: Look, after: Tensor | None, count: int) -> PredictResponse:
    """The response for a model that predicts no tokens: its classes, or how far its output moves under the edits."""
    before = look.logits
    if not before.shape[-1]:  # captured from a server
        return shown.model_copy(update={"predicts": "unknown"})
    try:
        classes = look.classes(count)
    except InputError:
        moved = None if after is None else relative_difference(after, before)
        return shown.model_copy(update={"predicts": "vector", "moved": moved})
    named = [NextToken(text=each.name, id=each.id, probability=each.probability) for each in classes]
    shown = shown.model_copy(update={"predicts": "class", "guesses": named})
    return shown if after is None else with_edits(shown, before.reshape(-1), after.reshape(-1))
