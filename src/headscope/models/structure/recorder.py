"""Record one pass of a model: where in it each operation runs, what every site reads, and what it writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.protocol import OutputWeight, SiteObserver
from headscope.models.structure.carry import Route
from headscope.models.structure.sites import input_embedding
from headscope.models.structure.tape import HeadsOutput, Mark, Node, Op, SourceNode, mark_of
from headscope.models.structure.trace import hooked
from headscope.models.structure.writers import SIDES, RecordedStream, SiteReads, ancestors, layer_names

_WORDS = {
    "clamp": "clipping", "clamp_min": "clipping", "convolution": "a convolution", "bmm": "a product of two activations",
    "mul": "a product of two activations", "tanh": "a tanh", "max_pool2d_with_indices": "pooling",
}  # fmt: skip


class StreamRecorder:
    """Hooks that tell a tape where in the model an operation runs, and where sites read and write."""

    def __init__(self, model: Any, stream: RecordedStream) -> None:
        self.model, self.stream, self.tape = model, stream, stream.tape
        self.paths = {id(module): path for path, module in model.model.named_modules()}
        self.site_modules = {id(module) for module in model.site_modules().values()}
        self.waiting: list[str] = []
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
            self._heads(mine, args[0], output)
        self.tape.stack.pop()
        if id(module) in self.site_modules:
            self.tape.sites.pop()

    def _start(self, given: tuple[Any, ...]) -> None:
        """A pass begins: forget the one before, and mark what the model is given."""
        self.stream.sites.clear()
        self.tape.joins.clear()
        self.tape.reads.clear()
        self.waiting.clear()
        self.tape.stack.clear()
        self.tape.sites.clear()
        for value in given:
            if isinstance(value, Tensor):
                self.tape.mark_input(value)

    def final(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """The module is called that reads the end of the stream."""
        if args:
            self.stream.final = self.tape.node_of(args[0])
        if self.until and self.stream.final is not None and self.until <= self.stream.sites.keys():
            raise _ReachedEndError

    def observe(self, site: str, call: Call, observer: SiteObserver | None) -> Tensor:
        reads = self.stream.sites.setdefault(site, SiteReads())
        for side, value in zip(SIDES, (call.q, call.k, call.v), strict=True):
            node, mark = self.tape.node_of(value), mark_of(value)
            if mark is not None and mark.node is not None:
                reads.made[side] = mark.node
            if node is None:
                reads.refused[side] = _reason(mark)
            else:
                reads.nodes[side] = node
        if self.tape.sites:
            self.tape.sites[-1] = None
        with _disable_current_modes():
            z = plain(call) if observer is None else observer(site, call)
        self.tape.call = site
        self.tape.mark_source(z, "attention")
        self.waiting.append(site)
        return z

    def _matrix(self, site: str) -> nn.Module | None:
        try:
            found: nn.Module = self.model.output_matrix(site)
        except ModelError:
            return None
        return found

    def _heads(self, sites: list[str], x: Tensor, output: Tensor) -> None:
        """Mark W_O's output as the sum of its heads; as one writer where several calls are joined in it."""
        self.waiting = [site for site in self.waiting if site not in sites]
        site = sites[-1]
        n_heads = self.model.shape.sites[site].n_heads
        if len(sites) > 1 or not self.model.shape.sites[site] or x.shape[-1] % n_heads:
            return
        with _disable_current_modes():
            weight: OutputWeight = self.model.output_weight(site)
        fits = weight.weight.shape[0] * weight.weight.shape[1] == x.shape[-1]
        if fits and weight.weight.shape[2] == output.shape[-1]:
            heads = HeadsOutput(site, x, n_heads, weight.weight.detach(), _detached(weight.bias))
            self.tape.mark_source(output, "attention", heads)


def _detached(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach()


def _reason(mark: Mark | None) -> str:
    """Which operation ended what was carried."""
    if mark is None:
        return "it is not computed from this text"
    return _culprit(mark.op, mark.path, mark.node)


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


current_recorder: ContextVar[StreamRecorder | None] = ContextVar("headscope_stream_recorder", default=None)


@contextmanager
def recording_stream(model: Any) -> Iterator[RecordedStream]:
    """Record every pass of this model inside the block, the latest one at a time. A block inside a block is one."""
    outer = current_recorder.get()
    if outer is not None and outer.model is model:
        yield outer.stream
        return
    paths = {id(module): path for path, module in model.model.named_modules()}
    sites = {site: paths[id(module)] for site, module in model.site_modules().items()}
    stream = RecordedStream(
        layers=layer_names(model.model, sites), site_paths=sites, embeddings=_token_embeddings(model.model)
    )
    recorder = StreamRecorder(model, stream)
    last = model.unembedding_input()
    token = current_recorder.set(recorder)
    try:
        with (
            hooked([] if last is None else [last], before=recorder.final),
            hooked(model.model.modules(), before=recorder.before, after=recorder.after),
            _experts_one_by_one(model.model),
            stream.tape,
        ):
            yield stream
    finally:
        current_recorder.reset(token)


def _token_embeddings(model: nn.Module) -> frozenset[str]:
    table = getattr(input_embedding(model), "weight", None)
    if not isinstance(table, Tensor):
        return frozenset()
    named = ((path, getattr(part, "weight", None)) for path, part in model.named_modules(remove_duplicate=False))
    return frozenset(path for path, weight in named if isinstance(weight, Tensor) and _same_memory(weight, table))


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.device.type != "meta" and one.data_ptr() == other.data_ptr()


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
    shapes = {
        shape for reads in stream.sites.values() for each in reads.nodes.values() for shape in _stream_shapes(each)
    }
    stream.roots += [end for shape, end in stream.tape.joins.items() if shape in shapes]
    stream.roots += [] if node is None else [node]
    stream.tape.joins.clear()
    for site, reads in stream.sites.items():
        _refuse_inner_sources(site, reads)
    return stream


def _stream_shapes(node: Node) -> set[torch.Size]:
    """Shapes of what a reader reads."""
    return {
        each.shape for each in ancestors([node]) if isinstance(each, Op) and each.name == "add" and not each.in_site
    }


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
    before = [(config, config._experts_implementation_internal) for config in configs.values() if _has_experts(config)]
    for config, _ in before:
        config._experts_implementation_internal = "eager"
    try:
        yield
    finally:
        for config, own in before:
            config._experts_implementation_internal = own


def _has_experts(config: Any) -> bool:
    return getattr(config, "_experts_implementation_internal", None) is not None
