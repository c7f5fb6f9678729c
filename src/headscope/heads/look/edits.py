"""Edits to heads: knock out arrows first, then ablate, scale, patch and force in the order given. Each changes z."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.attention.scores import Scores
from headscope.errors import EditError
from headscope.heads.look.knock_outs import HiddenKeys, KnockOut, in_order, refuse_positions
from headscope.models.protocol import OpenModel, SiteObserver
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

HOW = ("zero", "mean", "resample")
TOLERANCE = 1e-3  # of the sum of a forced row

EditFunction = Callable[[str, Call, Tensor], Tensor]
"""Given a site, its call and z so far, the changed z."""


@dataclass(frozen=True)
class Path:
    """A way from a writer into the q, k or v of a reader: one head, or the heads of a group."""

    writer: str
    readers: tuple[HeadName, ...]
    into: str
    query: int | None = None
    key: int | None = None
    norm: str = "recompute"

    def __post_init__(self) -> None:
        if self.into not in ("q", "k", "v"):
            raise EditError(f"into={self.into!r}: a path goes into 'q', 'k' or 'v' of a head")
        if self.norm not in ("recompute", "hold"):
            raise EditError(f"norm={self.norm!r}: the reader's norm is computed again ('recompute') or held ('hold')")
        for name in ("query", "key"):
            place = getattr(self, name)
            if place is not None and place < 0:
                raise EditError(f"path() at {name} {place}: positions count from 0")


@runtime_checkable
class Edit(Protocol):
    """An edit that looks up its heads in a model first; a plain ``EditFunction`` is an edit as well."""

    def bind(self, model: OpenModel) -> EditFunction: ...
    def key(self) -> str:
        """A string that is equal for equal edits."""
        ...


def edited(edits: Sequence[EditFunction]) -> SiteObserver:
    """Observe nothing; compute z and apply these edits to it in order."""
    ordered = in_order(edits)

    def attend(site: str, call: Call) -> Tensor:
        return apply_edits(ordered, site, call, plain(call))

    return under(edits, attend)


def apply_edits(ordered: Sequence[EditFunction], site: str, call: Call, z: Tensor) -> Tensor:
    """Change z by edits in the order of ``in_order``; what computes it from scores sees those with keys hidden."""
    for edit in ordered:
        z = _checked(edit, site, edit(site, call, z), z)
        if isinstance(edit, HiddenKeys) and edit.head.site == site:
            call = replace(call, scores=edit.scores(site, call))
    return z


def _checked(edit: EditFunction, site: str, made: Any, z: Tensor) -> Tensor:
    """What an edit returned, if it can stand for z."""
    if isinstance(made, Tensor) and (made.shape, made.dtype, made.device) == (z.shape, z.dtype, z.device):
        return made
    name = getattr(edit, "__name__", type(edit).__name__)
    got = f"{made.dtype} {tuple(made.shape)} on {made.device}" if isinstance(made, Tensor) else type(made).__name__
    raise EditError(
        f"the edit {name}() returned {got} at site {site}; it has to return z, {z.dtype} {tuple(z.shape)} on "
        f"{z.device}, changed or as it was given"
    )


def under(edits: Sequence[EditFunction], observer: SiteObserver) -> SiteObserver:
    """An observer whose passes run inside what these edits need: hooks, or a recorded residual stream."""
    needed = [needs for edit in edits if (needs := getattr(edit, "during", None)) is not None]
    if not needed:
        return observer

    @contextmanager
    def during() -> Iterator[None]:
        with ExitStack() as stack:
            for needs in needed:
                stack.enter_context(needs())
            yield

    def attend(site: str, call: Call) -> Tensor:
        return observer(site, call)

    attend.during = during  # type: ignore[attr-defined]
    return attend


def scores_under(edits: Sequence[EditFunction], site: str, call: Call) -> Scores:
    """The scores of a call under the edits that change scores and say so: knocked-out arrows, ablated paths."""
    scores = call.scores
    for edit in edits:
        cut = getattr(edit, "scores", None)
        if cut is not None:
            scores = cut(site, call if scores is call.scores else replace(call, scores=scores))
    return scores


@dataclass(frozen=True)
class Ablate:
    """Replace the z of heads by zeros (``zero``), by its mean (``mean``), or by z of other texts (``resample``)."""

    heads: tuple[HeadName, ...]
    how: str = "zero"
    texts: tuple[Any, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise EditError(f"how={self.how!r}: heads are ablated by 'zero', 'mean' or 'resample'")
        if not self.heads:
            raise EditError("ablate() names no head; write ablate('5.1', '5.5')")
        if self.how == "resample" and not self.texts:
            raise EditError("resample draws z from other texts; give them: ablate(…, texts=[…])")

    def bind(self, model: OpenModel) -> EditFunction:
        by_site = _by_site(model, self.heads)
        elsewhere = _z_in_texts(model, list(by_site), self.texts) if self.texts and self.how != "zero" else {}
        running = RunningMean()

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            heads = by_site.get(site)
            if heads is None:
                return z
            z = z.clone()
            if self.how == "zero":
                z[:, heads] = 0.0
            elif self.how == "resample":
                z[:, heads] = draw(elsewhere[site][heads], z.shape, call, self.seed).to(z)
            elif site in elsewhere:
                z[:, heads] = elsewhere[site][heads].mean(dim=1)[None, :, None].to(z)
            else:
                z[:, heads] = running.update(site, call, z[:, heads])[:, :, None]
            return z

        return change

    def key(self) -> str:
        return f"ablate({','.join(map(str, self.heads))};{self.how};{self.seed};{self.texts!r})"


@dataclass(frozen=True)
class Scale:
    """Multiply the z of heads by a factor."""

    heads: tuple[HeadName, ...]
    factor: float

    def bind(self, model: OpenModel) -> EditFunction:
        by_site = _by_site(model, self.heads)

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site in by_site:
                z = z.clone()
                z[:, by_site[site]] *= self.factor
            return z

        return change

    def key(self) -> str:
        return f"scale({','.join(map(str, self.heads))};{self.factor!r})"


@dataclass(frozen=True)
class Patch:
    """Activation patching: at these positions, replace the z of heads by their z in another look."""

    heads: tuple[HeadName, ...]
    positions: tuple[int, ...]
    source: Look

    def bind(self, model: OpenModel) -> EditFunction:
        by_site = _by_site(model, self.heads)
        if self.source.shape != model.shape:
            raise EditError("patch() takes z from a look at the same model; this look is at another one")
        length = min(self.source.z(site).shape[1] for site in by_site)
        beyond = [position for position in self.positions if not 0 <= position < length]
        if beyond:
            raise EditError(f"patch() at positions {beyond}: the look it takes from has positions 0–{length - 1}")
        cut_up = [site for site in by_site if site in self.source.n_windows]
        if cut_up:
            raise EditError(f"patch() at {', '.join(cut_up)}: a look holds only the first of their windows")
        taken = {site: self.source.z(site)[:, list(self.positions)] for site in by_site}

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site not in by_site:
                return z
            z, heads = z.clone(), by_site[site]
            for column, position in enumerate(self.positions):
                if 0 <= position - call.first_query < z.shape[2]:
                    z[:, heads, position - call.first_query] = taken[site][heads, column].to(z)
            return z

        def refuse_beyond(reached: Mapping[str, tuple[int, int]]) -> None:
            refuse_positions(self.positions, [reached[site][0] for site in by_site if site in reached])

        change.refuse_beyond = refuse_beyond  # type: ignore[attr-defined]
        return change

    def key(self) -> str:
        return f"patch({','.join(map(str, self.heads))};{self.positions};{self.source.key})"


@dataclass(frozen=True)
class Force:
    """Replace a head's attention pattern by rows of weights."""

    head: HeadName
    pattern: Float[Tensor, "query key"]

    def __post_init__(self) -> None:
        total = self.pattern.sum(-1)
        if bool((self.pattern < 0).any()) or not torch.allclose(total, torch.ones_like(total), atol=TOLERANCE):
            worst = int((total - 1).abs().argmax())
            raise EditError(
                f"a forced pattern has rows of weights that are at least 0 and add up to 1; row {worst} adds up to "
                f"{float(total[worst]):.3f}"
            )

    def bind(self, model: OpenModel) -> EditFunction:
        head = model.shape.find(self.head)
        group = model.shape.sites[head.site].group_size

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site != head.site:
                return z
            z = z.clone()
            z[:, head.head] = self._rows(call).to(call.v) @ call.v[:, head.head // group]
            return z

        return change

    def _rows(self, call: Call) -> Float[Tensor, "query key"]:
        """The rows and columns of the pattern that a call is about."""
        n_query, n_key = call.first_query + call.q.shape[2], call.first_key + call.k.shape[2]
        if n_key > self.pattern.shape[1] or n_query > self.pattern.shape[0]:
            raise EditError(
                f"the forced pattern is {tuple(self.pattern.shape)}; this text has {n_query} queries and {n_key} keys"
            )
        rows = self.pattern[call.first_query : n_query, call.first_key : n_key]
        lost = 1 - rows.sum(-1)
        if bool((lost > TOLERANCE).any()):
            row = int(lost.argmax())
            raise EditError(
                f"row {call.first_query + row} of the forced pattern has {float(lost[row]):.3f} of its weight on keys "
                f"that are not there: this call has the keys {call.first_key}–{n_key - 1}"
            )
        return rows

    def key(self) -> str:
        return f"force({self.head};{hash(self.pattern.numpy().tobytes())})"


def ablate(*what: HeadName | Path, how: str = "zero", texts: Sequence[Any] = (), seed: int = 0) -> Edit:
    """Ablate heads, or paths from a writer into a head: ``ablate(path("4.3", "5.6", into="k"))``.

    ``mean`` is over the ``texts`` given, else over this text's own positions.
    """
    paths = tuple(each for each in what if isinstance(each, Path))
    if not paths:
        return Ablate(cast(tuple[HeadName, ...], what), how, tuple(texts), seed)
    if len(paths) < len(what):
        raise EditError(
            "ablate() takes heads or paths; give two edits to do both: edit(ablate('5.1'), ablate(path(…)))"
        )
    from headscope.heads.look.path_edits import AblatePaths

    return AblatePaths(paths, how, tuple(texts), seed)


def path(
    writer: HeadName,
    reader: HeadName | Sequence[HeadName],
    into: str = "k",
    query: int | None = None,
    key: int | None = None,
    norm: str = "recompute",
) -> Path:
    """A path for ``ablate``: what ``writer`` wrote (a head, ``"mlp 3"``, ``"embedding"``), as one head reads it.

    With ``query`` and ``key``, only in the score (or value) of that row or column. With grouped heads only this query
    head, unless all heads of the group are given. ``norm="hold"`` keeps the scale of the reader's norm.
    """
    named = str(writer) if isinstance(writer, str) else str(Head.parse(writer))
    return Path(named, tuple(map(Head.parse, _names(reader))), into, query, key, norm)


def scale(heads: HeadName | Sequence[HeadName], factor: float) -> Scale:
    """Multiply the z of one head, or of several, by a factor."""
    return Scale(_names(heads), factor)


def patch(heads: HeadName | Sequence[HeadName], positions: int | Sequence[int], from_look: Look) -> Edit:
    """Patch the z of heads at these positions with their z in another look.

    ``"mlp 3"`` patches what the MLP of a layer writes, ``"stream 3"`` the residual stream before the layer.
    """
    places = (positions,) if isinstance(positions, int) else tuple(positions)
    names = (heads,) if isinstance(heads, str) else _names(heads)
    components = tuple(name for name in names if isinstance(name, str) and name.partition(" ")[0] in ("mlp", "stream"))
    if not components:
        return Patch(_names(heads), places, from_look)
    if len(components) < len(names):
        raise EditError("patch() takes heads or components; give two edits to do both")
    from headscope.heads.look.component_patches import PatchComponents

    return PatchComponents(components, places, from_look)


def knock_out(head: HeadName, query: int, key: int) -> KnockOut:
    """Hide one key from one query of a head."""
    if query < 0 or key < 0:
        raise EditError(f"knock_out() at query {query}, key {key}: positions count from 0")
    return KnockOut(head, query, key)


def force(head: HeadName, pattern: Float[Tensor, "query key"]) -> Force:
    """Replace a head's pattern. A look inside shows the pattern that its scores would give; z is the forced one."""
    return Force(head, pattern)


class RunningMean:
    """The mean of z over this text's positions; while generating, over the positions so far."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Tensor, int]] = {}

    def update(self, site: str, call: Call, z: Float[Tensor, "batch head query d"]) -> Float[Tensor, "batch head d"]:
        before = self._sums.get(site)
        total, count = z.sum(2), z.shape[2]
        if call.first_query and before is not None:
            total, count = total + before[0], count + before[1]
        self._sums[site] = (total, count)
        return total / count


def _names(heads: HeadName | Sequence[HeadName]) -> tuple[HeadName, ...]:
    if isinstance(heads, str | Head) or (isinstance(heads, tuple) and isinstance(heads[-1], int)):  # (5, 1): one head
        return (Head.parse(cast(HeadName, heads)),)
    return tuple(cast(Sequence[HeadName], heads))


def _by_site(model: OpenModel, heads: Sequence[HeadName]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in heads:
        head = model.shape.find(name)
        found.setdefault(head.site, []).append(head.head)
    return found


def _z_in_texts(model: OpenModel, sites: Sequence[str], texts: Sequence[Any]) -> dict[str, Tensor]:
    """z of every head of these sites at every position of these texts: ``[head, position, d_value]``."""
    seen: dict[str, list[Tensor]] = {site: [] for site in sites}

    def note(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site in seen:
            seen[site].append(z[0].detach())
        return z

    with torch.no_grad():
        for text in texts:
            model.run(model.prepare(text).inputs, note)
    return {site: torch.cat(parts, dim=1) for site, parts in seen.items()}


def draw(pool: Float[Tensor, "head position d"], shape: torch.Size, call: Call, seed: int) -> Tensor:
    """z at random positions of the pool, the same for the same seed and position in the text."""
    generator = torch.Generator().manual_seed(seed)
    length = call.first_query + call.q.shape[2]
    places = torch.randint(pool.shape[1], (length,), generator=generator)[call.first_query :]
    return pool[:, places].expand(shape[0], -1, -1, -1)
