"""The next token as the page shows it: as it is, under edits, and as a draw would cut it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.app.pages import schema
from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.heads.look.edits import Edit, ablate, knock_out
from headscope.heads.look.look import Look
from headscope.heads.look.sampling import Sampling, cuts

LADDER = 64  # tokens of the distribution that a cut is drawn on


def edits_of(asked: schema.PredictRequest, look: Look) -> list[Edit]:
    """The edits a request names, each head and arrow checked against this text."""
    shape = look.shape
    off = [str(shape.find(name)) for name in dict.fromkeys(asked.off)]
    edges = [_checked(edge, look) for edge in dict.fromkeys(asked.cuts)]
    switched: list[Edit] = [ablate(*off, how=asked.how)] if off else []
    return [*switched, *(knock_out(edge.head, edge.query, edge.key) for edge in edges)]


def _checked(edge: schema.Edge, look: Look) -> schema.Edge:
    site = look.shape.find(edge.head).site
    rows, columns = len(look.query_tokens(site)), len(look.key_tokens(site))
    if edge.query >= rows or edge.key >= columns:
        raise InputError(
            f"the arrow of {edge.head} from token {edge.query} to token {edge.key} is not in this text: "
            f"it has {rows} tokens that look and {columns} that are looked at"
        )
    return edge


def logits_under(look: Look, edits: Sequence[Edit]) -> Float[Tensor, "query vocabulary"]:
    """The text read again with these edits, and nothing measured: a third of what a look costs."""
    bound = [edit.bind(look.model) for edit in edits]

    def attend(site: str, call: Call) -> Tensor:
        z = plain(call)
        for change in bound:
            z = change(site, call, z)
        return z

    with torch.no_grad():
        return look.model.run(look.prepared.inputs, attend).logits[0]


def guesses(look: Look, place: int, count: int) -> list[schema.Guess]:
    """The likeliest next tokens."""
    found = look.predictions(place, count)
    return [schema.Guess(text=each.token.text, id=each.token.id, probability=each.probability) for each in found]


def changed(
    card: schema.Prediction, before: Float[Tensor, " vocabulary"], after: Float[Tensor, " vocabulary"]
) -> schema.Prediction:
    """The card with what the edits made of its guesses."""
    as_is, edited = before.double().log_softmax(-1), after.double().log_softmax(-1)
    without = edited.exp()[[guess.id for guess in card.guesses]].tolist()
    kl = max(0.0, float((as_is.exp() * (as_is - edited)).nansum()))
    return card.model_copy(update={"without": without, "kl": kl})


def sampled(
    logits: Float[Tensor, " vocabulary"], asked: schema.SamplingRequest, shown: Sequence[schema.Guess]
) -> schema.Sampled:
    """What a draw would choose from."""
    rules = Sampling(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p)
    steps = cuts(logits, rules)
    left = steps.top_p > 0
    return schema.Sampled(
        probabilities=steps.top_p[[guess.id for guess in shown]].tolist(),
        ladder=steps.tempered.topk(min(LADDER, len(logits))).values.tolist(),
        after_k=int((steps.top_k > 0).sum()),
        kept=int(left.sum()),
        mass=float(steps.tempered[left].sum()),
    )
