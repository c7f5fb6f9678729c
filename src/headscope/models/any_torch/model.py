"""Open any PyTorch module: its attention is found while it runs, and every site is checked before it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError

from headscope.attention.observer import plain
from headscope.attention.progress import setting
from headscope.errors import ModelError
from headscope.models.any_torch.arguments import Arguments, FunctionInputs, doubled
from headscope.models.any_torch.calls import as_call
from headscope.models.any_torch.checks import check_sites, seeded
from headscope.models.any_torch.compiled import without_fast_path
from headscope.models.any_torch.describe import describe, items_mixed, notes_on, refusal
from headscope.models.any_torch.function_mode import AttentionMode, FoundCall, MatrixUse, ModelParts, OnMatrix, Visit
from headscope.models.any_torch.learning import LearnedSite, Learning, MatrixTake, find_gated, read_hints
from headscope.models.any_torch.matrices import as_matrix
from headscope.models.any_torch.prepare import prepare
from headscope.models.inputs import prepare as prepare_tensors
from headscope.models.inputs.tokens import InputProcessor
from headscope.models.protocol import OutputWeight, Prepared, SiteObserver
from headscope.models.recording import OpenModel, Recording, current_recording
from headscope.models.selfcheck import SelfCheck, fixed_seed, own_tolerance, relative_difference
from headscope.models.structure.recorder import current_recorder
from headscope.models.structure.sites import logits_of, names_of_layers
from headscope.names import ModelShape

MOST_COMPARED = 512
"""Longest axis of inputs at which looks are compared with a pass of the module itself."""


@dataclass(frozen=True)
class _Pass:
    """The pass that this context is in, and whose it is."""

    owner: int
    mode: AttentionMode


_pass: ContextVar[_Pass | None] = ContextVar("headscope_any_torch_pass", default=None)


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What the user says about a module: W_O and heads of sites by path pattern, and the grid of patches."""

    sites: Mapping[str, Mapping[str, Any]] | None = None
    grid: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


