"""Run forward passes whose attention calls are observed, and keep the end of the residual stream."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.observer import Call, observing, plain
from headscope.attention.progress import pause_point, setting
from headscope.errors import HeadNameError, HeadscopeError, InputError, ModelError
from headscope.models.any_torch.compiled import Uncompiled
from headscope.models.finite import PassCheck, finish, refuse_non_finite_weights
from headscope.models.inputs.media import KEYS, PIXELS, input_kinds
from headscope.models.inputs.tokens import InputProcessor
from headscope.models.modes import (
    WatchedModules,
    ordinary,
    own_precision,
    refuse_inference_weights,
    refuse_training_mode,
)
from headscope.models.protocol import ForwardPass, OutputWeight, Prepared, SiteObserver, Unembedding
from headscope.models.selfcheck import SelfCheck
from headscope.models.structure.projections import Which, find_projection
from headscope.models.structure.recorder import current_recorder
from headscope.models.structure.sites import input_embedding, logits_of, site_from_call
from headscope.models.structure.unembedding import UnembeddingPath
from headscope.names import ModelShape


@dataclass
class Recording:
    """What one forward pass is asked to keep, and what it has kept. Belongs to the thread that runs the pass."""

    owner: int
    keep_residual: bool = False
    residual: Tensor | None = None
    calls: Counter[int] = field(default_factory=Counter)
    """How many times each attention module has been called."""
    check: PassCheck = field(default_factory=lambda: PassCheck("the model"))


current_recording: ContextVar[Recording | None] = ContextVar("headscope_recording", default=None)


class OpenModel:
    """A model whose attention calls can be observed and edited: what does not depend on how it calls attention."""

    shape: ModelShape
    probe: Mapping[str, Tensor]
    """The inputs that it was opened with."""
    notes: Sequence[str] = ()
    """Warnings for the user: parts that are not observed, how weights were loaded, and so on."""
    self_check: SelfCheck | None = None

    def __init__(self, model: nn.Module, processor: InputProcessor) -> None:
        self.model, self.processor = model, processor
        self.end_tokens = _end_tokens(model, processor.tokenizer)
        self.takes = frozenset(inspect.signature(model.forward).parameters)
        """The names of its arguments."""
        self._training = [module for module in model.modules() if module.training]
        self._hooks: list[Any] = []
        self._watched = WatchedModules(model)
        refuse_inference_weights(model)
        refuse_non_finite_weights(model)
        model.eval()
        self._always_training = frozenset(id(module) for module in model.modules() if module.training)
        self._uncompiled = Uncompiled(model)
        self._closed = False
        self._unembedding = UnembeddingPath(None, None, why_not="it predicts no tokens")
        self._end: nn.Module | None = None

    def run(
        self, inputs: Mapping[str, Tensor], observer: SiteObserver | None = None, *, residual: bool = False
    ) -> ForwardPass:
        """Run one forward pass, keeping the end of the residual stream if asked to. Gradients flow where allowed."""
        recording = Recording(id(self), residual, check=PassCheck(self.shape.name))
        with own_precision(), self._observed(recording, observer):
            refuse_training_mode(self.model, self.shape.name, self._always_training)
            output = self._call(ordinary(inputs))
        logits = logits_of(output)
        recording.check.see_logits(logits)
        finish(recording.check)
        return ForwardPass(logits, recording.residual)

    def refuse_other_output(self, inputs: Mapping[str, Tensor], logits: Tensor) -> None:
        """Compare an observed, unedited output with the model's own; only modules of unknown structure need it."""

    @contextmanager
    def observing(self, observer: SiteObserver) -> Iterator[PassCheck]:
        """Pass every attention call inside the block to the observer, for calls not made by ``run`` (generate).

        The check has seen z of every call; whoever reads the result verifies it.
        """
        refuse_training_mode(self.model, self.shape.name, self._always_training)
        recording = Recording(id(self), check=PassCheck(self.shape.name))
        with own_precision(), self._observed(recording, observer):
            yield recording.check

    @torch.no_grad()
    def apply_output_weight(
        self, site: str, x: Float[Tensor, "batch query head d_value"]
    ) -> Float[Tensor, "batch query d_model"]:
        """Return W_O's output for this input."""
        made: Tensor = self.output_matrix(site)(x.flatten(2))
        return made

    def embedding(self) -> Float[Tensor, "vocabulary d_model"]:
        weight = getattr(input_embedding(self.model), "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim != 2:
            raise ModelError(f"{self.shape.name} has no token embedding")
        return weight

    @cached_property
    def embedding_paths(self) -> frozenset[str]:
        """Modules that hold the token embedding, under any of their paths."""
        table = getattr(input_embedding(self.model), "weight", None)
        if not isinstance(table, Tensor) or table.device.type == "meta":
            return frozenset()
        named = self.model.named_parameters(remove_duplicate=False)
        return frozenset(
            path.removesuffix(".weight")
            for path, weight in named
            if path.endswith(".weight") and weight.device.type != "meta" and weight.data_ptr() == table.data_ptr()
        )

    def unembedding(self) -> Unembedding:
        return self._unembedding.weights(self.shape.name)

    def unembedding_input(self) -> nn.Module | None:
        """The module whose input is the residual stream that predictions are read from; None where none was found."""
        return self._end

    def query_weight(self, site: str) -> Float[Tensor, "head d_model d_head"]:
        """W_Q by head, before any rotation or norm; raise an error if it cannot be found."""
        return self._projection(site, "q")

    def key_weight(self, site: str) -> Float[Tensor, "kv d_model d_head"]:
        return self._projection(site, "k")

    def value_weight(self, site: str) -> Float[Tensor, "kv d_model d_value"]:
        return self._projection(site, "v")

    def _projection(self, site: str, which: Which) -> Tensor:
        self._check_site(site)
        return find_projection(self, site, which).by_head()

    def close(self) -> None:
        """Restore the model to the state it was opened in. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._uncompiled.restore()
        for hook in self._hooks:
            hook.remove()
        for module in self._training:
            module.training = True

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Leave the model as it was where opening it fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextmanager
    def explained_errors(self, inputs: Mapping[str, Tensor]) -> Iterator[None]:
        """Name the inputs in any error that the model raises."""
        try:
            yield
        except HeadscopeError:
            raise
        except Exception as error:
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in inputs.items())
            raise InputError(
                f"this model does not run on {shapes}: {type(error).__name__}: {error}{self._missing_input(inputs)}"
            ) from error

    def _missing_input(self, inputs: Mapping[str, Tensor]) -> str:
        """What the model may need beside these inputs, as the end of a sentence."""
        if PIXELS in inputs and "input_ids" in self.takes and "input_ids" not in inputs:
            return "; it may need a text with the picture: look((picture, text))"
        if self.takes & KEYS and not KEYS & set(inputs):
            kinds = " or ".join(kind for kind in input_kinds(self.takes) if kind != "text")
            return f"; it may need {kinds} with the text: look((picture, text))"
        return ""

    # -- what depends on how a model calls attention

    def prepare(self, text: Any) -> Prepared:
        """Turn text, token ids, chat messages, an image or sound into tensors; reject anything else."""
        raise NotImplementedError

    def output_weight(self, site: str) -> OutputWeight:
        """W_O of a site by head; raise an error with the reason if no single matrix takes the heads."""
        raise NotImplementedError

    def output_matrix(self, site: str) -> nn.Module:
        """Return the module of W_O; raise the same error as ``output_weight``."""
        raise NotImplementedError

    def site_modules(self) -> Mapping[str, nn.Module]:
        """The attention module of each site."""
        raise NotImplementedError

    def find_new_sites(self, inputs: Mapping[str, Tensor]) -> None:
        """Find the sites that only these inputs reach: a picture may reach a vision tower."""

    def _call(self, inputs: Mapping[str, Tensor]) -> Any:
        raise NotImplementedError

    def _site_of(self, recording: Recording, call: Call) -> str | None:
        """The name of the site that makes this call; None for a module of another model."""
        raise NotImplementedError

    def _check_site(self, site: str) -> None:
        if site not in self.shape.sites:
            raise HeadNameError(f"{site}: this model has the sites {', '.join(self.shape.sites)}")

    def _add_site(self, name: str, call: Call) -> None:
        """Describe a site that no call reached before."""
        if name not in self.shape.sites:
            site = site_from_call(name, call, None)
            self.shape = replace(self.shape, sites={**self.shape.sites, name: site})

    def _set_unembedding(self, path: UnembeddingPath) -> None:
        self._unembedding, self._end = path, path.first
        self._watched.add((path.norm, path.matrix))

        def record_residual(_: nn.Module, args: Any) -> None:  # no method: a copy of the model would copy what it is of
            recording = self._current()
            if recording is not None and args and recording.keep_residual:
                recording.residual = args[0]

        if self._end is not None:
            self._hooks.append(self._end.register_forward_pre_hook(record_residual))

    def _current(self) -> Recording | None:
        recording = current_recording.get()
        return recording if recording is not None and recording.owner == id(self) else None

    @contextmanager
    def _observed(self, recording: Recording, observer: SiteObserver | None) -> Iterator[None]:
        self._refuse_changed()

        def observe(call: Call) -> Tensor:
            site = self._site_of(recording, call)
            if site is None:
                self._watched.refuse_unknown(call.site)
                return plain(call)
            pause_point()
            recorder = current_recorder.get()
            if recorder is not None and recorder.model is self:
                z = recorder.observe(site, call, observer)
            else:
                z = plain(call) if observer is None else observer(site, call)
            recording.check.z.add(site, z)
            return z

        with setting(current_recording, recording), observing(observe):
            yield

    def _refuse_changed(self) -> None:
        """Refuse to run a model that was closed, or of which a part was replaced."""
        if self._closed:
            raise ModelError(f"{self.shape.name}: this scope is closed; load the model again")
        self._watched.refuse_replaced()


def note_logsumexp(site: str, logsumexp: Float[Tensor, "batch head query"]) -> None:
    """Let the current pass check how large the scores of a site are, from those of its rows that attend to a key."""
    recording = current_recording.get()
    if recording is not None and logsumexp.numel():
        recording.check.dtype = logsumexp.dtype
        recording.check.logsumexp.add(site, logsumexp.masked_fill(logsumexp.isneginf(), 0.0))


def _end_tokens(model: nn.Module, tokenizer: Any) -> frozenset[int]:
    generation = getattr(model, "generation_config", None)
    ends = [getattr(generation, "eos_token_id", None), getattr(tokenizer, "eos_token_id", None)]
    single = [token for end in ends for token in (end if isinstance(end, list) else [end])]
    return frozenset(token for token in single if token is not None)
