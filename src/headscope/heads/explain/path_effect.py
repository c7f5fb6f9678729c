"""What cutting one path does to a prediction: as the split predicts it, and in truth.

The weight is predicted by the split: the writer's pairs leave the scores of one row, the reader's norm at its scale. In
truth that norm is computed again. The logit is predicted from the row as it truly is, so that it errs only in what it
holds: what the head writes then reaches the logit directly, through the final norm at its scale. The truth is another
pass in which everything after the reader is computed again. They differ by what later parts make of the change;
``answers`` says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.errors import InputError, ModelError
from headscope.heads.edits.ablate import ablate
from headscope.heads.edits.edit import Edits
from headscope.heads.edits.path import HeadCut, Path
from headscope.heads.explain.why import Explained, explained
from headscope.models.structure.carry import Route, source_device
from headscope.models.structure.readers import (
    find_writer,
    has_own_norm,
    read_without,
    value_of,
    writer_names,
    written_to,
)
from headscope.models.structure.recorded_pass import RecordedPass
from headscope.models.structure.unembedding import frozen_norm
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


@dataclass(frozen=True)
class Moved:
    """A number of the unchanged model, its prediction without the path, and its true value without it."""

    as_is: float
    predicted: float
    true: float

    @property
    def predicted_change(self) -> float:
        return self.predicted - self.as_is

    @property
    def true_change(self) -> float:
        return self.true - self.as_is


@dataclass(frozen=True)
class PathEffect:
    """One cut path: the weight of its arrow, the logit and the probability of one token, and what else changed."""

    path: Path
    token: int
    minus: int | None
    position: int
    weight: Moved | None
    """Predicted by the split, its norm held. None where the path goes into v, or is not of one key."""
    logit: Moved
    """Predicted with the reader's norm computed again and all later parts held. With ``minus``, the difference."""
    probability: Moved
    answers: Mapping[str, float]
    """How the share of every part of the logit changes when the path is cut, the largest change first."""


def path_effect(
    look: Look, path: Path, token: int | str | None = None, position: int | str = -1, minus: int | str | None = None
) -> PathEffect:
    """Cut a path of one head and compare the prediction with the truth; the likeliest next token unless one is given.

    A prediction is of the row of ``path.query``, so it is given, and ``position`` is where the token is predicted. Of
    several readers (``path(writer, why.group)``), all of one site, the weight is that of the first.
    """
    place = look.position(position)
    heads, row = _checked(look, path)
    chosen = look.predictions(place, 1)[0].token.id if token is None else look.token_id(token)
    ids = (chosen, None if minus is None else look.token_id(minus))
    found = explained(look)
    if found.stream.final is not None and look.model.unembedding().caps:
        raise ModelError(
            f"{look.shape.name} caps its logits, and what a path does is not predicted through a cap; cut it with "
            "scope.edit(ablate(path(…))) to see the true effect"
        )
    own = look.cache.logits_at(place).double()
    with torch.no_grad():
        readers = [cut_reader(look, replace(path, readers=(head,))) for head in heads]
        direct = own
        for head, reader in zip(heads, readers, strict=True) if row == place else ():
            direct = direct + _direct(look, found, head, place, reader.change).double()
        clean = found.recorded.attribution(*ids, place)
        true, cut = _true(look, path, place, ids)
    weights = None if path.key is None or path.into == "v" else readers[0].weights
    answers = {name: cut.get(name, 0.0) - share for name, share in clean.items()}
    return PathEffect(
        path, *ids, place,
        None if weights is None else Moved(*(float(each[path.key]) for each in weights)),
        Moved(*(float(each[ids[0]] - (0.0 if ids[1] is None else each[ids[1]])) for each in (own, direct, true))),
        Moved(*(float(each.softmax(-1)[chosen]) for each in (own, direct, true))),
        dict(sorted(answers.items(), key=lambda item: -abs(item[1]))),
    )  # fmt: skip