class AnyTorchModel(OpenModel):
    """See ``OpenModel``. Sites are named by their layer, or by the path of the module that computes the attention."""

    def __init__(
        self, model: nn.Module, processor: InputProcessor, name: str, arguments: Arguments, hints: Hints | None = None
    ) -> None:
        super().__init__(model, processor)
        self.arguments, self.hints, self.name = arguments, hints or Hints(), name
        self.learned: dict[str, LearnedSite] = {}
        self.draws = False
        """Whether its output is drawn at random."""
        self.unsoftened: set[str] = set()
        """Paths of modules that multiply as attention does, without a softmax."""
        self._compared: set[tuple[Any, ...]] = set()
        """Shapes of inputs for which the output of an observed pass was compared with the module's own."""
        self._written: set[tuple[int, str]] | None = None
        """Buffers that a pass writes; None before the first pass."""
        self._names: dict[str, str] = {}  # of sites, by module path
        self._traced_inputs = {"input_ids", "attention_mask", *arguments.named()}
        self._parts = ModelParts.of(model)
        # Functions, not methods: a copy of the module would copy this model with them.
        enter, leave = (lambda module, args: self._enter(module)), (lambda module, *_: self._leave(module))
        for module in model.modules():
            self._hooks += [
                module.register_forward_pre_hook(enter),
                module.register_forward_hook(leave, always_call=True),
            ]
        with self.closed_on_error():
            self._find_structure()

    # -- OpenModel

    def prepare(self, text: Any) -> Prepared:
        transformers_model = isinstance(getattr(self.model, "main_input_name", None), str)
        if transformers_model and not isinstance(text, FunctionInputs):
            return prepare_tensors.prepare(self, text)
        return prepare(self, text)

    @property
    def reads(self) -> list[str]:
        """What the page may send: text where token ids go in, pictures where something makes tensors of them."""
        pictures = callable(self.processor.media.both or self.processor.media.image)
        return ["text"] * (self.arguments.ids is not None) + ["pictures"] * pictures

    def output_weight(self, site: str) -> OutputWeight:
        take = self._take(site)
        n_heads = self.learned_site(site).n_heads
        weight, learned = take.weight[take.order], self.learned_site(site)
        by_head = weight.reshape(n_heads, -1, weight.shape[1])
        return OutputWeight(by_head, take.bias, learned.kind, learned.kind_why, learned.rows)

    def output_matrix(self, site: str) -> nn.Module:
        """The module that holds W_O; raise an error if W_O is a parameter of the attention itself."""
        parameter = self._take(site).parameter
        # Not by attribute: reading a weight that is computed (weight norm) runs modules, in the middle of a pass.
        held = ((part, {**part._parameters, **part._buffers}.get("weight")) for part in self.model.modules())
        found = next((part for part, weight in held if weight is parameter), None)
        if found is None:
            raise ModelError(f"{site}: its W_O is not a separate module")
        return found

    @torch.no_grad()
    def apply_output_weight(
        self, site: str, x: Float[Tensor, "batch query head d_value"]
    ) -> Float[Tensor, "batch query d_model"]:
        take = self._take(site)
        made = x.flatten(2) @ take.weight[take.order].to(x)
        return made if take.bias is None else made + take.bias.to(x)

    def site_modules(self) -> Mapping[str, nn.Module]:
        return {name: self.learned_site(name).module for name in self.shape.sites}

    # -- what the parts beside this file use

    def learned_site(self, site: str) -> LearnedSite:
        """Return what was learned about a site, or about its first call if this call was never seen before."""
        found = self.learned.get(site) or self.learned.get(site.partition("@")[0])
        if found is None or found.why:
            reason = found.why if found else f"there are {', '.join(self.shape.sites)}"
            raise ModelError(f"{site}: not a site that is observed: {reason}")
        return found

    def outputs(self, observer: SiteObserver | None, on_matrix: Callable[[MatrixUse], Tensor | None] | None) -> Tensor:
        """Run the probe with a fixed seed, and return the module's output."""
        recording = Recording(id(self))

        def run() -> Tensor:
            with self._observed(recording, observer, on_matrix):
                return logits_of(self._call(self.probe))

        return seeded(run)

    def own_output(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The output of the module itself, not observed."""
        return logits_of(self._call(inputs))

    def refuse_other_output(self, inputs: Mapping[str, Tensor], logits: Tensor) -> None:
        """Compare with the module's own output, once per shape; not for long inputs, whose pass may need T² memory."""
        shape = tuple((name, value.shape) for name, value in inputs.items() if isinstance(value, Tensor))
        longest = max((size for _, sizes in shape for size in sizes), default=0)
        if self.draws or shape in self._compared or longest > MOST_COMPARED:
            return
        own = seeded(lambda: self.own_output(inputs))
        gap = relative_difference(logits, own) if own.shape == logits.shape else float("inf")
        if not gap <= own_tolerance(own.dtype):
            raise ModelError(
                f"{self.name}: at inputs of this shape, the output of the observed pass is not the module's own "
                f"(difference {gap:.1e}); load it with inputs like these"
            )
        self._compared.add(shape)

    def run_function(self, function: Callable[..., Any], observer: SiteObserver | None) -> None:
        """Run a function that calls the module any number of times, and drop what it returns."""
        with torch.no_grad(), self._own_buffers(), self._observed(Recording(id(self)), observer):
            self.arguments.call(self.model, FunctionInputs(function))

    def find_new_sites(self, inputs: Mapping[str, Tensor]) -> None:
        """See ``OpenModel.find_new_sites``."""
        if set(inputs) <= self._traced_inputs:
            return
        known, probe, own = self.learned, self.probe, self.arguments
        self.arguments = replace(own, tensors=dict(inputs))
        try:
            with self.explained_errors(inputs):
                output = self._choose_probe()
                found = self._learn()
            self.learned = {site.name: site for site in map(self._named, found.values()) if site.name not in known}
            check_sites(self, output)
            known |= self.learned
            self._traced_inputs |= set(inputs)
        finally:
            self.learned, self.probe, self.arguments = known, probe, own
        self.notes = notes_on(self)

    # -- OpenModel

    def _call(self, inputs: Mapping[str, Tensor], arguments: Arguments | None = None) -> Any:
        device = next((weight.device for weight in self.model.parameters()), torch.device("cpu"))
        if type(inputs) is dict:
            inputs = {name: value.to(device) for name, value in inputs.items()}
        with self._own_buffers():
            return (arguments or self.arguments).call(self.model, inputs)

    @contextmanager
    def _own_buffers(self) -> Iterator[None]:
        """Give the pass copies of the buffers that it writes (at first, of all): the module's own stay as they are."""
        every = () if self._written == set() else (part._buffers for part in self.model.modules())
        held = [
            (buffers, name, own, own.clone())
            for buffers in every
            for name, own in buffers.items()
            if own is not None and (self._written is None or (id(buffers), name) in self._written)
        ]
        for buffers, name, _, copied in held:
            buffers[name] = copied
        try:
            yield
        finally:
            written = {(id(b), name) for b, name, _, copied in held if b[name] is not copied or copied._version}
            for buffers, name, own, _ in held:
                buffers[name] = own
            self._written = written if self._written is None else self._written

    @contextmanager
    def _observed(
        self, recording: Recording, observer: SiteObserver | None, on_matrix: OnMatrix | None = None
    ) -> Iterator[None]:
        self._refuse_changed()

        def visit(found: FoundCall) -> Tensor:
            learned = self.learned.get(found.site) or self.learned.get(found.site.partition("@")[0])
            recorder = current_recorder.get()
            recorded = recorder is not None and recorder.model is self
            if learned is None or learned.why or not (observer is not None or recorded):
                return found.own()
            call = as_call(found, learned)
            self._add_site(found.site, call)
            if recorder is not None and recorded:
                z = recorder.observe(found.site, call, observer)
            else:
                z = plain(call) if observer is None else observer(found.site, call)
            recording.check.z.add(found.site, z)
            assert learned.layout is not None
            return learned.layout.from_heads(z.to(found.v.dtype), found.lead)

        if on_matrix is None and current_recorder.get() is not None:
            on_matrix = self._record_matrix
        with setting(current_recording, recording), self._passing(visit, on_matrix):
            yield

    def _record_matrix(self, use: MatrixUse) -> Tensor | None:
        """Tell the recorder of the stream which sites' W_O this is."""
        recorder = current_recorder.get()
        waiting = recorder.waiting if recorder is not None and recorder.model is self else {}
        matrix = as_matrix(use) if waiting else None
        mine = [] if matrix is None else [
            site
            for site in waiting
            if all(each.parameter is matrix.parameter for each in self.learned_site(site).takes)
        ]  # fmt: skip
        if recorder is None or matrix is None or not mine:
            return None
        output, x = matrix.with_input(matrix.x), matrix.channels_last(matrix.x)
        read = {site: x[..., self._take(site).order] for site in mine}
        whole = matrix.axis == -1 and read[mine[-1]].shape == x.shape
        recorder.note_heads(read, output if whole else None)
        return output

    # -- passes

    @contextmanager
    def _passing(self, visit: Visit, on_matrix: OnMatrix | None, *, cut: bool = False) -> Iterator[AttentionMode]:
        mode = AttentionMode(self._parts, visit, on_matrix, cut=cut, names={} if cut else self._names)
        with setting(_pass, _Pass(id(self), mode)), self._uncompiled.running(), mode:
            yield mode

    def _enter(self, module: nn.Module) -> None:
        current = _pass.get()
        if current is not None and current.owner == id(self):
            if module is self.model and not current.mode.stack:
                current.mode.start()
            current.mode.stack.append(module)

    def _leave(self, module: nn.Module) -> None:
        current = _pass.get()
        if current is not None and current.owner == id(self) and module in current.mode.stack:
            while current.mode.stack.pop() is not module:
                pass

    # -- finding the structure

    def _find_structure(self) -> None:
        """Learn the sites, check them, and describe what is left."""
        own = self._choose_probe()
        self.mixes_items = items_mixed(self, own)
        self.learned = self._learn()
        if not self.learned:
            raise ModelError(refusal(self.name, self.learned))
        self._names = names_of_layers({name.partition("@")[0] for name, site in self.learned.items() if not site.why})
        self.learned = {site.name: site for site in map(self._named, self.learned.values())}
        self.shape = ModelShape(self.name, 0, None, self.processor.context, paths=self._names)
        found = check_sites(self, own)
        if all(site.why for site in self.learned.values()):
            raise ModelError(refusal(self.name, self.learned))
        describe(self)
        self.notes = notes_on(self)
        self.self_check = SelfCheck(self.name, found.checks(self.learned), tuple(self.notes))
        self.self_check.refuse_failed()

    def _learn(self) -> dict[str, LearnedSite]:
        def run() -> Any:
            with fixed_seed():
                return self._call(self.probe)

        def passing(visit: Visit, on_matrix: OnMatrix) -> AbstractContextManager[AttentionMode]:
            return self._passing(visit, on_matrix, cut=True)

        learned = Learning()
        try:
            learned.run(run, passing, [value for value in self.probe.values() if isinstance(value, Tensor)])
        except CheckpointError as error:
            raise ModelError(
                f"{self.name}: torch.utils.checkpoint computes its layers again for gradients, where they cannot be "
                "observed; switch it off in the module"
            ) from error
        find_gated(self.model, learned, read_hints(self.hints.sites, learned.sites))
        self._watched.add(site.module for site in learned.sites.values())
        self.unsoftened |= learned.unsoftened
        return learned.sites

    def _named(self, site: LearnedSite) -> LearnedSite:
        path, at, times = site.name.partition("@")
        return replace(site, name=self._names.get(path, path) + at + times)

    def _choose_probe(self) -> Tensor:
        """The module's own output; on a batch of two where it takes one, since batch and heads may share an axis."""
        self.probe = self.arguments.named()
        with without_fast_path(self.model), self.explained_errors(self.probe):
            own = seeded(lambda: logits_of(self._call(self.probe)))
            other = seeded(lambda: logits_of(self._call(self.probe)), seed=1)
        self.draws = other.shape != own.shape or not relative_difference(other, own) <= own_tolerance(own.dtype)
        twice = doubled(self.arguments)
        if twice is None or len(own) != 1:
            return own
        try:
            with without_fast_path(self.model):
                both = seeded(lambda: logits_of(self._call(twice.named(), twice)))
        except Exception:  # a module that takes one item at a time may fail in any way
            return own
        if both.shape != (2, *own.shape[1:]) or not relative_difference(both[:1], own) <= 1e-3:
            return own
        self.probe = twice.named()
        return both

    def _take(self, site: str) -> MatrixTake:
        self._check_site(site)
        takes = self.learned_site(site).takes
        if len({id(take.parameter) for take in takes}) != 1:
            raise ModelError(f"{site}: its positions go through {len(takes)} output matrices, so W_O is not one matrix")
        return takes[0]
