"""Record one pass of a model: what was written into the residual stream before each site, by name.

A writer is a source of the recorded stream with a name: a head through W_O, the MLP of a layer (each expert of it), an
embedding, a bias. The stream before a site is the sum of its writers, carried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from headscope.attention.observer import Call, plain
from headscope.attention.progress import setting
from headscope.errors import ModelError
from headscope.models.modes import hooked
from headscope.models.protocol import OutputWeight, SiteObserver
from headscope.models.structure.carry import Route
from headscope.models.structure.tape import HeadsOutput, Node, Op, SourceNode, Tape, carried_into, mark_of, walk
from headscope.models.structure.weights import rows_by_head

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
    """A recorded pass: what every site read, the stream before the final norm, and the writers' names."""

    sites: dict[str, SiteReads] = field(default_factory=dict)
    final: Node | None = None
    final_value: Float[Tensor, "batch query d_model"] | None = None
    logits: Tensor | None = None
    """Of a pass that did not end before them."""
    roots: list[Node] = field(default_factory=list)
    layers: Mapping[str, str] = field(default_factory=dict)
    """The name of each layer, by the path of its module."""
    read_by_w_o: dict[str, Float[Tensor, "batch query head d_value"]] = field(default_factory=dict)
    """The input of each site's W_O, by head."""
    site_paths: Mapping[str, str] = field(default_factory=dict)
    embeddings: frozenset[str] = frozenset()
    """Modules that hold the token embedding, under any of their paths."""
    tape: Tape = field(default_factory=Tape)
    _single: set[str] = field(default_factory=set)

    def node(self, site: str, side: Side) -> Node:
        """The node of a site's q, k or v; raise an error with the reason if it is not a sum of writers."""
        reads = self.sites[site]
        if side in reads.refused:
            raise ModelError(
                f"{site}: its {side} is not a sum of what was written into the stream: {reads.refused[side]}; "
                "patterns, ablation and all that needs no split of its scores work as before"
            )
        return reads.nodes[side]

    def on_stream(self, site: str) -> set[Node]:
        """Nodes that later parts of the model read as well: the stream itself, and norms that are part of it."""
        own = set(self.sites[site].nodes.values())
        return ancestors([end for end in self.ends() if end not in own])

    def ends(self) -> list[Node]:
        """Where a stream ends, and what every site reads of it: cross-attention has two streams."""
        reads = [node for reads in self.sites.values() for node in reads.nodes.values()]
        return [*([] if self.final is None else [self.final]), *self.roots, *reads]

    def writers(self, route: Route, site: str | None = None) -> list[Writer]:
        """Return the writers of a node in the order in which they wrote, and what belongs only to the reader."""
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
            alone = stream is not None and not any(source in op.parents and op in stream for op in route.ops)
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


_WORDS = {
    "clamp": "clipping", "clamp_min": "clipping", "convolution": "a convolution", "bmm": "a product of two activations",
    "mul": "a product of two activations", "tanh": "a tanh", "max_pool2d_with_indices": "pooling",
}  # fmt: skip


