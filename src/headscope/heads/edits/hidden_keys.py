"""Hide keys from queries: softmax shares their weight among the other keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.masks import Mask, Part
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.checked import checked
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, Reached, by_site, listed, names
from headscope.models.recording import OpenModel
from headscope.names import HeadName

ROWS = 512  # queries whose z is computed again at once


@checked
def knock_out(head: HeadName, query: int, key: int) -> Edit:
    """Hide one key from one query of a head."""
    if query < 0 or key < 0:
        raise EditError(f"knock_out() at query {query}, key {key}: positions count from 0")

    def bind(model: OpenModel) -> BoundEdit:
        found = model.shape.find(head)

        def refuse_beyond(reached: Reached) -> None:
            n_query, n_key = reached.get(found.site, (query + 1, key + 1))
            if query >= n_query or key >= n_key:
                raise EditError(
                    f"knock_out() at query {query}, key {key} of {found}: this text has the queries 0–{n_query - 1} "
                    f"and the keys 0–{n_key - 1} there"
                )

        hidden = _HiddenKeys({found.site: [found.head]}, (key,), (query,))
        return BoundEdit(scores=hidden.scores, z=hidden.z, refuse_beyond=refuse_beyond)

    return Edit(f"knock_out({head};{query};{key})", bind)


@checked
def hide(
    span: Sequence[int], heads: Sequence[HeadName] | None = None, queries: Literal["outside", "all"] = "outside"
) -> Edit:
    """Hide the keys of a span of positions, such as ``look.span("the second document")``, from every head or ``heads``.

    From all queries outside the span, so that the span itself is read as it was; ``queries="all"``: from every query.
    """
    keys = tuple(span)
    if not keys or min(keys) < 0:
        raise EditError(f"hide({list(keys)}): give at least one position; they count from 0, as in look.span(text)")

    def bind(model: OpenModel) -> BoundEdit:
        if heads is None and len({re.sub(r"\d+", "", site) for site in model.shape.sites}) > 1:
            raise EditError(
                f"hide(): {model.shape.name} reads more than one sequence, and positions are of one; name the heads, "
                "as in hide(span, heads=['encoder.1.0'])"
            )
        sites = by_site(model, model.shape.heads() if heads is None else names(heads))

        def refuse_beyond(reached: Reached) -> None:
            n_key = min((reached[site][1] for site in sites if site in reached), default=max(keys) + 1)
            if max(keys) >= n_key:
                raise EditError(f"hide() at position {max(keys)}: this text has the keys 0–{n_key - 1}")

        hidden = _HiddenKeys(sites, keys, keys if queries == "outside" else (), others=True)
        return BoundEdit(scores=hidden.scores, z=hidden.z, refuse_beyond=refuse_beyond)

    return Edit(f"hide({keys};{None if heads is None else listed(heads)};{queries})", bind)


@dataclass(frozen=True)
class _HiddenKeys:
    """Scores and z of heads with keys hidden from these queries, or from all others."""

    heads: Mapping[str, list[int]]
    keys: tuple[int, ...]
    queries: tuple[int, ...]
    others: bool = False

    def scores(self, site: str, call: Call) -> Scores:
        """The scores with the keys masked."""
        if site not in self.heads:
            return call.scores
        rows = tuple(query - call.first_query for query in self.queries)
        columns = tuple(key - call.first_key for key in self.keys)
        hidden = Hidden(call.q.shape[1], tuple(self.heads[site]), rows, columns, self.others)
        return replace(call.scores, mask=call.scores.mask & Mask((hidden,)))

    def z(self, site: str, call: Call, z: Tensor) -> Tensor:
        """z of the queries, computed again from the scores with all keys masked that are hidden from them."""
        if site not in self.heads or not any(0 <= key - call.first_key < call.k.shape[2] for key in self.keys):
            return z
        z, heads = z.clone(), torch.tensor(self.heads[site], device=z.device)
        rows = torch.arange(call.q.shape[2], device=z.device)
        asked = torch.tensor(self.queries, device=z.device) - call.first_query
        for some in torch.split(rows[torch.isin(rows, asked, invert=self.others)], ROWS):
            if len(some):
                z[:, heads[:, None], some] = _z_of(call, heads, some).to(z)
        return z


@dataclass(frozen=True)
class Hidden(Part):
    """A mask that hides some columns from some rows, or from all others, of some heads."""

    n_heads: int
    heads: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    others: bool

    def block(
        self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int
    ) -> Bool[Tensor, "1 head query key"]:
        device = columns.device
        heads = torch.isin(torch.arange(self.n_heads, device=device), torch.tensor(self.heads, device=device))
        asked = torch.isin(rows, torch.tensor(self.rows, device=device), invert=self.others)
        keys = torch.isin(columns, torch.tensor(self.columns, device=device))
        return ~(heads[:, None, None] & asked[:, None] & keys)[None]

    def only(self, head: int) -> Hidden:
        return replace(self, n_heads=1, heads=(0,) if head in self.heads else ())


def _z_of(call: Call, heads: Int[Tensor, " head"], rows: Int[Tensor, " query"]) -> Float[Tensor, "batch head query d"]:
    """z of some heads and queries."""
    weights = weights_of(call, heads, rows)
    return weights @ call.v[:, heads // (call.q.shape[1] // call.k.shape[1])].to(weights)


def weights_of(
    call: Call, heads: Int[Tensor, " head"], rows: Int[Tensor, " query"]
) -> Float[Tensor, "batch head query key"]:
    """The patterns of some heads and queries."""
    scores = call.scores.bind(call.q, call.k)
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    columns = torch.arange(n_key, device=call.q.device)
    logits = scores.block(call.q[:, :, rows], call.k, rows, columns, n_key - n_query)[:, heads]
    return softmax_with_sink(logits, None if scores.sinks is None else scores.sinks[heads, None, None])


def softmax_with_sink(
    logits: Float[Tensor, "*rows key"], sinks: Float[Tensor, "..."] | None
) -> Float[Tensor, "*rows key"]:
    """The pattern of some rows, next to the learned sinks of their heads; zeros where every key is masked."""
    n_key = logits.shape[-1]
    if sinks is not None:
        logits = torch.cat((logits, sinks.to(logits).expand(*logits.shape[:-1], 1)), dim=-1)
    return torch.softmax(logits, dim=-1).nan_to_num(0.0)[..., :n_key]
