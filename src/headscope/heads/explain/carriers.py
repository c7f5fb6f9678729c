"""The heads that carry a document into an answer: estimated by integrated gradients, verified by cutting arrows.

On the way from the document hidden to the document seen, the odds of every arrow into it grow from 0 to what they are,
in every head at once. The gradients of the answer along that way add up to the effect (Sundararajan et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from headscope.attention.observer import Call, Observer, observing, plain
from headscope.attention.progress import report_progress
from headscope.heads.edits.hidden_keys import ROWS, hide, weights_of
from headscope.heads.head_table import HeadTable, of_head
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.modes import frozen_weights
from headscope.models.recording import OpenModel
from headscope.models.structure.points import Point, gradients_at
from headscope.models.structure.readers import probed
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.explain.sources import DocumentReader

Slope = tuple[Call, Float[Tensor, "1 head query d"], Float[Tensor, "1 query head d"]]
"""A site's call, its z, and how fast a metric grows along it."""

DRAWS = 2  # sets of random heads
NODES = (0.2113, 0.7887)  # Gauss-Legendre on 0–1, of equal weights; more nodes name hardly any other heads
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
    parts, slopes = torch.zeros(len(heads), dtype=torch.float64), dict[str, Slope]()
    for done, node in enumerate(NODES):
        report_progress("finding the heads that carry a document", done, len(NODES))
        slopes.clear()  # not to hold those of two nodes at once
        slopes = slopes_at(reader, answer, span, node**STEEP)
        parts += STEEP / node / len(NODES) * by_head(slopes, span)
    order = parts.argsort(descending=True)[:count].tolist()
    others = [index for index in range(len(heads)) if index not in order]
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randperm(len(others), generator=generator)[:count].tolist() for _ in range(DRAWS)]
    sets = [tuple(heads[index] for index in order), *(tuple(heads[others[at]] for at in draw) for draw in draws)]
    together, *random = (whole - float(reader.log_probabilities([hide(span, some)])[answer]) for some in sets)
    return Carriers(
        document, reader.answers[answer].strip(), parts, heads, sets[0],
        tuple(_arrow(*slopes[head.site], head.head, span) for head in sets[0]), together, tuple(random), everything,
    )  # fmt: skip


def slopes_at(reader: DocumentReader, answer: int, span: range = range(0), odds: float = 1.0) -> dict[str, Slope]:
    """Each site's call, and the slope of the log-probability of an answer along its z, from one backward pass.

    It is taken at the point where all arrows into the span have these odds.
    """
    kept = dict[str, tuple[Call, Tensor]]()

    def dimmed(call: Call) -> Call:
        return replace(call, scores=replace(call.scores, bias=_Dimmed(call.scores.bias, span, math.log(odds))))

    def attend(site: str, call: Call) -> Tensor:
        z = plain(dimmed(call))
        kept[site] = replace(dimmed(call), q=call.q.detach(), k=call.k.detach(), v=call.v.detach()), z.detach()
        return z

    points = [Point("z", site) for site in reader.model.shape.sites]
    inputs, metric = reader.inputs_for(reader.begun(answer)), partial(reader.log_probability, answer)
    with _recomputed(reader.model, lambda call: plain(dimmed(call)).requires_grad_()):
        found = gradients_at(reader.model, inputs, metric, points, attend)
    return {at.where: (*kept[at.where], slope) for at, slope in found.items()}


@contextmanager
def _recomputed(model: OpenModel, observer: Observer) -> Iterator[None]:
    """Keep only what each layer reads (Chen et al. 2016); the backward pass computes the rest again under the observer.

    Models whose attention is found while they run keep everything but what gradients of weights need.
    """
    with frozen_weights(model.model), ExitStack() as stack:
        for path in () if isinstance(model, AnyTorchModel) else probed(model).layers:
            layer = model.model.get_submodule(path)
            own, forward = vars(layer), layer.forward
            stack.callback(own.update, forward=forward) if "forward" in own else stack.callback(own.pop, "forward")
            own["forward"] = partial(
                checkpoint, forward, use_reentrant=False, preserve_rng_state=False,
                context_fn=lambda: (nullcontext(), observing(observer)),
            )  # fmt: skip
        yield


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
def by_head(slopes: Mapping[str, Slope], span: range) -> Float[Tensor, " any_head"]:
    """How fast the metric grows with the log-odds of each head's arrows into a span.

    An arrow's part is its weight times the slope along its value less z. Attention to values that are 0 outside of the
    span sums these values by weight; with a 1 at the end of each value, it sums the weights too.
    """
    parts = []
    for call, z, slope in slopes.values():
        q, k, values = (F.pad(each.float(), (0, 1), value=each is call.v) for each in (call.q, call.k, call.v))
        values[:, :, : span.start], values[:, :, span.stop :] = 0, 0
        seen = plain(replace(call, q=q, k=k, v=values, scores=call.scores.bind(call.q, call.k)))[0]
        rows = (slope[0].transpose(0, 1) * (seen[..., :-1] - seen[..., -1:] * z[0])).sum(-1).double()
        rows[:, span.start : span.stop] = 0
        parts.append(rows.sum(1))
    return torch.cat(parts).cpu()


@torch.no_grad()
def _arrow(call: Call, z: Tensor, slope: Tensor, head: int, span: range) -> tuple[int, int]:
    """The arrow of a head into a span, query and key, with which the metric grows fastest."""
    best, heads = (-math.inf, (0, 0)), torch.tensor([head], device=call.q.device)
    values = call.v[0, head // (call.q.shape[1] // call.k.shape[1])].float()
    for rows in torch.split(torch.arange(call.q.shape[2], device=call.q.device), ROWS):
        weights = weights_of(call, heads, rows)[0, 0].float()
        along = slope[0, rows, head].float()
        gains = along @ values.T - (along * z[0, head, rows]).sum(-1, keepdim=True)
        arrows = _into(span, rows, torch.arange(len(values), device=rows.device))
        parts = (weights * gains * arrows)[:, span.start : span.stop]
        at = int(parts.argmax())
        best = max(best, (float(parts.flatten()[at]), (int(rows[0]) + at // len(span), span.start + at % len(span))))
    return best[1]
