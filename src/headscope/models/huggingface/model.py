"""Open a transformers model of any family that calls the attention interface."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.models.huggingface.attention import install, uninstall
from headscope.models.inputs import prepare
from headscope.models.inputs.dummy_inputs import probe_inputs
from headscope.models.inputs.tokens import InputProcessor
from headscope.models.modes import device_of
from headscope.models.protocol import OutputWeight, Prepared
from headscope.models.recording import OpenModel, Recording
from headscope.models.selfcheck import own_logits, run_self_check
from headscope.models.structure import sites
from headscope.models.structure.readers import probed
from headscope.models.structure.recorder import RecordedStream, record_stream
from headscope.models.structure.trace import TracedPass, trace
from headscope.models.structure.unembedding import find_unembedding
from headscope.models.structure.weights import OutputPath, find_output_paths, find_post_norms, weight_by_head
from headscope.names import ModelShape


class HuggingFaceModel(OpenModel):
    """See ``OpenModel``. ``probe`` are inputs for the first, traced pass, where headscope cannot guess them."""

    def __init__(
        self, model: nn.Module, processor: InputProcessor, name: str, probe: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(model, processor)
        self._paths = {id(module): path for path, module in model.named_modules()}
        self.arguments = {key: value for key, value in _ARGUMENTS.items() if key in self.takes}
        self._names: dict[str, str] = {}  # of sites, by module path
        self._site_paths: dict[str, str] = {}
        self._output_paths: dict[str, OutputPath] = {}
        self._post_norms: dict[str, nn.Module] = {}
        install(model)
        with self.closed_on_error():
            self._find_structure(name, probe_inputs(model) if probe is None else [probe])

    def prepare(self, text: Any) -> Prepared:
        return prepare.prepare(self, text)

    def output_weight(self, site: str) -> OutputWeight:
        found = weight_by_head(self.model, self.output_path(site), self.shape.sites[site].n_heads, site)
        return replace(found, post_norm=self._post_norms.get(site.partition("@")[0]))

    def output_matrix(self, site: str) -> nn.Module:
        return self.model.get_submodule(str(self.output_path(site).matrix))

    def site_modules(self) -> Mapping[str, nn.Module]:
        return {name: self.model.get_submodule(path) for name, path in self._site_paths.items()}

    def module_path(self, site: str) -> str:
        """The path of a site's attention module in the model."""
        self._check_site(site)
        return self._site_paths[site]

    def output_path(self, site: str) -> OutputPath:
        """Where a site's z goes; raise an error with the reason if no single W_O takes it."""
        self._check_site(site)
        path = self._output_paths.get(site) or self._output_paths.get(site.partition("@")[0])
        if path is None or path.matrix is None:
            raise ModelError(
                f"{site}: its heads cannot be split through W_O: {path.why if path else 'it was not traced'}"
            )
        return path

    def find_new_sites(self, inputs: Mapping[str, Tensor]) -> None:
        """See ``OpenModel.find_new_sites``: trace again on them."""
        if set(inputs) <= self._traced_inputs:
            return
        moved = self._on_device(inputs)
        with self.explained_errors(inputs):
            traced = trace(self.model, moved, **self.arguments)
        self._add_traced(moved, traced)
        self._note(moved, traced, record_stream(self, moved))
        self._traced_inputs |= set(inputs)

    def close(self) -> None:
        """See ``OpenModel.close``."""
        if not self._closed:
            super().close()
            uninstall(self.model)

    def _find_structure(self, name: str, probes: Sequence[Mapping[str, Tensor]]) -> None:
        """Trace the model to find its sites, output weights and unembedding; then check itself."""
        self.probe, traced = self._first_that_runs(name, probes)
        self._traced_inputs = {"input_ids", "attention_mask", *self.probe}
        if not traced.calls:
            raise sites.NoInterfaceError(sites.not_reached(self.model, name, traced), self.probe)
        trained = getattr(self.model.config, "trained_context", None)
        vocabulary = self.processor.vocabulary if sites.predicts_tokens(traced.output) else None
        self.shape = ModelShape(name, sites.width_of(self.model), vocabulary, self.processor.context, trained=trained)

        def start_pass(*_: Any) -> None:
            recording = self._current()
            if recording is not None:
                recording.calls.clear()

        self._hooks.append(self.model.register_forward_pre_hook(start_pass))
        self._add_traced(self.probe, traced)
        self._set_unembedding(find_unembedding(self))
        self._note(self.probe, traced, probed(self))
        self.self_check = run_self_check(self, self.probe, own_logits(self.model, self.probe, self.arguments))

    def _add_traced(self, inputs: Mapping[str, Tensor], traced: TracedPass) -> None:
        """Add the sites that this pass reached and no earlier one did. Names given before stay."""
        found = sites.find_sites(self.model, traced, inputs, self._names)
        outputs = zip(found.sites, find_output_paths(traced), strict=True)
        new = {site: path for site, path in outputs if site not in self._output_paths}
        self._names, self._site_paths = {**found.names, **self._names}, {**found.paths, **self._site_paths}
        self._output_paths.update(new)
        watched = [*found.paths.values(), *(path.matrix for path in new.values() if path.matrix is not None)]
        self._watched.add(map(self.model.get_submodule, watched))
        self.shape = replace(self.shape, sites={**found.sites, **self.shape.sites})

    def _note(self, inputs: Mapping[str, Tensor], traced: TracedPass, stream: RecordedStream) -> None:
        """Find the norms after W_O, and say what a user should know."""
        self._post_norms = {**find_post_norms(self.model, stream.ends()), **self._post_norms}
        given = (self._output_paths, self._site_paths, self._post_norms)
        self.notes = sites.notes_on(self.model, traced, inputs, *given)

    def _first_that_runs(
        self, name: str, probes: Sequence[Mapping[str, Tensor]]
    ) -> tuple[Mapping[str, Tensor], TracedPass]:
        """Trace the first inputs that the model accepts: families fail on wrong guesses with errors of any kind."""
        first: Exception | None = None
        for probe in probes:
            try:
                return probe, trace(self.model, probe, **self.arguments)
            except HeadscopeError:
                raise
            except Exception as error:
                first = first or error
        tried = " or ".join("+".join(probe) for probe in probes)
        raise ModelError(
            f"{name} did not run on the inputs that headscope guessed ({tried}): {type(first).__name__}: {first}; "
            "pass probe={…}, tensors by name that it does run on"
        ) from first

    def _site_of(self, recording: Recording, call: Call) -> str | None:
        path = self._paths.get(id(call.site))
        if path is None:
            return None
        recording.calls[id(call.site)] += 1
        if path not in self._names:
            self._names.update(sites.names_of(self.model, [path], {}, self._names))
        times = recording.calls[id(call.site)]
        name = self._names[path] if times == 1 else f"{self._names[path]}@{times}"
        self._site_paths.setdefault(name, path)
        self._add_site(name, call)
        return name

    def _call(self, inputs: Mapping[str, Tensor]) -> Any:
        moved = self._on_device(inputs)
        try:
            return self.model(**{**self.arguments, **moved})
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or re.search("allocate memory|not enough memory", str(error)):
                device = next(iter(moved.values())).device
                raise InputError(
                    f"out of memory on {device} for {_shapes(moved)}; give a shorter text, dtype=torch.bfloat16, or "
                    "another device"
                ) from error
            raise

    def _on_device(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        device = device_of(self.model)
        return {key: value.to(device) for key, value in inputs.items()}


_ARGUMENTS: dict[str, Any] = {"use_cache": False, "return_dict": True}


def _shapes(inputs: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{key} {tuple(value.shape)}" for key, value in inputs.items())
