"""Ablate a path: take what one writer wrote out of the q, k or v of one head, and leave everything else clean.

The writer's carried part is subtracted from the input of the reader's norm, and that norm is computed again; what comes
before stays as it is, what comes after is computed again with the rest of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headscope.attention.observer import Call
from headscope.errors import EditError
from headscope.heads.look.edits import HOW, EditFunction, Path, RunningMean, draw
from headscope.models.protocol import OpenModel
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import (
    carried_part,
    find_writer,
    has_own_norm,
    probed,
    read_again,
    reader_inputs,
    value_of,
    writer_names,
)
from headscope.models.structure.tape import Node
from headscope.models.structure.writers import RecordedStream, current_recorder, record_stream, recording_stream
from headscope.names import Head

BLOCK = 512  # rows of scores that are computed at once


@dataclass(frozen=True)
class AblatePaths:
    """Replace what writers give to readers by nothing (``zero``), its mean, or its value elsewhere (``resample``)."""

    paths: tuple[Path, ...]
    how: str = "zero"
    texts: tuple[Any, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise EditError(f"how={self.how!r}: paths are ablated by 'zero', 'mean' or 'resample'")
        if self.how == "resample" and not self.texts:
            raise EditError("resample draws from other texts; give them: ablate(path(…), how='resample', texts=[…])")

    def bind(self, model: OpenModel) -> EditFunction:
        """Find readers and writers in the model; refused where a writer does not write into the reader."""
        grouped: dict[tuple[Head, Path], list[str]] = {}
        for path in self.paths:
            for reader in path.readers:
                where = replace(path, writer="", readers=())
                grouped.setdefault((model.shape.find(reader), where), []).append(path.writer)
        by_site: dict[str, list[_Bound]] = {}
        for (head, where), writers in grouped.items():
            by_site.setdefault(head.site, []).append(_Bound(model, (head, where), writers, self))

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            bound = by_site.get(site)
            return z if bound is None else _without(call, z, bound)

        def during() -> AbstractContextManager[Any]:
            return recording_stream(model)

        change.during = during  # type: ignore[attr-defined]
        return change

    def key(self) -> str:
        return f"ablate({','.join(map(repr, self.paths))};{self.how};{self.seed};{self.texts!r})"


class _Bound:
    """Paths of some writers into the same place of one head, and what is remembered of a text that is generated."""

    def __init__(self, model: OpenModel, place: tuple[Head, Path], writers: list[str], edit: AblatePaths) -> None:
        (self.head, self.path), self.writers, self.edit = place, writers, edit
        path, head = self.path, self.head
        self.own_norm = has_own_norm(model, head.site, path.into)
        self._check(model)
        elsewhere = edit.texts if edit.how != "zero" else ()
        self.pool = torch.cat([self._in_text(model, text) for text in elsewhere]) if elsewhere else None
        self._running = RunningMean()
        self._seen: Tensor | None = None

    def read(self, call: Call) -> Tensor:
        """q, k or v of the reader without the writer, ``[batch, kv or head, position, d]``; cached keys included."""
        recorder = current_recorder.get()
        if recorder is None:
            raise EditError("a path can only be ablated in a pass that is recorded; use `with scope.edit(…)`")
        own = {"q": call.q, "k": call.k, "v": call.v}[self.path.into]
        made = self._changed(recorder.stream, call).to(own)
        if self.path.into == "q" or call.q.shape[2] == call.k.shape[2]:
            self._seen = made
            return made
        if self._seen is not None and self._seen.shape[2] < made.shape[2]:  # earlier positions, from earlier steps
            made = torch.cat((self._seen, made[:, :, self._seen.shape[2] :]), dim=2)
        self._seen = made
        return made

    def _changed(self, stream: RecordedStream, call: Call) -> Tensor:
        node = stream.node(self.head.site, self.path.into)
        changed: dict[Node, Tensor] = {}
        for stream_node in reader_inputs(node, self.own_norm):
            part = self._written(stream, stream_node)
            if part is not None:
                changed[stream_node] = self._replaced(part, call)
        if self.path.norm == "hold":
            return _held(node, changed)
        values = {each: value_of(each) for each in changed}
        return read_again(node, {each: values[each] - part.to(values[each]) for each, part in changed.items()})

    def _written(self, stream: RecordedStream, node: Node) -> Tensor | None:
        """What the writers have put into a node, together."""
        found = [writer for name in self.writers if (writer := find_writer(stream, node, name)) is not None]
        parts = [carried_part(writer, node) for writer in found]
        return torch.stack(parts).sum(0) if parts else None

    def _replaced(self, part: Tensor, call: Call) -> Tensor:
        """What is subtracted: the part, less what takes its place."""
        if self.edit.how == "zero":
            return part
        if part.ndim != 3:
            raise EditError(f"{self.head.site}: its stream is not [batch, position, d_model]; ablate the path by zero")
        if self.edit.how == "resample":
            assert self.pool is not None
            return part - draw(self.pool[None], part.shape, call, self.edit.seed)[:, 0].to(part)
        mean = self._running.update("", call, part[:, None])[:, 0] if self.pool is None else self.pool.mean(0)
        return part - mean.to(part).unsqueeze(-2)

    def _in_text(self, model: OpenModel, text: Any) -> Tensor:
        """The writer's carried part at every position of another text: ``[position, d_model]``."""
        stream = record_stream(model, model.prepare(text).inputs)
        nodes = reader_inputs(stream.node(self.head.site, self.path.into), self.own_norm)
        return torch.cat([part[0] for node in nodes if (part := self._written(stream, node)) is not None])

    def _check(self, model: Any) -> None:
        names = writer_names(probed(model), self.head.site, self.path.into)
        for writer in self.writers:
            if writer not in names:
                raise EditError(
                    f"{writer} does not write into the {self.path.into} of {self.head}; {', '.join(names)} do"
                )