def _checked(look: Look, path: Path) -> tuple[list[Head], int]:
    heads = [look.shape.find(reader) for reader in path.readers]
    if len({head.site for head in heads}) != 1:
        raise InputError(
            f"{len(heads)} readers of different sites: an effect is predicted for a path into heads of one site; give "
            "those, such as why.group"
        )
    if path.query is None:
        raise InputError("this path has no query: an effect is predicted for one row; give path(…, query=…)")
    head = heads[0]
    rows, columns = len(look.query_tokens(head.site)), len(look.key_tokens(head.site))
    if not 0 <= path.query < rows or not (path.key is None or 0 <= path.key < columns):
        raise InputError(
            f"the path into {head} is of query {path.query} and key {path.key}; this text has queries 0–{rows - 1} and "
            f"keys 0–{columns - 1}"
        )
    return heads, path.query


class CutReader(NamedTuple):
    """One row of a head without a path: ``weights`` unchanged, predicted with the norm frozen, and true."""

    weights: tuple[Float[Tensor, " key"], Float[Tensor, " key"], Float[Tensor, " key"]]
    change: Float[Tensor, " d_head"]
    """How z of the row truly changes."""


@torch.no_grad()
def cut_reader(look: Look, path: Path) -> CutReader:
    """The reader's row without the path. Nothing before it changes, so its true row needs no further pass."""
    ((head, *_), place), stream = _checked(look, path), explained(look).stream
    node, kv = stream.node(head.site, path.into), head.head // look.shape.sites[head.site].group_size
    parts = written_to(stream, node, has_own_norm(look.model, head.site, path.into), [path.writer])
    if not parts:
        names = ", ".join(writer_names(stream, head.site, path.into))
        raise ModelError(f"{path.writer} does not write into the {path.into} of {head}; {names} do")
    source, values = look.source(head), value_of(stream.node(head.site, "v"))[:1, [kv]]
    row = torch.tensor([place], device=source.q.device)
    columns = torch.arange(source.k.shape[2], device=source.q.device)
    call = Call(look.model.site_modules()[head.site], source.q, source.k, values.to(source.q), source.scores)

    def cut(*changed: tuple[Path, Tensor]) -> HeadCut:
        own = head.head if path.into == "q" else kv
        return HeadCut(call, 0, [(each, made[:, [own]].to(source.q)) for each, made in changed])

    cuts = [cut(), *(cut((path, read_without(node, parts, norm))) for norm in ("hold", path.norm))]
    before, held, again = (each.weights(row, columns)[0, 0].double() for each in cuts)
    plain, *_, changed = (each.z(row, call.v)[0, 0] for each in cuts)
    return CutReader((before, held, again), (changed - plain).double())


def _direct(look: Look, found: Explained, head: Head, place: int, change: Tensor) -> Float[Tensor, " vocabulary"]:
    """What a change of z at one position does to the logits on the direct way, all else held."""
    end = found.stream.final
    writer = None if end is None else find_writer(found.stream, end, str(head))
    if end is None or writer is None or look.model.output_weight(head.site).kind != "exact":
        raise ModelError(
            f"{head}: its z does not reach the logits by itself, so the effect of its paths is not predicted; cut them "
            "with scope.edit(ablate(path(…))) to see the true one"
        )
    source, part = writer.sources[0]
    assert source.heads is not None
    assert part is not None
    written = torch.zeros(source.shape, device=source_device(source))
    written.view(-1, source.shape[-1])[place] = change.float() @ source.heads.weight[part].float()
    carried = Route(end).carry_all(source, written[None])
    assert carried is not None
    unembedding = look.model.unembedding()
    gain, centred = frozen_norm(unembedding.norm, value_of(end)[0, place])
    moved = carried[0, 0, place].float()
    return ((moved - moved.mean() if centred else moved) * gain).to(unembedding.weight) @ unembedding.weight.detach().T


def _true(look: Look, path: Path, place: int, ids: tuple[int, int | None]) -> tuple[Tensor, dict[str, float]]:
    """The logits at a position without the path, and the shares of every part in them."""
    edits = Edits(look.model, [ablate(path).bind(look.model)])
    cut = RecordedPass(look.model, look.prepared.inputs, edits.attend, within=edits.during)
    assert cut.stream.logits is not None, "the whole pass was run"
    return cut.stream.logits[0, place].double(), cut.attribution(*ids, place)
