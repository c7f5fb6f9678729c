"""Run a model in which every reader has its own view of each writer: from the clean text, or from the corrupted one.

Nodes are heads and MLPs (and the embedding); edges go into the q, k or v of a head, into an MLP, and into the logits. A
reader's input is the corrupted stream, plus, for each edge of the circuit, what its writer writes now minus what it
wrote in the corrupted text. A reader without edges is as it was in the corrupted text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.protocol import OpenModel
from headscope.models.structure.carry import Columns, Route, columns_of, recompute
from headscope.models.structure.readers import before_norm, carried_part, has_own_norm, probed, reader_inputs, value_of
from headscope.models.structure.tape import Node
from headscope.models.structure.trace import hooked
from headscope.models.structure.writers import RecordedStream, Writer, recording_stream

LOGITS = "logits"
NODES = ("head", "mlp", "embedding", "position", "attention")


class Reader(NamedTuple):
    """A place that reads the stream: a head's q, k or v (``into``), an MLP, or the logits."""

    name: str
    into: str = ""

    def __str__(self) -> str:
        return f"{self.name}<{self.into}>" if self.into else self.name


class Edge(NamedTuple):
    """From a writer to a reader."""

    writer: str
    reader: Reader

    def __str__(self) -> str:
        return f"{self.writer}->{self.reader}"


@dataclass
class ReaderState:
    """What a reader read in one pass: the stream before its norm, its writers, and its input."""

    node: Node
    stream: Node
    writers: dict[str, Writer]
    value: Tensor | None = None
    """The stream itself, where it was kept."""


@dataclass
class PassState:
    """One recorded pass over a batch: the readers by site or MLP, the values at calls, and MLP outputs."""

    stream: RecordedStream
    keeps: bool = False
    """Whether the stream before each reader is kept."""
    readers: dict[tuple[str, str], ReaderState] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    z: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None
    _parts: dict[Node, dict[str, Tensor]] = field(default_factory=dict)

    def part(self, place: tuple[str, str], writer: str) -> Tensor:
        """What a writer's part is at a reader."""
        state = self.readers[place]
        kept = self._parts.setdefault(state.stream, {})
        if writer not in kept:
            kept[writer] = carried_part(state.writers[writer], state.stream)
        return kept[writer]


class PatchedModel:
    """A model prepared for edges: which norms are the readers' own, which modules are MLPs."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        self.sites = list(model.shape.sites)
        self.own = {site: has_own_norm(model, site, "q") for site in self.sites}
        self.mlps = _mlps(model)
        self.last = model.unembedding_input()
        if self.last is None:
            raise ModelError(
                f"{model.shape.name}: the end of its residual stream was not found, and a circuit ends there"
            )
        self._columns: dict[tuple[str, str, int], list[Tensor | None]] = {}

    @contextmanager
    def recorded(self, state_of: Any) -> Iterator[PassState]:
        """Record a pass, with a hook at every MLP and at the end of the stream."""
        with ExitStack() as stack:
            stream = stack.enter_context(recording_stream(self.model))
            state = PassState(stream)
            for layer, module in self.mlps.items():
                stack.enter_context(hooked([module], before=state_of.mlp_input(state, layer)))
                stack.enter_context(hooked([module], after=state_of.mlp_output(state, layer)))
            stack.enter_context(hooked([self.last], before=state_of.logits_input(state)))
            yield state

    def columns(self, node: Node, site: str, side: str, head: int) -> Columns:
        """The columns of a reader's matrices that one head depends on; found once."""
        route = Route(node)
        matrices = route.matrices()
        if (site, side, head) not in self._columns:
            found = columns_of(route, lambda whole: whole[..., head, :, :])
            self._columns[site, side, head] = [found.get(op) for op in matrices]
        known = zip(matrices, self._columns[site, side, head], strict=True)
        return {op: wanted for op, wanted in known if wanted is not None}

    def note_readers(self, state: PassState, place: str, side: str, node: Node, own: bool) -> ReaderState:
        """Keep what a reader reads."""
        known = state.readers.get((place, side))
        if known is not None and known.node is node:
            return known
        inputs = reader_inputs(node, own) if side else [before_norm(node)]
        if len(inputs) != 1:
            raise ModelError(f"{place}: it reads several streams, so edges into it are not defined")
        same = next((each for each in state.readers.values() if each.stream is inputs[0]), None)
        written = {} if same is not None else {each.name: each for each in state.stream.writers(Route(inputs[0]))}
        named = written if same is None else same.writers
        value = None if not state.keeps else value_of(inputs[0]).detach() if same is None else same.value
        state.readers[place, side] = ReaderState(node, inputs[0], named, value)
        return state.readers[place, side]


