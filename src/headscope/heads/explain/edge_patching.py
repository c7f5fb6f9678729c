"""Run a model in which every reader has its own view of each writer: from the clean text, or from the corrupted one.

Nodes are heads and MLPs (and the embedding); edges go into the q, k or v of a head, into an MLP, and into the logits. A
reader's input is the corrupted stream, plus, for each edge of the circuit, what its writer writes now minus what it
wrote in the corrupted text. A reader without edges is as it was in the corrupted text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import EditError, ModelError
from headscope.heads.explain.pass_state import LOGITS, NODES, Edge, PassState, Place, Reader, ReaderState
from headscope.models.modes import hooked
from headscope.models.recording import OpenModel
from headscope.models.structure.carry import Columns, columns_of, recompute
from headscope.models.structure.points import Point, module_of
from headscope.models.structure.readers import before_norm, entries, has_own_norm, probed, reader_inputs, value_of
from headscope.models.structure.recorder import recording_stream
from headscope.models.structure.tape import NORM, Node, Op

no_modes = torch.utils._python_dispatch._disable_current_modes


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
        self._columns: dict[tuple[str, str, int], list[Tensor | None]] = {}

    @contextmanager
    def recorded(self, hooks: ReaderHooks) -> Iterator[PassState]:
        """Record a pass; ``hooks`` see, and may replace, what MLPs and the logits read and what MLPs write."""
        state, last = PassState(), _LastPosition()

        def reading(name: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
            made = hooks.read(state, name, args[0] if args else None)
            return None if made is None else ((made, *args[1:]), kwargs)

        def writing(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            return None if name == LOGITS else hooks.mlp_output(state, name, output)

        with ExitStack() as stack:
            state.stream = stack.enter_context(recording_stream(self.model))
            for name, module in self.modules.items():
                stack.enter_context(hooked([module], before=partial(reading, name), after=partial(writing, name)))
            matrix = self.model.unembedding_matrix()
            if matrix is not None:
                stack.enter_context(hooked([matrix], before=last.before, after=last.after))
            yield state

    def columns(self, state: PassState, place: Place, head: int, read: Mapping[Node, Tensor]) -> Columns:
        """The columns of a reader's matrices that one head depends on, its norms computed again; found once."""
        node = state.readers[place].node
        route = state.route(node)
        matrices = route.matrices()
        if (*place, head) not in self._columns:
            dtype = next(iter(read.values())).dtype
            found = columns_of(route, lambda op, trial: recompute(node, {**read, op: trial.to(dtype)})[..., head, :, :])
            self._columns[*place, head] = [found.get(op) for op in matrices]
        known = zip(matrices, self._columns[*place, head], strict=True)
        return {op: wanted for op, wanted in known if wanted is not None}

    def note_readers(self, state: PassState, place: str, side: str, node: Node) -> ReaderState:
        """Keep what a reader reads."""
        known = state.readers.get((place, side))
        if known is not None and known.node is node:
            return known
        inputs = reader_inputs(node, True) if side else [node if place == LOGITS else before_norm(node)]
        if len(inputs) != 1:
            raise ModelError(f"{place}: it reads several streams, so edges into it are not defined")
        same = next((each for each in state.readers.values() if each.stream is inputs[0]), None)
        written = {} if same is not None else {each.name: each for each in state.stream.writers(state.route(inputs[0]))}
        named = written if same is None else same.writers
        value = None if not state.keeps else value_of(inputs[0]).detach() if same is None else same.value
        state.readers[place, side] = ReaderState(node, inputs[0], named, value)
        return state.readers[place, side]


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


class _LastPosition:
    """Hooks at W_U: answers stand at the last position, so that no other logit is computed, only its place is kept."""

    length = 0

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self.length = args[0].shape[1] if args and args[0].ndim == 3 else 0
        return ((args[0][:, -1:], *args[1:]), kwargs) if self.length else None

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        return output.expand(-1, self.length, -1) if self.length else None


class ReaderHooks:
    """Hooks that change nothing and keep what readers read."""

    def __init__(self, patched: PatchedModel) -> None:
        self.patched = patched

    def attend(self, state: PassState, site: str, call: Call) -> Tensor:
        """z of one attention call."""
        state.calls[site] = call
        for side in ("q", "k", "v"):
            self.patched.note_readers(state, site, side, state.stream.node(site, side))
        state.z[site] = plain(call)
        return state.z[site]

    def read(self, state: PassState, name: str, x: Tensor | None) -> Tensor | None:
        """What an MLP or the logits read in place of ``x``, if anything."""
        node = None if x is None else state.stream.tape.node_of(x)
        if node is None:
            raise ModelError(f"{name}: what is read there is not a sum of writers, so edges into it are unknown")
        self.patched.note_readers(state, name, "", node)
        return None

    def mlp_output(self, state: PassState, name: str, output: Any) -> Any:
        """What an MLP writes in place of ``output``, if anything."""
        state.outputs[name] = output


@torch.no_grad()
def record(patched: PatchedModel, inputs: Mapping[str, Tensor]) -> PassState:
    """Run one pass over a batch and keep what every reader reads."""
    hooks = ReaderHooks(patched)
    with patched.recorded(hooks) as state:
        state.keeps = True
        state.logits = patched.model.run(inputs, partial(hooks.attend, state)).logits[:, -1:]
    return state


