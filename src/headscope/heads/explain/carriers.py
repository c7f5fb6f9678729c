"""The heads that carry a document into an answer: estimated by integrated gradients, verified by cutting arrows.

On the way from the document hidden to the document seen, the odds of every arrow into it grow from 0 to what they are,
in every head at once. The gradients of the answer along that way add up to the effect (Sundararajan et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.attention.progress import report_progress
from headscope.heads.edits.hidden_keys import ROWS, hide, weights_of
from headscope.heads.head_table import HeadTable, of_head
from headscope.models.structure.points import Point, gradients_at
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.explain.sources import DocumentReader

DRAWS = 3  # sets of random heads
NODES = ((0.1127, 5 / 18), (0.5, 8 / 18), (0.8873, 5 / 18))  # Gauss-Legendre on 0–1
STEEP = 3  # odds are the third power of a node: an answer changes most where little of a document is seen


@dataclass(frozen=True, repr=False)
class Carriers(HeadTable):
    """The heads that carry a document into an answer, and what the answer loses when their arrows into it are cut."""

    _column, _signed = "estimated", True
    document: int
    answer: str
    estimated: Float[Tensor, " head"]
    """Each head's part of the effect in nats, by integrated gradients."""
    names: tuple[Head, ...]
    heads: tuple[Head, ...]
    """Those with the largest parts, largest first: these are cut."""
    arrows: tuple[tuple[int, int], ...]
    """The arrow of each into the document, query and key, that has the largest part."""
    together: float
    """Measured: nats lost when the arrows of ``heads`` into the document are cut."""
    random: tuple[float, ...]
    """Measured: the same of as many random heads, drawn several times."""
    everything: float
    """Measured: nats lost when the document is hidden from every head."""

    @property
    def sum(self) -> float:
        """All estimated parts together; compare it with ``everything``."""
        return float(self.estimated.sum())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {**of_head(head), "estimated": float(part), "cut": head in self.heads}
            for head, part in zip(self.names, self.estimated, strict=True)
        ]

    def _title(self) -> str:
        return f"Nats of {self.answer!r} that each head carries from document {self.document}"

    def __str__(self) -> str:
        parts = dict(zip(self.names, self.estimated.tolist(), strict=True))
        lines = [f"  {head!s:<6} {parts[head]:+.2f} (estimated)" for head in self.heads]
        return "\n".join(
            (
                f"What {self.answer!r} loses, in nats, when arrows into document {self.document} are cut:",
                *lines,
                f"  these {len(self.heads)} together {self.together:+.2f} (measured)",
                f"  {len(self.heads)} random heads at most {max(self.random):+.2f} (measured {len(self.random)} times)",
                f"  every head {self.everything:+.2f} (measured; all estimates add up to {self.sum:+.2f})",
            )
        )


def carriers(
    reader: DocumentReader, span: range, document: int, answer: int, count: int, whole: float, everything: float
) -> Carriers:
    """Estimate every head's part of an effect, then cut the arrows of those with the largest."""
    heads = tuple(reader.model.shape.heads())
    parts, arrows = torch.zeros(len(heads), dtype=torch.float64), list[tuple[int, int]]()
    for done, (node, weight) in enumerate(NODES):
        report_progress("finding the heads that carry a document", done, len(NODES))
        found, arrows = slopes(reader, [span], answer, node**STEEP)[0]
        parts += weight * STEEP / node * found
    order = parts.argsort(descending=True)[:count].tolist()
    others = [index for index in range(len(heads)) if index not in order]
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randperm(len(others), generator=generator)[:count].tolist() for _ in range(DRAWS)]
    sets = [tuple(heads[index] for index in order), *(tuple(heads[others[at]] for at in draw) for draw in draws)]
    together, *random = (whole - float(reader.log_probabilities([hide(span, some)])[answer]) for some in sets)
    return Carriers(
        document, reader.answers[answer].strip(), parts, heads, sets[0], tuple(arrows[index] for index in order),
        together, tuple(random), everything,
    )  # fmt: skip


def slopes(
    reader: DocumentReader, spans: Sequence[range], answer: int, odds: float = 1.0
) -> list[tuple[Float[Tensor, " head"], list[tuple[int, int]]]]:
    """How fast the log-probability of an answer grows with the log-odds of each head's arrows into each span.

    And for each head the arrow, query and key, with which it grows fastest.

    With odds below 1, at the point where all arrows into the first span have these odds.
    """
    calls = dict[str, Call]()

    def dimmed(site: str, call: Call) -> Tensor:
        bias = _Dimmed(call.scores.bias, spans[0], math.log(odds))
        calls[site] = call if odds == 1.0 else replace(call, scores=replace(call.scores, bias=bias))
        return plain(calls[site])

    points = [Point("z", site) for site in reader.model.shape.sites]
    metric = partial(reader.log_probability, answer)
    found = gradients_at(reader.model, reader.inputs_for(answer), metric, points, dimmed)
    by_site = [[_slope(calls[at.where], found[at], span) for at in points] for span in spans]
    return [
        (torch.cat([parts for parts, _ in each]), [arrow for _, arrows in each for arrow in arrows]) for each in by_site
    ]


@dataclass(frozen=True)
class _Dimmed:
    """A bias that adds a number to the scores of a document's keys, from queries outside of it."""

    before: Any
    span: range
    log_odds: float

    def block(self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int) -> Float[Tensor, "..."]:
        arrows = _into(self.span, rows + offset, columns) * self.log_odds
        return arrows[None, None] if self.before is None else self.before.block(rows, columns, offset) + arrows

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.before is not None:
            self.before.check(batch, n_heads, n_query, n_key)

    def only(self, head: int) -> _Dimmed:
        return self if self.before is None else replace(self, before=self.before.only(head))


def _into(span: range, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"]) -> Float[Tensor, "query key"]:
    """1 where a query outside of a span sees a key inside of it."""
    inside = [(at >= span.start) & (at < span.stop) for at in (rows, columns)]
    return (~inside[0][:, None] & inside[1][None, :]).float()


@torch.no_grad()
def _slope(
    call: Call, slope: Float[Tensor, "1 query head d"], span: range
) -> tuple[Float[Tensor, " head"], list[tuple[int, int]]]:
    """How fast a metric grows with the log-odds of the arrows into a span, by head, and with which of them most."""
    heads = torch.arange(call.q.shape[1], device=call.q.device)
    total = torch.zeros(len(heads), dtype=torch.float64, device=call.q.device)
    most, at = torch.full_like(total, -torch.inf), torch.zeros_like(heads)
    values = call.v[0, heads // (call.q.shape[1] // call.k.shape[1])].float()
    for rows in torch.split(torch.arange(call.q.shape[2], device=call.q.device), ROWS):
        weights = weights_of(call, heads, rows)[0].float()
        gains = slope[0, rows].transpose(0, 1).float() @ values.transpose(1, 2)
        parts = weights * (gains - (weights * gains).sum(-1, keepdim=True))
        parts = (parts * _into(span, rows, torch.arange(call.k.shape[2], device=call.q.device)))[
            :, :, span.start : span.stop
        ]
        total += parts.sum((1, 2)).double()
        best = parts.flatten(1).double().max(1)
        at = torch.where(best.values > most, best.indices + int(rows[0]) * len(span), at)
        most = torch.maximum(most, best.values)
    return total.cpu(), [(each // len(span), span.start + each % len(span)) for each in at.tolist()]