def _mlps(model: OpenModel) -> dict[str, nn.Module]:
    """The module of each layer's MLP."""
    from headscope.errors import EditError
    from headscope.heads.look.component_patches import module_of

    stream = probed(model)
    paths = {id(module): path for path, module in model.model.named_modules()}
    found: dict[str, nn.Module] = {}
    for prefix, layer in stream.layers.items():
        try:
            module, _ = module_of(model, stream, f"mlp {layer}")
        except EditError:
            continue
        child = paths[id(module)].removeprefix(prefix + ".").partition(".")[0]
        found[layer] = model.model.get_submodule(f"{prefix}.{child}")  # the whole of it: where it reads the stream
    return found


class Recording:
    """Hooks that change nothing and keep what readers read."""

    def __init__(self, patched: PatchedModel) -> None:
        self.patched = patched

    def attend(self, state: PassState) -> Any:
        def observe(site: str, call: Call) -> Tensor:
            state.calls[site] = call
            for side in ("q", "k", "v"):
                self.patched.note_readers(state, site, side, state.stream.node(site, side), self.patched.own[site])
            state.z[site] = plain(call)
            return state.z[site]

        return observe

    def mlp_input(self, state: PassState, layer: str) -> Any:
        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            node = state.stream.tape.node_of(args[0]) if args else None
            if node is None:
                raise ModelError(
                    f"mlp {layer}: its module does not read the residual stream; edges into it are unknown"
                )
            self.patched.note_readers(state, f"mlp {layer}", "", node, True)

        return before

    def mlp_output(self, state: PassState, layer: str) -> Any:
        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            state.outputs[layer] = output

        return after

    def logits_input(self, state: PassState) -> Any:
        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            node = state.stream.tape.node_of(args[0])
            if node is None:
                raise ModelError(
                    "the end of the residual stream is not a sum of writers, so a circuit cannot end there"
                )
            writers = {writer.name: writer for writer in state.stream.writers(Route(node))}
            state.readers[LOGITS, ""] = ReaderState(node, node, writers, args[0].detach())

        return before


@torch.no_grad()
def record(patched: PatchedModel, inputs: Mapping[str, Tensor]) -> PassState:
    """Run one pass over a batch and keep what every reader reads."""
    hooks = Recording(patched)
    with patched.recorded(hooks) as state:
        state.keeps = True
        state.logits = patched.model.run(inputs, hooks.attend(state)).logits
    return state


