"""Writers: what was written into the residual stream before each site, by name.

A writer is a source of the recorded stream with a name: a head through W_O, the MLP of a layer (each expert of it), an
embedding, a bias. The stream before a site is the sum of its writers, carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.structure.carry import Route
from headscope.models.structure.tape import Node, Op, SourceNode, Tape, carried_into, walk

Side = str
SIDES: tuple[Side, ...] = ("q", "k", "v")
Kind = Literal["embedding", "position", "head", "attention", "mlp", "bias", "reader"]
READER_BIAS = "bias"


@dataclass(frozen=True, eq=False)
class Writer:
    """A named part of the stream: a whole source, or one head of a site's (``part``), or its bias (``part`` −1)."""

    name: str
    kind: Kind
    sources: tuple[tuple[SourceNode, int | None], ...]
    layer: str | None = None
    expert: int | None = None


@dataclass
class SiteReads:
    """What a site read: the nodes of q, k and v, or why one of them is not carried."""

    nodes: dict[Side, Node] = field(default_factory=dict)
    refused: dict[Side, str] = field(default_factory=dict)
    made: dict[Side, Node] = field(default_factory=dict)
    """Where q, k and v come from, whether or not what was written is carried there."""


@dataclass
class RecordedStream:
    """A recorded pass: what every site read, the stream before the final norm, and how writers are called."""

    sites: dict[str, SiteReads] = field(default_factory=dict)
    final: Node | None = None
    logits: Tensor | None = None
    """Of a pass that did not end before them."""
    roots: list[Node] = field(default_factory=list)
    layers: Mapping[str, str] = field(default_factory=dict)
    """The name of each layer, by the path of its module."""
    site_paths: Mapping[str, str] = field(default_factory=dict)
    embeddings: frozenset[str] = frozenset()
    """Modules that hold the token embedding, under any of their paths."""
    tape: Tape = field(default_factory=Tape)
    _single: set[str] = field(default_factory=set)

    def node(self, site: str, side: Side) -> Node:
        """The node of a site's q, k or v; refused with the reason where it is not a sum of writers."""
        reads = self.sites[site]
        if side in reads.refused:
            raise ModelError(
                f"{site}: its {side} is not a sum of what was written into the stream: {reads.refused[side]}; "
                "patterns, ablation and all that needs no split of its scores work as before"
            )
        return reads.nodes[side]

    def on_stream(self, site: str) -> set[Node]:
        """Nodes that later parts of the model read as well: the stream itself, and norms that stand on it."""
        own = set(self.sites[site].nodes.values())
        others = [node for name, reads in self.sites.items() if name != site for node in reads.nodes.values()]
        ends = [*others, *self.roots, *([] if self.final is None else [self.final])]
        return ancestors([end for end in ends if end not in own])

    def writers(self, route: Route, site: str | None = None) -> list[Writer]:
        """The writers of a node, in the order in which they wrote; what belongs to the reader alone is one of them."""
        stream = None if site is None else self.on_stream(site)
        named: dict[str, Writer] = {}
        children: dict[str, set[str]] = {}
        for source in route.sources:
            layer, child = self._place(source)
            if layer is not None and source.dynamic and source.heads is None and self._site_at(source.path) is None:
                children.setdefault(layer, set()).add(child)
        self._single = {layer for layer, found in children.items() if len(found) == 1}
        for source in sorted(route.sources, key=lambda each: each.born):
            for writer in self._of_source(source, route, stream):
                before = named.get(writer.name)
                joined = writer.sources if before is None else (*before.sources, *writer.sources)
                named[writer.name] = Writer(writer.name, writer.kind, joined, writer.layer, writer.expert)
        return list(named.values())

    def _of_source(self, source: SourceNode, route: Route, stream: set[Node] | None) -> Iterator[Writer]:
        if source.heads is not None:
            own = source.heads.site
            for head in range(source.heads.n_heads):
                yield Writer(f"{own}.{head}", "head", ((source, head),), own)
            if source.heads.bias is not None:
                yield Writer(f"bias {own}", "bias", ((source, -1),), own)
            return
        layer, child = self._place(source)
        whole = ((source, None),)
        if not source.dynamic:
            alone = stream is not None and not any(op in stream for op in _users(route, source))
            if source.in_site or alone:
                yield Writer(READER_BIAS, "reader", whole)
            elif layer is None and _differs_by_position(source):
                yield Writer("position embedding", "position", whole)
            else:
                yield Writer(f"bias {'embedding' if layer is None else layer}", "bias", whole, layer)
        elif layer is None:
            token = source.op != "embedding" or source.path in self.embeddings
            yield Writer("embedding" if token else source.path.rpartition(".")[2], "embedding", whole)
        elif (site := self._site_at(source.path)) is not None:
            yield Writer(f"attention {site}", "attention", whole, site)
        else:
            expert = "" if source.expert is None else f" expert {source.expert}"
            kind = "mlp" if layer in self._single else child
            yield Writer(f"{kind} {layer}{expert}", "mlp", whole, layer, source.expert)

    def _place(self, source: SourceNode) -> tuple[str | None, str]:
        """The layer that made a source, with its call where it runs several times, and the part of the layer."""
        prefix = next((p for p in self.layers if source.path == p or source.path.startswith(p + ".")), None)
        if prefix is None:
            return None, ""
        base, _, times = source.call.partition("@")
        again = times and (self.site_paths.get(base, "") + ".").startswith(prefix + ".")
        child = source.path.removeprefix(prefix).lstrip(".").partition(".")[0]
        return self.layers[prefix] + (f"@{times}" if again else ""), child or "layer"

    def _site_at(self, path: str) -> str | None:
        inside = (site for site, own in self.site_paths.items() if path == own or path.startswith(own + "."))
        return next(inside, None)


