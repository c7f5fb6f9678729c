"""Run a model in which every reader has its own view of each writer: from the clean text, or from the corrupted one.

Nodes are heads and MLPs (and the embedding); edges go into the q, k or v of a head, into an MLP, and into the logits. A
reader's input is the corrupted stream, plus, for each edge of the circuit, what its writer writes now minus what it
wrote in the corrupted text. A reader without edges is as it was in the corrupted text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import EditError, ModelError
from headscope.heads.explain.circuit import LOGITS, Edge, Place, Reader
from headscope.models.protocol import KEEP
from headscope.models.recording import OpenModel
from headscope.models.structure.carry import Columns, Route, columns_of, recompute, source_parts
from headscope.models.structure.points import Point, changed, module_of
from headscope.models.structure.readers import before_norm, entries, has_own_norm, probed, reader_inputs, value_of
from headscope.models.structure.recorder import SIDES, RecordedStream, recording_stream
from headscope.models.structure.tape import NORM, Node, Op, SourceNode

NODES = ("head", "mlp", "embedding", "position", "attention")
no_modes = torch.utils._python_dispatch._disable_current_modes

Metric = Callable[[Tensor], Tensor]
"""From logits ``[pair, position, vocabulary]`` to one number per pair."""


class PatchedModel:
    """A model prepared for edges: which norms are the readers' own, which modules are MLPs."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        on_stream = next((site for site in model.shape.sites if _norm_on_stream(model, site)), None)
        if on_stream is not None:
            raise ModelError(
                f"{model.shape.name}: the norm before {on_stream} is applied to the residual stream itself, so what "
                "each component wrote before it is rescaled by all others, and edges of a circuit are not defined"
            )
        last = model.unembedding_input()
        if last is None:
            raise ModelError(
                f"{model.shape.name}: the end of its residual stream was not found, and a circuit ends there"
            )
        self.modules: dict[str, nn.Module] = {**_mlps(model), LOGITS: last}
        """What reads the stream beside heads, by name."""
        self._columns: dict[tuple[str, str, int], dict[int, Tensor]] = {}

    def columns(self, place: Place, head: int, route: Route, read: Mapping[Node, Tensor]) -> Columns:
        """The columns of a reader's matrices that one head depends on, its norms computed again; found once."""
        matrices = route.matrices()
        if (*place, head) not in self._columns:
            dtype = next(iter(read.values())).dtype
            found = columns_of(
                route, lambda op, trial: recompute(route.target, {**read, op: trial.to(dtype)})[..., head, :, :]
            )
            self._columns[*place, head] = {number: found[op] for number, op in enumerate(matrices) if op in found}
        return {matrices[number]: wanted for number, wanted in self._columns[*place, head].items()}


def _norm_on_stream(model: OpenModel, site: str) -> bool:
    read = entries(probed(model).node(site, "q"))
    return not has_own_norm(model, site, "q") and any(isinstance(each, Op) and each.name in NORM for each in read)


def _mlps(model: OpenModel) -> dict[str, nn.Module]:
    """The module of each layer's MLP, by the MLP's name."""
    stream = probed(model)
    paths = {id(module): path for path, module in model.model.named_modules()}
    found: dict[str, nn.Module] = {}
    for prefix, layer in stream.layers.items():
        try:
            module, _ = module_of(model, stream, Point("mlp_out", layer))
        except EditError:
            continue
        child = paths[id(module)].removeprefix(prefix + ".").partition(".")[0]
        found[f"mlp {layer}"] = model.model.get_submodule(f"{prefix}.{child}")  # all of it
    return found


class _Stream:
    """The stream before a reader's norm, and its writers; several readers may read the same."""

    def __init__(self, node: Node, recorded: RecordedStream, written: dict[SourceNode, Tensor], keeps: bool) -> None:
        self.node, self.route, self._written = node, Route(node), written
        self.writers = {each.name: each for each in recorded.writers(self.route)}
        self.kept = value_of(node).detach() if keeps else None
        self.carried: dict[SourceNode, Tensor | None] = {}

    def _parts(self, source: SourceNode) -> Float[Tensor, "part all"] | None:
        """The parts of a source (its heads, or all of it) here. One memory for all streams that only add."""
        if source not in self.carried:
            if source not in self._written:
                self._written[source] = source_parts(source)
            self.carried[source] = self.route.carry_all(source, self._written[source])
        parts = self.carried[source]
        return None if parts is None else parts.flatten(1)

    def sums(self, chosen: Sequence[Sequence[str]]) -> Float[Tensor, "choice ..."]:
        """For each choice of writers, the sum of their parts."""
        masks: dict[SourceNode, list[list[float]]] = {}
        for row, names in enumerate(chosen):
            for source, part in (pair for name in names if name in self.writers for pair in self.writers[name].sources):
                empty = [0.0] * (1 if source.heads is None else source.heads.n_heads)
                masks.setdefault(source, [list(empty) for _ in chosen])[row][part or 0] += 1.0
        known = ((mask, self._parts(source)) for source, mask in masks.items())
        made = [torch.tensor(mask).to(parts) @ parts for mask, parts in known if parts is not None]
        total = sum(made[1:], made[0]) if made else torch.zeros(len(chosen), self.node.shape.numel())
        return total.reshape(len(chosen), *self.node.shape)

    def along(self, gradients: Float[Tensor, "gradient ..."]) -> dict[str, Float[Tensor, " gradient"]]:
        """Each node's part, times some gradients here."""
        products: dict[SourceNode, Tensor] = {}
        found: dict[str, Tensor] = {}
        for name, writer in self.writers.items():
            for source, part in writer.sources if writer.kind in NODES else ():
                parts = self._parts(source)
                if parts is not None and source not in products:
                    products[source] = parts @ gradients.flatten(1).to(parts).T
                if parts is not None:
                    found[name] = products[source][part or 0] + found.get(name, 0.0)
        return found