class Circuitry(ReaderHooks):
    """Hooks that give every reader its own input."""

    def __init__(
        self, patched: PatchedModel, corrupted: PassState, edges: Mapping[Reader, Sequence[str]], cut: bool = False
    ) -> None:
        """The edges that are clean, all others corrupted; with ``cut``, the ones that are corrupted."""
        super().__init__(patched)
        self.corrupted, self.edges, self.cut = corrupted, edges, cut
        self.inputs: dict[Place, Tensor] = {}
        """The input of every reader with edges, the readers of a place along a first axis."""
        self.readers: dict[Place, Sequence[Reader]] = {}

    def _inputs(self, state: PassState, place: Place, readers: Sequence[Reader]) -> Float[Tensor, "reader ..."]:
        """For each reader of a place, the corrupted stream with its writers as they are now."""
        base = value_of(state.readers[place].stream) if self.cut else self.corrupted.readers[place].value
        assert base is not None, "a recorded pass keeps the stream before each reader"
        self.readers[place], wanted = readers, [self.edges.get(reader, ()) for reader in readers]
        change = (state.sums(place, wanted) - self.corrupted.sums(place, wanted)).to(base)
        made = base - change if self.cut else base + change
        self.inputs[place] = made.requires_grad_() if torch.is_grad_enabled() and not made.requires_grad else made
        return self.inputs[place]

    def attend(self, state: PassState, site: str, call: Call) -> Tensor:
        old = call if self.cut else self.corrupted.calls[site]
        z = plain(call) if self.cut else self.corrupted.z[site].clone()
        group, sides = call.q.shape[1] // call.k.shape[1], {}
        for side, own in (("q", old.q), ("k", old.k), ("v", old.v)):
            sides[side] = self._side(state, (site, side), own, 1 if side == "q" else group)
        for head in sorted({head for made in sides.values() for head in made}):
            kept = {"q": old.q[:, [head]], "k": old.k[:, [head // group]], "v": old.v[:, [head // group]]}
            q, k, v = (made.get(head, kept[side]) for side, made in sides.items())
            z[:, head] = plain(Call(call.site, q, k, v, call.scores.bind(call.q, call.k).only(head)))[:, 0]
        return z

    def _side(self, state: PassState, place: Place, own: Tensor, group: int) -> dict[int, Tensor]:
        """q, k or v of each head that has edges into it."""
        site, side = place
        readers = [Reader(f"{site}.{head}", side) for head in range(own.shape[1] * group)]
        active = [head for head, reader in enumerate(readers) if self.edges.get(reader)]
        if not active:
            return {}
        node = state.stream.node(site, side)
        reader = self.patched.note_readers(state, site, side, node)
        found = {}
        for head, value in zip(active, self._inputs(state, place, [readers[head] for head in active]), strict=True):
            index = head // group
            columns = self.patched.columns(state, place, index, {reader.stream: value})
            found[head] = recompute(node, {reader.stream: value}, columns)[:, index : index + 1]
        return found

    def read(self, state: PassState, name: str, x: Tensor | None) -> Tensor | None:
        reader = Reader(name)
        if not self.edges.get(reader) and (self.cut or name != LOGITS):
            return None if self.cut or x is None else x[:1, :1]  # what it writes is replaced by what it wrote
        super().read(state, name, x)
        known = state.readers[reader.place]
        with no_modes():
            made = recompute(known.node, {known.stream: self._inputs(state, reader.place, [reader])[0]})
        state.stream.tape.mark_source(made, "patched")
        return made

    def mlp_output(self, state: PassState, name: str, output: Any) -> Any:
        if self.cut or self.edges.get(Reader(name)):
            return None
        old = self.corrupted.outputs[name]
        return old.clone() if isinstance(old, Tensor) else old


def run_circuit(
    patched: PatchedModel, inputs: Mapping[str, Tensor], corrupted: PassState, edges: Sequence[Edge], cut: bool = False
) -> Float[Tensor, "pair 1 vocabulary"]:
    """Last logits of the clean inputs when only these edges are clean; with ``cut``, when only these are corrupted."""
    with torch.no_grad():
        return run_patched(patched, inputs, Circuitry(patched, corrupted, by_reader(edges), cut))[0]


def run_patched(patched: PatchedModel, inputs: Mapping[str, Tensor], hooks: Circuitry) -> tuple[Tensor, PassState]:
    """The last logits under some hooks, and the pass itself."""
    with patched.recorded(hooks) as state:
        logits: Tensor = patched.model.run(inputs, partial(hooks.attend, state)).logits
    return logits[:, -1:], state


def by_reader(edges: Sequence[Edge]) -> dict[Reader, list[str]]:
    """The writers of each reader."""
    found: dict[Reader, list[str]] = {}
    for edge in edges:
        found.setdefault(edge.reader, []).append(edge.writer)
    return found


def all_edges(clean: PassState, corrupted: PassState) -> list[Edge]:
    """Every edge of the model: from heads, MLPs and embeddings into every later reader.

    Both passes are asked: an expert may write in one of the texts alone.
    """
    found = []
    for (place, side), reader in clean.readers.items():
        heads = range(clean.calls[place].q.shape[1]) if side else [None]
        writers = reader.writers | corrupted.readers[place, side].writers
        for head in heads:
            name = place if head is None else f"{place}.{head}"
            found += [Edge(each.name, Reader(name, side)) for each in writers.values() if each.kind in NODES]
    return found