def ancestors(nodes: list[Node]) -> set[Node]:
    """Everything that is carried into these nodes, and they themselves."""
    return set(walk(nodes, carried_into))


def _differs_by_position(source: SourceNode) -> bool:
    value = source.value
    return value is not None and value.ndim > 1 and not torch.equal(value[..., :1, :].expand_as(value), value)


def _users(route: Route, source: SourceNode) -> list[Op]:
    return [op for op in route.ops if any(parent is source for parent in op.parents)]


def layer_names(model: nn.Module, paths: Mapping[str, str]) -> dict[str, str]:
    """Layers by the path of the list member that holds a site, named as the site is; members without one in between."""
    named: dict[str, str] = {}
    lists: dict[str, str] = {}
    held = [path + "." for path in paths.values()]
    for site, path in paths.items():
        words = path.split(".")
        cuts = [cut for cut in range(1, len(words)) if isinstance(_part(model, words[:cut]), nn.ModuleList)]
        full = [
            cut for cut in reversed(cuts) if all(_any_below(words[:cut], i, held) for i in _members(model, words[:cut]))
        ]
        if not cuts:
            continue
        cut = (full or cuts)[0]
        member, name = words[cut], site.partition("@")[0].removesuffix(".cross")
        prefix = ".".join(words[: cut + 1])
        if len(name) < len(named.get(prefix, name + " ")):
            named[prefix] = name
        if name.endswith(member):
            lists[".".join(words[:cut])] = name.removesuffix(member)
    for path, stem in lists.items():
        for member in _members(model, path.split(".")):
            named.setdefault(f"{path}.{member}", f"{stem}{member}")
    return named


def _part(model: nn.Module, words: list[str]) -> nn.Module:
    return model.get_submodule(".".join(words))


def _members(model: nn.Module, words: list[str]) -> list[str]:
    return [name for name, _ in _part(model, words).named_children()]


def _any_below(words: list[str], member: str, held: list[str]) -> bool:
    prefix = ".".join([*words, member]) + "."
    return any(path.startswith(prefix) for path in held)