class _StreamRecorder:
    """Hooks that tell a tape where in the model an operation runs, and where sites read and write."""

    def __init__(self, model: Any, stream: RecordedStream) -> None:
        self.model, self.stream, self.tape = model, stream, stream.tape
        self.paths = {id(module): path for path, module in model.model.named_modules()}
        self.site_modules = {id(module) for module in model.site_modules().values()}
        self.waiting: dict[str, tuple[int, int]] = {}
        """Sites whose W_O has not been called yet, and batch and queries of their z."""
        self.until: frozenset[str] = frozenset()

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if module is self.model.model:
            self._start((*args, *kwargs.values()))
        self.tape.stack.append(self.paths.get(id(module), ""))
        if id(module) in self.site_modules:
            self.tape.sites.append(self.tape.path)

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        mine = [site for site in self.waiting if self._matrix(site) is module]
        if mine and isinstance(output, Tensor) and args:
            self.note_heads(dict.fromkeys(mine, args[0]), output)
        self.tape.stack.pop()
        if id(module) in self.site_modules:
            self.tape.sites.pop()

    def _start(self, given: tuple[Any, ...]) -> None:
        """A pass begins: forget the one before, and mark what the model is given."""
        self.stream.sites.clear()
        self.stream.read_by_w_o.clear()
        self.tape.joins.clear()
        self.tape.reads.clear()
        self.waiting.clear()
        self.tape.stack.clear()
        self.tape.sites.clear()
        for value in given:
            if isinstance(value, Tensor):
                self.tape.mark_input(value)

    def final(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the end of the stream, when the module that reads it is called."""
        if args:
            self.stream.final, self.stream.final_value = self.tape.node_of(args[0]), args[0]
        if self.until and self.stream.final is not None and self.until <= self.stream.sites.keys():
            raise _ReachedEndError

    def observe(self, site: str, call: Call, observer: SiteObserver | None) -> Tensor:
        reads = self.stream.sites.setdefault(site, SiteReads())
        for side, value in zip(SIDES, (call.q, call.k, call.v), strict=True):
            node, mark = self.tape.node_of(value), mark_of(value)
            if mark is not None and mark.node is not None:
                reads.made[side] = mark.node
            if node is None:
                why = "it is not computed from this text"
                reads.refused[side] = why if mark is None else _culprit(mark.op, mark.path, mark.node)
            else:
                reads.nodes[side] = node
        if self.tape.sites:
            self.tape.sites[-1] = None
        with _disable_current_modes():
            z = plain(call) if observer is None else observer(site, call)
        self.tape.call = site
        self.tape.mark_source(z, "attention")
        self.waiting[site] = (z.shape[0], z.shape[2])
        return z

    def _matrix(self, site: str) -> nn.Module | None:
        try:
            found: nn.Module = self.model.output_matrix(site)
        except ModelError:
            return None
        return found

    def note_heads(self, read: Mapping[str, Tensor], output: Tensor | None) -> None:
        """Mark W_O's output as the sum of its heads; as one writer where several calls are joined in it.

        ``read``: its input, for each call.
        """
        for site, x in read.items():
            rows, n_heads = self.waiting.pop(site), self.model.shape.sites[site].n_heads
            if x.shape[-1] % n_heads:
                return
            try:
                with _disable_current_modes():
                    weight: OutputWeight = self.model.output_weight(site)
            except ModelError:  # its weights are offloaded, or not linear
                return
            with _disable_current_modes():
                self.stream.read_by_w_o[site] = rows_by_head(x.detach(), rows, n_heads, weight.layout)
        fits = len(read) == 1 and weight.weight.shape[0] * weight.weight.shape[1] == x.shape[-1]
        if output is not None and fits and weight.weight.shape[2] == output.shape[-1]:
            bias = None if weight.bias is None else weight.bias.detach()
            heads = HeadsOutput(site, x, n_heads, weight.weight.detach(), bias, weight.layout)
            self.tape.mark_source(output, "attention", heads)


def _culprit(op: str, path: str, node: Node | None) -> str:
    """Walk back from a node that is not carried to the first operation that did not carry on."""
    while node is not None:
        if isinstance(node, SourceNode):
            op, path, node = node.op, node.path, node.origin
            continue
        assert isinstance(node, Op)
        op, path = node.name, node.path
        before = [slot.node for slot in node.slots if slot.node is not None]
        node = next((each for each in before if not (each.carries if isinstance(each, Op) else each.dynamic)), None)
    return f"{_WORDS.get(op, f'the operation {op}')} in {path or 'the model'} is neither linear nor a norm"


current_recorder: ContextVar[_StreamRecorder | None] = ContextVar("headscope_stream_recorder", default=None)


@contextmanager
def recording_stream(model: Any) -> Iterator[RecordedStream]:
    """Record every pass of this model inside the block; keep the latest. A nested block shares the outer record."""
    outer = current_recorder.get()
    if outer is not None and outer.model is model:
        yield outer.stream
        return
    paths = {id(module): path for path, module in model.model.named_modules()}
    sites = {site: paths[id(module)] for site, module in model.site_modules().items()}
    stream = RecordedStream(layers=layer_names(model.model, sites), site_paths=sites, embeddings=model.embedding_paths)
    recorder = _StreamRecorder(model, stream)
    last = model.unembedding_input()
    with (
        setting(current_recorder, recorder),
        hooked([] if last is None else [last], before=recorder.final),
        hooked(model.model.modules(), before=recorder.before, after=recorder.after),
        _experts_one_by_one(model.model),
        stream.tape,
    ):
        yield stream


class _ReachedEndError(Exception):
    """Ends a pass at the end of the residual stream, before the unembedding."""


@torch.no_grad()
def record_stream(
    model: Any, inputs: Mapping[str, Tensor], observer: SiteObserver | None = None, until: Collection[str] = ()
) -> RecordedStream:
    """Run the model once and record how its residual stream came about. Evaluation mode only.

    With ``until``, the pass may end where these sites have run and the end of the stream is read: no logit is computed.
    """
    node: Node | None = None
    with recording_stream(model) as stream, suppress(_ReachedEndError):
        current = current_recorder.get()
        assert current is not None, "set by the block"
        current.until = frozenset(until)
        stream.logits = model.run(inputs, observer).logits
        node = stream.tape.node_of(stream.logits)
    read = ancestors([each for reads in stream.sites.values() for each in reads.nodes.values()])
    shapes = {each.shape for each in read if isinstance(each, Op) and each.name == "add" and not each.in_site}
    stream.roots += [end for shape, end in stream.tape.joins.items() if shape in shapes]
    stream.roots += [] if node is None else [node]
    stream.tape.joins.clear()
    for site, reads in stream.sites.items():
        _refuse_inner_sources(site, reads)
    return stream


def _refuse_inner_sources(site: str, reads: SiteReads) -> None:
    """A source that was made inside the reader from the text is no writer: something there is not linear."""
    for side, node in list(reads.nodes.items()):
        route = Route(node)
        inner = next((source for source in route.sources if source.in_site and source.dynamic), None)
        why = ""
        if inner is not None:
            why = _culprit(inner.op, inner.path, inner)
        elif not route.matrices():
            why = "no matrix of its attention module computes it"
        if why:
            del reads.nodes[side]
            reads.refused[side] = why


@contextmanager
def _experts_one_by_one(model: nn.Module) -> Iterator[None]:
    """Have experts computed one after the other, so that each has its own share."""
    configs: dict[int, Any] = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    held = ((config, getattr(config, "_experts_implementation_internal", None)) for config in configs.values())
    before = [(config, own) for config, own in held if own is not None]
    for config, _ in before:
        config._experts_implementation_internal = "eager"
    try:
        yield
    finally:
        for config, own in before:
            config._experts_implementation_internal = own


def ancestors(nodes: list[Node]) -> set[Node]:
    """Everything that is carried into these nodes, and they themselves."""
    return set(walk(nodes, carried_into))


def _differs_by_position(source: SourceNode) -> bool:
    value = source.value
    return value is not None and value.ndim > 1 and not torch.equal(value[..., :1, :].expand_as(value), value)


def layer_names(model: nn.Module, paths: Mapping[str, str]) -> dict[str, str]:
    """Layers by the path of the list member that holds a site, named as the site is; members without one in between."""
    named: dict[str, str] = {}
    lists: dict[str, str] = {}

    def holds(member: str) -> bool:
        return any(path.startswith(member + ".") for path in paths.values())

    for site, path in paths.items():
        words = path.split(".")
        cuts = [cut for cut in range(1, len(words)) if isinstance(_part(model, words[:cut]), nn.ModuleList)]
        full = [cut for cut in reversed(cuts) if all(map(holds, _members(model, words[:cut])))]
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
            named.setdefault(member, f"{stem}{member.rpartition('.')[2]}")
    return named


def _part(model: nn.Module, words: list[str]) -> nn.Module:
    return model.get_submodule(".".join(words))


def _members(model: nn.Module, words: list[str]) -> list[str]:
    return [".".join([*words, name]) for name, _ in _part(model, words).named_children()]