class PatchedPass:
    """One recorded pass over a batch: what every reader read, or what some readers are given to read."""

    def __init__(
        self,
        patched: PatchedModel,
        edges: Mapping[Reader, Sequence[str]] | None = None,
        corrupted: PatchedPass | None = None,
        cut: bool = False,
    ) -> None:
        """The writers of each reader that are clean, all others corrupted; with ``cut``, the ones that are corrupted.

        Without ``corrupted`` nothing changes: these readers have inputs of their own, for gradients. Without ``edges``
        the pass keeps what all readers read.
        """
        self.patched, self.corrupted, self.sign = patched, corrupted, -1.0 if cut else 1.0
        self.edges, self._keeps = edges or {}, edges is None
        self.rest = None if cut else corrupted
        """The pass that readers without edges are taken from; None is this one."""
        self.recorded = RecordedStream()
        self.read: dict[Place, tuple[Node, _Stream]] = {}
        """Of every reader: what it makes of the stream (q, k, v, or an MLP's input), and the stream."""
        self.inputs: dict[tuple[Reader, ...], Float[Tensor, "reader ..."]] = {}
        """The inputs of the readers with edges, place by place."""
        self.streams: dict[Node, _Stream] = {}
        self.calls: dict[str, Call] = {}
        self.z: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.logits = torch.zeros(0)
        """Of the last position."""
        self._written: dict[SourceNode, Tensor] = {}

    def run(self, inputs: Mapping[str, Tensor]) -> PatchedPass:
        """Run the model, for the logits of the last position alone where it can make these."""
        model = self.patched.model
        keep = {KEEP: torch.tensor([-1])} if KEEP in model.takes else {}
        with ExitStack() as stack:
            self.recorded = stack.enter_context(recording_stream(model))
            for name, module in self.patched.modules.items():
                stack.enter_context(changed(module, partial(self._read, name), is_input=True))
                if name != LOGITS:
                    stack.enter_context(changed(module, partial(self._wrote, name), is_input=False))
            self.logits = model.run({**inputs, **keep}, self._attend).logits[:, -1:]
        return self

    def readers(self) -> list[tuple[Reader, _Stream]]:
        """Every reader of a pass that keeps what they read, and its stream."""
        found = []
        for (place, side), (_, stream) in self.read.items():
            names = [f"{place}.{head}" for head in range(self.calls[place].q.shape[1])] if side else [place]
            found += [(Reader(name, side), stream) for name in names]
        return found

    def _note(self, place: Place, node: Node) -> tuple[Node, _Stream]:
        name, side = place
        inputs = reader_inputs(node, True) if side else [node if name == LOGITS else before_norm(node)]
        if len(inputs) != 1:
            raise ModelError(f"{name}: it reads several streams, so edges into it are not defined")
        if inputs[0] not in self.streams:
            self.streams[inputs[0]] = _Stream(inputs[0], self.recorded, self._written, self._keeps)
        self.read[place] = node, self.streams[inputs[0]]
        return self.read[place]

    def _inputs(self, stream: _Stream, readers: tuple[Reader, ...]) -> Float[Tensor, "reader ..."]:
        """For each reader of a place, the corrupted stream with its writers as they are now."""
        place, wanted = readers[0].place, [self.edges.get(reader, ()) for reader in readers]
        base = value_of(stream.node) if self.rest is None else self.rest.read[place][1].kept
        assert base is not None, "a pass that others are taken from keeps the stream before each reader"
        made = base.expand(len(readers), *base.shape)
        if self.corrupted is not None:
            change = stream.sums(wanted) - self.corrupted.read[place][1].sums(wanted)
            made = made.add(change.to(base), alpha=self.sign)
        self.inputs[readers] = made.requires_grad_(torch.is_grad_enabled())
        return self.inputs[readers]

    def _attend(self, site: str, call: Call) -> Tensor:
        old, z = (call, plain(call)) if self.rest is None else (self.rest.calls[site], self.rest.z[site])
        self.calls[site], group = call, call.q.shape[1] // call.k.shape[1]
        own = {side: self._side((site, side), call) for side in SIDES}
        heads = list(z.unbind(1))
        for head in {head for made in own.values() for head in made}:
            kept = {"q": old.q[:, [head]], "k": old.k[:, [head // group]], "v": old.v[:, [head // group]]}
            q, k, v = (made.get(head, kept[side]) for side, made in own.items())
            heads[head] = plain(Call(call.site, q, k, v, call.scores.bind(call.q, call.k).only(head)))[:, 0].to(z)
        self.z[site] = torch.stack(heads, 1)
        return self.z[site]

    def _side(self, place: Place, call: Call) -> dict[int, Tensor]:
        """q, k or v of each head that has an input of its own."""
        site, side = place
        readers = {head: Reader(f"{site}.{head}", side) for head in range(call.q.shape[1])}
        readers = {head: reader for head, reader in readers.items() if reader in self.edges}
        if not readers and not self._keeps:
            return {}
        node, stream = self._note(place, self.recorded.node(site, side))
        if not readers:
            return {}
        route, group, found = Route(node), call.q.shape[1] // node.shape[1], {}
        for head, value in zip(readers, self._inputs(stream, tuple(readers.values())), strict=True):
            index, read = head // group, {stream.node: value}
            columns = self.patched.columns(place, index, route, read)
            found[head] = recompute(node, read, columns)[:, index : index + 1]
        return found

    def _read(self, name: str, x: Tensor) -> Tensor:
        """What an MLP or the logits read in place of ``x``."""
        reader = Reader(name)
        changes = reader in self.edges or (self.rest is not None and name == LOGITS)
        if not changes and not self._keeps:
            return x if self.rest is None else x[:1, :1]  # what it writes is replaced by what it wrote
        made = self.recorded.tape.node_of(x)
        if made is None:
            raise ModelError(f"{name}: what is read there is not a sum of writers, so edges into it are unknown")
        node, stream = self._note(reader.place, made)
        if not changes:
            return x
        with no_modes():
            x = recompute(node, {stream.node: self._inputs(stream, (reader,))[0]})
        self.recorded.tape.mark_source(x, "patched")
        return x

    def _wrote(self, name: str, output: Tensor) -> Tensor:
        """What an MLP writes in place of ``output``."""
        if self.rest is not None and Reader(name) not in self.edges:
            return self.rest.outputs[name].clone()
        self.outputs[name] = output
        return output


class RecordedPairs:
    """Clean and corrupted inputs of one length, recorded once, and what is asked of their last logits."""

    def __init__(
        self, patched: PatchedModel, clean: Mapping[str, Tensor], corrupted: Mapping[str, Tensor], metric: Metric
    ) -> None:
        self.patched, self.inputs, self.metric = patched, clean, metric
        with torch.no_grad():
            self.clean, self.corrupted = (PatchedPass(patched).run(each) for each in (clean, corrupted))
        self.best, self.worst = self.mean(self.clean.logits), self.mean(self.corrupted.logits)

    def mean(self, logits: Tensor) -> float:
        return float(self.metric(logits).mean())

    @property
    def count(self) -> int:
        return len(self.clean.logits)

    def n_right(self) -> int:
        """In how many pairs the whole model prefers the right answer."""
        return int((self.metric(self.clean.logits) > 0).sum())

    def all_edges(self) -> list[Edge]:
        """Every edge of the model: from heads, MLPs and embeddings into every later reader.

        Both passes are asked: an expert may write in one of the texts alone.
        """
        streams = zip(self.clean.readers(), self.corrupted.readers(), strict=True)
        pairs = ((reader, stream.writers | other.writers) for (reader, stream), (_, other) in streams)
        return [Edge(each.name, reader) for reader, writers in pairs for each in writers.values() if each.kind in NODES]

    def patch(self, edges: Sequence[Edge], cut: bool = False) -> PatchedPass:
        """A pass in which only these edges are clean, yet to be run; with ``cut``, only these are corrupted."""
        by_reader: dict[Reader, list[str]] = {}
        for edge in edges:
            by_reader.setdefault(edge.reader, []).append(edge.writer)
        return PatchedPass(self.patched, by_reader, self.corrupted, cut)

    @torch.no_grad()
    def logits(self, edges: Sequence[Edge], cut: bool = False) -> Float[Tensor, "pair 1 vocabulary"]:
        """The last logits of that pass."""
        return self.patch(edges, cut).run(self.inputs).logits

    def faithfulness(self, edges: Sequence[Edge]) -> float:
        return self.share(self.mean(self.logits(edges)))

    def share(self, value: float) -> float:
        """Where a mean answer lies between the corrupted one (0) and the clean one (1)."""
        return (value - self.worst) / (self.best - self.worst)
