"""Where a site reads the residual stream: the input of its norm, and its q, k or v when that input changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headscope.errors import ModelError
from headscope.models.structure.carry import Route, part_of, recompute
from headscope.models.structure.recorder import RecordedStream, Side, Writer, record_stream
from headscope.models.structure.tape import NORM, Node, Op, carried_into, mark_of, walk

Norm = Literal["recompute", "hold"]
_probed: WeakKeyDictionary[Any, RecordedStream] = WeakKeyDictionary()


def probed(model: Any) -> RecordedStream:
    """The stream of the inputs that the model was opened with, recorded once: how its parts are connected and named."""
    if model not in _probed:
        _probed[model] = record_stream(model, model.probe)
    return _probed[model]


def has_own_norm(model: Any, site: str, side: Side) -> bool:
    """Whether the norm before q, k or v is the reader's own, or is part of the stream (BERT), seen in a whole pass."""
    stream = probed(model)
    if site not in stream.sites:
        raise ModelError(f"{site} is not reached by the inputs that the model was opened with, so its norm is unknown")
    node, shared = stream.node(site, side), stream.on_stream(site)
    return not any(entry in shared for entry in entries(node))


def entries(node: Node) -> list[Node]:
    """What enters the reader: the nodes outside the attention module from which its q, k or v is computed."""
    nodes = walk([node], lambda each: carried_into(each) if each.in_site else ())
    return [each for each in nodes if each.dynamic and not each.in_site]


def reader_inputs(node: Node, own_norm: bool) -> list[Node]:
    """The stream that a reader reads: before its own norm, where it has one."""
    return [before_norm(entry) if own_norm else entry for entry in entries(node)]


def before_norm(entry: Node) -> Node:
    """The one node outside the module of the norm that the norm's output is computed from."""
    if not isinstance(entry, Op):
        return entry
    if entry.name in NORM:
        return next(entry.parents)

    def inside(each: Node) -> bool:
        return isinstance(each, Op) and each.path == entry.path

    nodes = walk([entry], lambda each: carried_into(each) if inside(each) else ())
    outside = [each for each in nodes if each.dynamic and not inside(each)]
    return outside[0] if len(outside) == 1 else entry


def value_of(node: Node) -> Tensor:
    """The value of a node: the model's own tensor while it holds it, else computed again."""
    made = node.made() if isinstance(node, Op) and node.made is not None else None
    mark = None if made is None else mark_of(made)
    changed = mark is None or mark.node is not node  # in place, since
    return recompute(node, {}) if made is None or changed else made


def find_writer(stream: RecordedStream, node: Node, name: str) -> Writer | None:
    """The writer of this name in a node, if it wrote into it."""
    return next((writer for writer in stream.writers(Route(node)) if writer.name == name), None)


def writer_names(stream: RecordedStream, site: str, side: Side) -> list[str]:
    return [writer.name for writer in stream.writers(Route(stream.node(site, side)), site)]


def carried_part(writer: Writer, target: Node) -> Tensor:
    """Return what a writer's part has become at a node, with norms frozen."""
    route, total = Route(target), None
    for source, part in writer.sources:
        made = route.carry_all(source, part_of(source, part))
        if made is not None:
            total = made[0] if total is None else total + made[0]
    if total is None:
        raise ModelError(f"{writer.name} does not reach this reader")
    return total


def written_to(stream: RecordedStream, node: Node, own_norm: bool, names: Sequence[str]) -> dict[Node, Tensor]:
    """Sum what these writers added to each stream that a reader reads."""
    found: dict[Node, Tensor] = {}
    for read in reader_inputs(node, own_norm):
        writers = [writer for name in names if (writer := find_writer(stream, read, name)) is not None]
        if writers:
            found[read] = torch.stack([carried_part(writer, read) for writer in writers]).sum(0)
    return found


@torch.no_grad()
def read_without(node: Node, parts: Mapping[Node, Tensor], norm: Norm) -> Tensor:
    """q, k or v less these parts of the stream that is read: its norm recomputed, or frozen."""
    if norm == "recompute":
        return recompute(node, {read: value_of(read) - part.to(value_of(read)) for read, part in parts.items()})
    total, route = value_of(node), Route(node)
    for read, part in parts.items():
        made = route.carry(read, part)
        assert made is not None
        total = total - made.to(total)
    return total
