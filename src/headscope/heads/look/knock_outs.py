"""Knock out arrows: hide keys from a query. Softmax shares their weight among the other keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.masks import Mask, Part
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.errors import EditError
from headscope.models.protocol import OpenModel
from headscope.names import Head, HeadName


@dataclass(frozen=True)
class KnockOut:
    """Knock out one arrow: hide one key from one query."""

    head: HeadName
    query: int
    key_position: int

    def bind(self, model: OpenModel) -> HiddenKeys:
        return HiddenKeys(model.shape.find(self.head), self.query, (self.key_position,))

    def key(self) -> str:
        return f"knock_out({self.head};{self.query};{self.key_position})"


@dataclass(frozen=True)
class HiddenKeys:
    """The bound edit: z of one query of a head, with some keys hidden from it."""

    head: Head
    query: int
    keys: tuple[int, ...]

    def __call__(self, site: str, call: Call, z: Tensor) -> Tensor:
        row, keys = self._place(call)
        if site != self.head.site or not 0 <= row < call.q.shape[2] or not keys:
            return z
        z = z.clone()
        z[:, self.head.head, row] = _row_without(call, self.head.head, row, keys).to(z)
        return z

    def scores(self, site: str, call: Call) -> Scores:
        """The scores with these keys masked, so that patterns and statistics are those of the edited head."""
        if site != self.head.site:
            return call.scores
        hidden = Hidden(call.q.shape[1], self.head.head, *self._place(call))
        return replace(call.scores, mask=call.scores.mask & Mask((hidden,)))

    def refuse_beyond(self, reached: Mapping[str, tuple[int, int]]) -> None:
        """Refuse an arrow outside of a text, given the queries and keys of the sites that it reached."""
        n_query, n_key = reached.get(self.head.site, (self.query + 1, max(self.keys) + 1))
        if self.query >= n_query or max(self.keys) >= n_key:
            raise EditError(
                f"knock_out() at query {self.query}, key {max(self.keys)} of {self.head}: this text has the queries "
                f"0–{n_query - 1} and the keys 0–{n_key - 1} there"
            )

    def _place(self, call: Call) -> tuple[int, tuple[int, ...]]:
        """The row of the query and the columns of the keys in a call; the row may be outside of it."""
        columns = [key - call.first_key for key in self.keys]
        return self.query - call.first_query, tuple(each for each in columns if 0 <= each < call.k.shape[2])


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


def in_order(
    edits: Sequence[Callable[[str, Call, Tensor], Tensor]],
) -> tuple[Callable[[str, Call, Tensor], Tensor], ...]:
    """Edits in the order of the computation: arrows, those of one row together, then paths, then what replaces z.

    A row with hidden keys is computed from its scores; made one by one, each would undo what came before it. Paths are
    ablated together, and before others, for the same reason.
    """
    hidden: dict[tuple[Head, int], dict[int, None]] = {}
    others: list[Callable[[str, Call, Tensor], Tensor]] = []
    for edit in edits:
        if isinstance(edit, HiddenKeys):
            hidden.setdefault((edit.head, edit.query), {}).update(dict.fromkeys(edit.keys))
        else:
            others.append(edit)
    paths = [edit for edit in others if hasattr(edit, "joined")]
    others = [edit for edit in others if edit not in paths]
    together = [paths[0].joined(paths[1:])] if len(paths) > 1 else paths
    return (*(HiddenKeys(head, query, tuple(keys)) for (head, query), keys in hidden.items()), *together, *others)


def refuse_beyond(
    edits: Sequence[Callable[[str, Call, Tensor], Tensor]], reached: Mapping[str, tuple[int, int]]
) -> None:
    """Refuse edits at positions that a whole text does not have, given the queries and keys of the sites it reached.

    In generation a position may still come.
    """
    for edit in edits:
        check = getattr(edit, "refuse_beyond", None)
        if check is not None:
            check(reached)


def refuse_positions(positions: Sequence[int], lengths: Sequence[int]) -> None:
    """Refuse to patch positions that a text does not have everywhere, given its lengths at the places patched."""
    length = min(lengths, default=max(positions, default=0) + 1)
    beyond = [position for position in positions if position >= length]
    if beyond:
        raise EditError(f"patch() at positions {beyond}: this text has the positions 0–{length - 1} there")


def _row_without(call: Call, head: int, row: int, keys: Sequence[int]) -> Float[Tensor, "batch d_value"]:
    """z of one query when these keys are hidden from it."""
    scores = call.scores.bind(call.q, call.k)
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    rows = torch.tensor([row], device=call.q.device)
    columns = torch.arange(n_key, device=call.q.device)
    logits = scores.block(call.q[:, :, row : row + 1], call.k, rows, columns, n_key - n_query)[:, head, 0]
    logits = logits.index_fill(1, torch.tensor(keys, device=logits.device), float("-inf"))
    if scores.sinks is not None:
        logits = torch.cat((logits, scores.sinks[head].to(logits).expand(len(logits), 1)), dim=1)
    weights = torch.softmax(logits, dim=-1).nan_to_num(0.0)[:, :n_key]
    return torch.einsum("bk,bkd->bd", weights, call.v[:, head // (call.q.shape[1] // call.k.shape[1])].to(weights))