def _held(node: Node, changed: Mapping[Node, Tensor]) -> Tensor:
    """q, k or v less these parts of the stream, carried on with the norm held."""
    total = value_of(node)
    route = Route(node)
    for stream_node, part in changed.items():
        made = route.carry(stream_node, part)
        assert made is not None
        total = total - made.to(total)
    return total


def _without(call: Call, z: Tensor, bound: list[_Bound]) -> Tensor:
    """z of the readers, computed again from the changed q, k and v of all paths into each."""
    z = z.clone()
    by_head: dict[int, list[_Bound]] = {}
    for each in bound:
        by_head.setdefault(each.head.head, []).append(each)
    for head, paths in by_head.items():
        changes = [(each.path, each.read(call)) for each in paths]
        for rows in torch.split(_changed_rows(call, [path for path, _ in changes]), BLOCK):
            if len(rows):
                z[:, head, rows] = _rows(call, head, rows, changes).to(z)
    return z


def _changed_rows(call: Call, paths: list[Path]) -> Tensor:
    """The rows of this call in which some path counts."""
    n_query, offset = call.q.shape[2], call.k.shape[2] - call.q.shape[2]
    rows = torch.arange(n_query, device=call.q.device)
    if any(path.query is None for path in paths):
        return rows
    wanted = torch.tensor([path.query for path in paths], device=rows.device)
    return rows[torch.isin(rows + offset, wanted)]


def _rows(call: Call, head: int, rows: Tensor, changes: list[tuple[Path, Tensor]]) -> Tensor:
    """z of one head in these rows. A change counts in its row and column alone, where it has one."""
    scores = call.scores.bind(call.q, call.k).only(head)
    kv, offset = head // (call.q.shape[1] // call.k.shape[1]), call.k.shape[2] - call.q.shape[2]
    columns = torch.arange(call.k.shape[2], device=rows.device)
    q, k, v = call.q[:, head : head + 1, rows], call.k[:, kv : kv + 1], call.v[:, kv]
    logits = scores.block(q, k, rows, columns, offset)[:, 0]
    hidden = logits.isneginf()
    versions = {
        side: [(_inside(path, rows + offset, columns), changed) for path, changed in changes if path.into == side]
        for side in ("q", "k")
    }
    everywhere = torch.ones_like(hidden[0])
    for q_here, new_q in [(everywhere, None), *versions["q"]]:
        for k_here, new_k in [(everywhere, None), *versions["k"]]:
            if new_q is None and new_k is None:
                continue
            q_now = q if new_q is None else new_q[:, head : head + 1, rows]
            k_now = k if new_k is None else new_k[:, kv : kv + 1]
            again = scores.block(q_now, k_now, rows, columns, offset)[:, 0]
            logits = torch.where(q_here & k_here & ~hidden, again, logits)
    if scores.sinks is not None:
        logits = torch.cat((logits, scores.sinks.to(logits).expand(*logits.shape[:-1], 1)), dim=-1)
    weights = torch.softmax(logits, dim=-1).nan_to_num(0.0)[..., : len(columns)]
    total = weights @ v.to(weights)
    for path, changed in changes:
        if path.into == "v":
            here = _inside(path, rows + offset, columns)
            total = total + torch.where(here, weights, torch.zeros_like(weights)) @ (changed[:, kv] - v).to(weights)
    return total


def _inside(path: Path, rows: Tensor, columns: Tensor) -> Tensor:
    """Where a path counts: its row and column, or all of them."""
    here = torch.ones(len(rows), len(columns), dtype=torch.bool, device=rows.device)
    if path.query is not None:
        here &= (rows == path.query)[:, None]
    if path.key is not None:
        here &= (columns == path.key)[None]
    return here