class Circuitry(Recording):
    """Hooks that give every reader its own input."""

    def __init__(
        self, patched: PatchedModel, corrupted: PassState, edges: Mapping[Reader, Sequence[str]], cut: bool = False
    ) -> None:
        """The edges that are clean, all others corrupted; with ``cut``, the ones that are corrupted."""
        super().__init__(patched)
        self.corrupted, self.edges, self.cut = corrupted, edges, cut

    def _input(self, state: PassState, place: tuple[str, str], writers: Sequence[str]) -> Tensor:
        """The corrupted stream, with these writers as they are now."""
        base = value_of(state.readers[place].stream) if self.cut else self.corrupted.readers[place].value
        assert base is not None, "a recorded pass keeps the stream before each reader"
        for writer in writers:
            change = (state.part(place, writer) - self.corrupted.part(place, writer)).to(base)
            base = base - change if self.cut else base + change
        return base

    def attend(self, state: PassState) -> Any:
        def observe(site: str, call: Call) -> Tensor:
            old = call if self.cut else self.corrupted.calls[site]
            z = plain(call) if self.cut else self.corrupted.z[site].clone()
            for head in range(call.q.shape[1]):
                wanted = {side: self.edges.get(Reader(f"{site}.{head}", side), ()) for side in ("q", "k", "v")}
                if any(wanted.values()):
                    z[:, head] = self._head(state, site, head, (call, old), wanted)
            return z

        return observe

    def _head(
        self, state: PassState, site: str, head: int, calls: tuple[Call, Call], wanted: Mapping[str, Sequence[str]]
    ) -> Tensor:
        call, old = calls
        kv = head // (call.q.shape[1] // call.k.shape[1])
        sides: dict[str, Tensor] = {}
        for side, own in (("q", old.q), ("k", old.k), ("v", old.v)):
            index = head if side == "q" else kv
            sides[side] = own[:, index : index + 1]
            if wanted[side]:
                node = state.stream.node(site, side)
                reader = self.patched.note_readers(state, site, side, node, self.patched.own[site])
                changed = {reader.stream: self._input(state, (site, side), wanted[side])}
                columns = self.patched.columns(node, site, side, index)
                sides[side] = recompute(node, changed, columns)[:, index : index + 1]
        scores = call.scores.bind(call.q, call.k).only(head)
        return plain(Call(call.site, sides["q"], sides["k"], sides["v"], scores))[:, 0]

    def mlp_input(self, state: PassState, layer: str) -> Any:
        def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
            wanted = self.edges.get(Reader(f"mlp {layer}"), ())
            node = state.stream.tape.node_of(args[0]) if args else None
            if not wanted or node is None:
                return None
            place = (f"mlp {layer}", "")
            reader = self.patched.note_readers(state, *place, node, True)
            with torch.utils._python_dispatch._disable_current_modes():
                made = recompute(node, {reader.stream: self._input(state, place, wanted)})
            state.stream.tape.mark_source(made, "patched")
            return (made, *args[1:]), kwargs

        return before

    def mlp_output(self, state: PassState, layer: str) -> Any:
        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            if self.cut or self.edges.get(Reader(f"mlp {layer}"), ()):
                return None
            old = self.corrupted.outputs[layer]
            return old.clone() if isinstance(old, Tensor) else old

        return after

    def logits_input(self, state: PassState) -> Any:
        def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
            wanted = self.edges.get(Reader(LOGITS), ())
            if self.cut and not wanted:
                return None
            node = state.stream.tape.node_of(args[0])
            assert node is not None
            writers = {writer.name: writer for writer in state.stream.writers(Route(node))}
            state.readers[LOGITS, ""] = ReaderState(node, node, writers)
            with torch.utils._python_dispatch._disable_current_modes():
                made = self._input(state, (LOGITS, ""), wanted)
            return (made, *args[1:]), kwargs

        return before


@torch.no_grad()
def run_circuit(
    patched: PatchedModel,
    inputs: Mapping[str, Tensor],
    corrupted: PassState,
    edges: Sequence[Edge],
    cut: bool = False,
) -> Tensor:
    """Logits of the clean inputs when only these edges are clean; with ``cut``, when only these are corrupted."""
    by_reader: dict[Reader, list[str]] = {}
    for edge in edges:
        by_reader.setdefault(edge.reader, []).append(edge.writer)
    hooks = Circuitry(patched, corrupted, by_reader, cut)
    with patched.recorded(hooks) as state:
        logits: Tensor = patched.model.run(inputs, hooks.attend(state)).logits
    return logits


def all_edges(patched: PatchedModel, state: PassState) -> list[Edge]:
    """Every edge of the model: from heads, MLPs and embeddings into every later reader."""
    found = []
    for (place, side), reader in state.readers.items():
        heads = range(state.calls[place].q.shape[1]) if side else [None]
        for head in heads:
            name = place if head is None else f"{place}.{head}"
            writers = [each.name for each in reader.writers.values() if each.kind in NODES]
            found += [Edge(writer, Reader(name, side)) for writer in writers]
    return found
