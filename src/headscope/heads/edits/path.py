"""Ablate a path: take what one writer wrote out of the q, k or v of one head, and leave everything else clean.

The writer's carried part is subtracted from the input of the reader's norm, and that norm is computed again; what comes
before stays as it is, what comes after is computed again with the rest of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.attention.scores import Bias, BiasBlock, Scores
from headscope.checked import checked
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, Reached, names
from headscope.heads.edits.hidden_keys import softmax_with_sink
from headscope.heads.edits.replacements import How, RunningMean, draw, refuse_no_texts
from headscope.models.recording import OpenModel
from headscope.models.structure.projections import Which
from headscope.models.structure.readers import Norm, has_own_norm, probed, read_without, writer_names, written_to
from headscope.models.structure.recorder import RecordedStream, current_recorder, record_stream
from headscope.names import Head, HeadName

BLOCK = 512  # rows of scores that are computed at once


@checked
@dataclass(frozen=True)
class Path:
    """A way from a writer into the q, k or v of a reader: one head, or the heads of a group."""

    writer: str
    readers: tuple[HeadName, ...]
    into: Which
    query: int | None = None
    key: int | None = None
    norm: Norm = "recompute"

    def __post_init__(self) -> None:
        for name, place in {"query": self.query, "key": self.key}.items():
            if place is not None and place < 0:
                raise EditError(f"path() at {name} {place}: positions count from 0")


@checked
def path(
    writer: HeadName,
    reader: HeadName | Sequence[HeadName],
    into: Which = "k",
    query: int | None = None,
    key: int | None = None,
    norm: Norm = "recompute",
) -> Path:
    """A path for ``ablate``: what ``writer`` wrote (a head, ``"mlp 3"``, ``"embedding"``), as one head reads it.

    With ``query`` and ``key``, only in the score (or value) of that row or column. With grouped heads only this query
    head, unless all heads of the group are given. ``norm="hold"`` keeps the scale of the reader's norm.
    """
    named = str(writer) if isinstance(writer, str) else str(Head.parse(writer))
    return Path(named, tuple(map(Head.parse, names(reader))), into, query, key, norm)


def ablate_paths(paths: tuple[Path, ...], how: How, texts: tuple[Any, ...], seed: int) -> Edit:
    """Replace what writers give to readers by zeros, by its mean, or by its value elsewhere (``resample``)."""
    refuse_no_texts(how, texts, "ablate(path(…), how='resample', texts=[…])")

    def bind(model: OpenModel) -> BoundEdit:
        cut = ReaderInputs(model, paths, _Replacement(how, texts, seed))
        return BoundEdit(inputs=cut, refuse_beyond=cut.refuse_beyond)

    return Edit(f"ablate({','.join(map(repr, paths))};{how};{seed};{texts!r})", bind)


@dataclass(frozen=True)
class _Replacement:
    """How paths are ablated."""

    how: str
    texts: tuple[Any, ...]
    seed: int


class ReaderInputs:
    """What heads read without some paths; refused where a writer does not write into the reader."""

    def __init__(self, model: OpenModel, paths: Sequence[Path], replacement: _Replacement) -> None:
        self.model, self.paths, self.replacement = model, tuple(paths), replacement
        grouped: dict[tuple[Head, Path], list[str]] = {}
        for each in paths:
            for reader in each.readers:
                where = replace(each, writer="", readers=())
                grouped.setdefault((model.shape.find(reader), where), []).append(each.writer)
        _refuse_overlaps(list(grouped))
        self._by_site: dict[str, list[_Bound]] = {}
        for (head, where), writers in grouped.items():
            self._by_site.setdefault(head.site, []).append(_Bound(model, (head, where), writers, replacement))

    def z(self, site: str, call: Call, z: Tensor) -> Tensor:
        """z of the readers, computed again from the changed q, k and v of all paths into each."""
        if site not in self._by_site:
            return z
        z = z.clone()
        for head, cut in _cuts(call, self._by_site[site]).items():
            for rows in torch.split(cut.changed_rows(), BLOCK):
                if len(rows):
                    z[:, head, rows] = cut.z(rows, call.v).to(z)
        return z

    def scores(self, site: str, call: Call) -> Scores:
        """The scores without the paths, so that patterns and statistics are those of the edited head."""
        bound = self._by_site.get(site, [])
        if all(each.path.into == "v" for each in bound):
            return call.scores
        assert not isinstance(call.scores.bias, Tensor), "tensors are wrapped when Scores is made"
        return replace(call.scores, bias=_CutBias(call.q.shape[1], _cuts(call, bound), call.scores.bias))

    def refuse_beyond(self, reached: Reached) -> None:
        """Refuse a path at a query or key that a text does not have, given what it has at the sites it reached."""
        for site, bound in self._by_site.items():
            for each in bound if site in reached else ():
                where, (n_query, n_key) = each.path, reached[site]
                if (where.query or 0) >= n_query or (where.key or 0) >= n_key:
                    places = {"query": where.query, "key": where.key}
                    place = ", ".join(f"{name} {given}" for name, given in places.items() if given is not None)
                    raise EditError(
                        f"a path at {place} of {each.head}: this text has the queries 0–{n_query - 1} and the keys "
                        f"0–{n_key - 1} there"
                    )

    def joined(self, others: Sequence[ReaderInputs]) -> ReaderInputs:
        """Join the paths of all these edits, to cut them together: one by one, each would undo the one before."""
        for other in others:
            if other.replacement != self.replacement:
                raise EditError(
                    f"paths are ablated by how={self.replacement.how!r} and how={other.replacement.how!r} at once; "
                    "ablate all of them the same way, with the same texts and seed"
                )
        paths = [path for each in (self, *others) for path in each.paths]
        return ReaderInputs(self.model, paths, self.replacement) if others else self


def _refuse_overlaps(places: Sequence[tuple[Head, Path]]) -> None:
    """Refuse paths that meet in some scores of a head and not in others: which of them counts there is not said."""
    for number, (head, one) in enumerate(places):
        for other_head, other in places[:number]:
            meet = all(
                here is None or there is None or here == there
                for here, there in ((one.query, other.query), (one.key, other.key))
            )
            if head == other_head and one.into == other.into and meet:
                raise EditError(
                    f"two paths into the {one.into} of {head} meet and have different places or norms (query "
                    f"{other.query}, key {other.key}; query {one.query}, key {one.key}); give both the same"
                )


class _Bound:
    """Paths of some writers into the same place of one head, and what is remembered of a text that is generated."""

    def __init__(self, model: OpenModel, place: tuple[Head, Path], writers: list[str], edit: _Replacement) -> None:
        (self.head, self.path), self.writers, self.edit = place, writers, edit
        path, head = self.path, self.head
        self.own_norm = has_own_norm(model, head.site, path.into)
        self._is_cross = model.shape.sites[head.site].kind == "cross"
        self._check(model)
        elsewhere = edit.texts if edit.how != "zero" else ()
        self.pool = torch.cat([self._in_text(model, text) for text in elsewhere]) if elsewhere else None
        self._running = RunningMean()
        self._seen: Tensor | None = None
        self._latest: tuple[ref[Call], Tensor] | None = None

    def read(self, call: Call) -> Tensor:
        """q, k or v of the reader without the writer, ``[batch, kv or head, position, d]``; cached keys included."""
        if self._latest is None or self._latest[0]() is not call:  # a call is read once, for its scores and for z
            self._latest = (ref(call), self._read(call))
        return self._latest[1]

    def _read(self, call: Call) -> Tensor:
        recorder = current_recorder.get()
        if recorder is None:
            raise EditError("a path can only be ablated in a pass that is recorded; use `with scope.edit(…)`")
        own = {"q": call.q, "k": call.k, "v": call.v}[self.path.into]
        made = self._changed(recorder.stream, call).to(own)
        if self.path.into == "q" or self._is_cross:
            return made
        n_cached = made.shape[2] - call.q.shape[2]
        if call.first_query and self._seen is not None and n_cached:  # earlier positions, from earlier steps
            made = torch.cat((self._seen[:, :, -n_cached:], made[:, :, n_cached:]), dim=2)
        self._seen = made
        return made

    def _changed(self, stream: RecordedStream, call: Call) -> Tensor:
        node = stream.node(self.head.site, self.path.into)
        parts = written_to(stream, node, self.own_norm, self.writers)
        return read_without(node, {read: self._replaced(part, call) for read, part in parts.items()}, self.path.norm)

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
        node = stream.node(self.head.site, self.path.into)
        return torch.cat([part[0] for part in written_to(stream, node, self.own_norm, self.writers).values()])

    def _check(self, model: Any) -> None:
        names = writer_names(probed(model), self.head.site, self.path.into)
        for writer in self.writers:
            if writer not in names:
                raise EditError(
                    f"{writer} does not write into the {self.path.into} of {self.head}; {', '.join(names)} do"
                )


def _cuts(call: Call, bound: Sequence[_Bound]) -> dict[int, HeadCut]:
    """The cut scores of every reader of one call."""
    by_head: dict[int, list[_Bound]] = {}
    for each in bound:
        by_head.setdefault(each.head.head, []).append(each)
    return {
        head: HeadCut(call, head, [(each.path, each.read(call)) for each in some]) for head, some in by_head.items()
    }


class HeadCut:
    """One head with paths into it cut. A change counts only in its row and column, if it has them."""

    def __init__(self, call: Call, head: int, changes: Sequence[tuple[Path, Tensor]]) -> None:
        """``changes``: q, k or v of the whole site without a path."""
        self.kv = head // (call.q.shape[1] // call.k.shape[1])
        self.q, self.k = call.q[:, head : head + 1], call.k[:, self.kv : self.kv + 1]
        self.scores = call.scores.bind(call.q, call.k).only(head)
        self.offset = call.k.shape[2] - call.q.shape[2]
        self.first_query, self.first_key = call.first_query, call.first_key
        self.changes = {side: [(path, new) for path, new in changes if path.into == side] for side in ("q", "k", "v")}
        own = {"q": head, "k": self.kv, "v": self.kv}
        for side, some in self.changes.items():
            self.changes[side] = [(path, new[:, own[side] : own[side] + 1]) for path, new in some]

    def changed_rows(self) -> Tensor:
        """The rows of this call in which some path counts."""
        rows = torch.arange(self.q.shape[2], device=self.q.device)
        places = [path.query for some in self.changes.values() for path, _ in some]
        if None in places:
            return rows
        return rows[torch.isin(rows + self.first_query, torch.tensor(places, device=rows.device))]

    def logits(self, rows: Tensor, columns: Tensor) -> Float[Tensor, "batch query key"]:
        """Scores before the mask, without the paths."""
        q, k = self.q[:, :, rows], self.k[:, :, columns]
        made = self.scores.before_mask(q, k, rows, columns, self.offset)[:, 0]
        everywhere = torch.ones(len(rows), len(columns), dtype=torch.bool, device=rows.device)
        queries: list[tuple[Tensor, Tensor | None]] = [(everywhere, None)]
        queries += [(self._inside(path, rows, columns), new) for path, new in self.changes["q"]]
        keys: list[tuple[Tensor, Tensor | None]] = [(everywhere, None)]
        keys += [(self._inside(path, rows, columns), new) for path, new in self.changes["k"]]
        for q_here, new_q in queries:
            for k_here, new_k in keys:
                here = q_here & k_here
                if (new_q is None and new_k is None) or not bool(here.any()):
                    continue
                q_now, k_now = q if new_q is None else new_q[:, :, rows], k if new_k is None else new_k[:, :, columns]
                again = self.scores.before_mask(q_now, k_now, rows, columns, self.offset)[:, 0]
                made = torch.where(here, again, made)
        return made

    def weights(self, rows: Tensor, columns: Tensor) -> Float[Tensor, "batch query key"]:
        """The pattern in these rows, over all keys."""
        logits = self.logits(rows, columns)
        if not self.scores.mask.is_full:
            logits = logits.masked_fill(~self.scores.mask.block(rows, columns, self.offset)[:, 0], float("-inf"))
        return softmax_with_sink(logits, self.scores.sinks)

    def z(self, rows: Tensor, v: Tensor) -> Float[Tensor, "batch query d_value"]:
        """z in these rows."""
        columns = torch.arange(self.k.shape[2], device=rows.device)
        weights = self.weights(rows, columns)
        own = v[:, self.kv]
        total = weights @ own.to(weights)
        for path, changed in self.changes["v"]:
            here = self._inside(path, rows, columns)
            total = total + torch.where(here, weights, torch.zeros_like(weights)) @ (changed[:, 0] - own).to(weights)
        return total

    def _inside(self, path: Path, rows: Tensor, columns: Tensor) -> Tensor:
        """Where a path counts: its row and column, or all of them."""
        here = torch.ones(len(rows), len(columns), dtype=torch.bool, device=rows.device)
        if path.query is not None:
            here &= (rows + self.first_query == path.query)[:, None]
        if path.key is not None:
            here &= (columns + self.first_key == path.key)[None]
        return here


@dataclass(frozen=True)
class _CutBias:
    """A bias that moves the scores of some heads to what they are without the paths into them, block by block."""

    n_heads: int
    cuts: Mapping[int, HeadCut]
    before: Bias | None

    def block(self, rows: Tensor, columns: Tensor, offset: int) -> BiasBlock:
        q = [cut.q for cut in self.cuts.values()]
        batch, dtype = (len(q[0]), torch.promote_types(q[0].dtype, torch.float32)) if q else (1, torch.float32)
        made = torch.zeros(batch, self.n_heads, len(rows), len(columns), dtype=dtype, device=rows.device)
        if self.before is not None:
            made = made + self.before.block(rows, columns, offset)
        for head, cut in self.cuts.items():
            scores = cut.scores.before_mask(cut.q[:, :, rows], cut.k[:, :, columns], rows, columns, offset)[:, 0]
            made[:, head] += cut.logits(rows, columns) - scores
        return made

    def only(self, head: int) -> _CutBias:
        before = None if self.before is None else self.before.only(head)
        return _CutBias(1, {0: self.cuts[head]} if head in self.cuts else {}, before)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.before is not None:
            self.before.check(batch, n_heads, n_query, n_key)
