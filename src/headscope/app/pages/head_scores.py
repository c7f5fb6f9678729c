"""What every head is asked on the page, and its answer averaged over the places of a text where it can be asked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headscope.app.pages.schema import QuestionCard
from headscope.heads.look.look import Look
from headscope.names import Site

QUESTIONS = (
    QuestionCard(
        name="previous", title="Previous token", unit="share", sentence="How much lands on the token just before?"
    ),
    QuestionCard(name="itself", title="Itself", unit="share", sentence="How much stays on the token that is asking?"),
    QuestionCard(name="first", title="First token", unit="share", sentence="How much is parked on the first token?"),
    QuestionCard(
        name="duplicate",
        title="Duplicate token",
        unit="share",
        sentence="How much lands on earlier copies of this token?",
    ),
    QuestionCard(
        name="induction", title="Induction", unit="share", sentence="How much lands on what followed this token before?"
    ),
    QuestionCard(name="entropy", title="Entropy, nats", unit="nats", sentence="How widely is its attention spread?"),
    QuestionCard(
        name="distance", title="Distance, tokens", unit="tokens", sentence="How far back does it read, on average?"
    ),
)


def site_answers(look: Look, site: Site) -> Float[np.ndarray, "question head"]:
    """The mean answer of each head of a site; NaN where the text gives no place to ask, or did not reach the site."""
    answers = np.full((len(QUESTIONS), site.n_heads), np.nan, dtype=np.float32)
    if site.name not in look.sites:
        return answers
    found = look.mean_answers(site.name) | _traits(look, site)
    for index, card in enumerate(QUESTIONS):
        if card.name in found:
            answers[index] = found[card.name].double().cpu().numpy()
    return answers


def _traits(look: Look, site: Site) -> dict[str, Float[Tensor, " head"]]:
    """Means over all rows; the first of causal attention has one key and no choice, so it does not count."""
    rows = look.statistics(site.name)
    first = 1 if site.causal and site.kind == "self" else 0
    if rows.entropy is None or rows.distance is None or rows.entropy.shape[2] <= first:
        return {}
    return {"entropy": rows.entropy[0, :, first:].mean(-1), "distance": rows.distance.mean[0, :, first:].mean(-1)}
