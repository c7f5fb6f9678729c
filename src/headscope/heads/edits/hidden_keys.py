"""Hide keys from queries: softmax shares their weight among the other keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.masks import Mask, Part
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, Reached
from headscope.models.protocol import OpenModel
from headscope.names import Head, HeadName


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

        hidden = _HiddenKeys(found, query, key)
        return BoundEdit(scores=hidden.scores, z=hidden.z, refuse_beyond=refuse_beyond)

    return Edit(f"knock_out({head};{query};{key})", bind)


@dataclass(frozen=True)
class _HiddenKeys:
    """Scores and z of a head with a key hidden from a query."""

    head: Head
    query: int
    key: int

    def scores(self, site: str, call: Call) -> Scores:
        """The scores with the key masked."""
        if site != self.head.site:
            return call.scores
        hidden = Hidden(call.q.shape[1], self.head.head, self.query - call.first_query, (self.key - call.first_key,))
        return replace(call.scores, mask=call.scores.mask & Mask((hidden,)))

    def z(self, site: str, call: Call, z: Tensor) -> Tensor:
        """z of the query, computed again from the scores with all keys masked that are hidden from it."""
        row, column = self.query - call.first_query, self.key - call.first_key
        if site == self.head.site and 0 <= row < call.q.shape[2] and 0 <= column < call.k.shape[2]:
            z = z.clone()
            z[:, self.head.head, row] = _row(call, self.head.head, row).to(z)
        return z


@dataclass(frozen=True)
class Hidden(Part):
    """A mask that hides some columns from one row of one head."""

    n_heads: int
    head: int
    row: int
    columns: tuple[int, ...]

    def block(
        self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int
    ) -> Bool[Tensor, "1 head query key"]:
        heads = torch.arange(self.n_heads, device=columns.device) == self.head
        keys = torch.isin(columns, torch.tensor(self.columns, device=columns.device))
        return ~(heads[:, None, None] & (rows == self.row)[:, None] & keys)[None]

    def only(self, head: int) -> Hidden:
        return replace(self, n_heads=1, head=self.head - head)


def _row(call: Call, head: int, row: int) -> Float[Tensor, "batch d_value"]:
    """z of one query of a head."""
    scores = call.scores.bind(call.q, call.k)
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    rows = torch.tensor([row], device=call.q.device)
    columns = torch.arange(n_key, device=call.q.device)
    logits = scores.block(call.q[:, :, row : row + 1], call.k, rows, columns, n_key - n_query)[:, head, 0]
    weights = softmax_with_sink(logits, None if scores.sinks is None else scores.sinks[head : head + 1])
    return torch.einsum("bk,bkd->bd", weights, call.v[:, head // (call.q.shape[1] // call.k.shape[1])].to(weights))


def softmax_with_sink(
    logits: Float[Tensor, "*rows key"], sink: Float[Tensor, " 1"] | None
) -> Float[Tensor, "*rows key"]:
    """The pattern of some rows of one head, next to its learned sink; zeros where every key is masked."""
    n_key = logits.shape[-1]
    if sink is not None:
        logits = torch.cat((logits, sink.to(logits).expand(*logits.shape[:-1], 1)), dim=-1)
    return torch.softmax(logits, dim=-1).nan_to_num(0.0)[..., :n_key]
