"""A transformers model under the microscope: the OpenModel of every family that calls the attention interface."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.observer import Call, observing, plain
from headscope.errors import HeadNameError, HeadscopeError, InputError, ModelError
from headscope.models.huggingface.attention import AttentionCall, install, uninstall
from headscope.models.inputs import media, prepare
from headscope.models.inputs.dummy_inputs import device_of, probe_inputs
from headscope.models.inputs.tokens import Reader, Reading
from headscope.models.protocol import OutputWeight, Pass, Prepared, SiteObserver, SiteOutput, Unembedding, one_row
from headscope.models.selfcheck import Report, check, own_answer
from headscope.models.structure import projections, sites
from headscope.models.structure.output_weight import OutputPath, follow, rows_by_head, weight_by_head
from headscope.models.structure.residual import Scales, found_scale, stream_scales
from headscope.models.structure.trace import Trace, trace, tracing
from headscope.models.structure.unembedding import Ending, find_ending, unembedding
from headscope.names import ModelShape


def open_model(source: Any, tokenizer: Any = None, **options: Any) -> Any:
    """A hub name, a local folder, a GGUF file, or a model object, as an OpenModel. See ``loading.Options``."""
    from headscope.models.loading import open_source

    return open_source(source, tokenizer, **options)


@dataclass
class _Run:
    """What one pass is asked to keep, and what it has kept so far. Lives in the context of the thread that runs it."""

    owner: int
    wanted: frozenset[str] = frozenset()
    keep_residual: bool = False
    row: int | None = None
    times: dict[int, int] = field(default_factory=dict)
    arrived: list[tuple[str, Tensor]] = field(default_factory=list)
    outputs: dict[str, SiteOutput] = field(default_factory=dict)
    residual: Tensor | None = None
    latest: str | None = None


_run: ContextVar[_Run | None] = ContextVar("headscope_run", default=None)


class HuggingFaceModel(Reading):
    """See ``OpenModel``. ``probe`` are inputs for the first, traced pass, where headscope cannot guess them."""

    def __init__(self, model: nn.Module, reader: Reader, name: str, probe: Mapping[str, Tensor] | None = None) -> None:
        self._model, self.reader = model, reader
        self.notes: Sequence[str] = ()
        self.end_tokens = _end_tokens(model, reader.tokenizer)
        self.report: Report | None = None
        self._paths = {id(module): path for path, module in model.named_modules()}
        # model.compile() leaves compiled calls on the modules; they are set aside while the scope is open.
        self._compiled = [(m, m._compiled_call_impl) for m in model.modules() if m._compiled_call_impl is not None]
        self._training = [module for module in model.modules() if module.training]
        self._hooks: list[Any] = []
        self.takes = frozenset(inspect.signature(model.forward).parameters)
        self.quiet = {key: value for key, value in _QUIET.items() if key in self.takes}
        self._closed = False
        self._scales: Scales | None = None
        model.eval()
        for module, _ in self._compiled:
            module._compiled_call_impl = None
        install(model)
        try:
            self._discover(name, probe_inputs(model) if probe is None else [probe])
        except BaseException:
            self.close()
            raise

    @property
    def model(self) -> nn.Module:
        return self._model

    def prepare(self, text: Any) -> Prepared:
        return prepare.prepare(self, text)

    def run(
        self,
        inputs: Mapping[str, Tensor],
        observer: SiteObserver | None = None,
        *,
        outputs: Sequence[str] = (),
        residual: bool = False,
        row: int | None = None,
    ) -> Pass:
        """One forward pass. Gradients flow where the caller lets them."""
        for site in outputs:
            self.output_path_of(site)
        run = _Run(id(self), frozenset(outputs), residual, row)
        with self._active(run, observer):
            answer = self._call(inputs)
        missing = [site for site in outputs if site not in run.outputs]
        if missing:
            raise ModelError(f"{', '.join(missing)}: not reached by these inputs, so its W_O was not seen at work")
        return Pass(sites.logits_of(answer), run.outputs, run.residual)

    @contextmanager
    def observing(self, observer: SiteObserver) -> Iterator[None]:
        with self._active(_Run(id(self)), observer):
            yield

    def output_weight(self, site: str) -> OutputWeight:
        return weight_by_head(self._model, self.output_path_of(site), self.shape.sites[site].n_heads, site)

    def written(self, site: str, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput | None:
        how = self.output_path_of(site)
        return SiteOutput.of(self._model.get_submodule(str(how.matrix)), z) if how.direct else None

    def query_weight(self, site: str) -> Float[Tensor, "head d_model d_head"]:
        return self._projection(site, "q")

    def key_weight(self, site: str) -> Float[Tensor, "kv d_model d_head"]:
        return self._projection(site, "k")

    def value_weight(self, site: str) -> Float[Tensor, "kv d_model d_value"]:
        return self._projection(site, "v")

    def embedding(self) -> Float[Tensor, "vocabulary d_model"]:
        weight = getattr(sites.input_table(self._model), "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim != 2:
            raise ModelError(f"{self.shape.name} has no table of token embeddings")
        return weight

    def unembedding(self) -> Unembedding:
        return unembedding(self._ending, self.shape.name)

    def stream_scale(self, site: str) -> float:
        if self._scales is None or site not in self._scales:
            ways = {name: how.after or how.matrix for name, how in self._follows.items()}
            writers = {name: self._model.get_submodule(path) for name, path in ways.items() if path is not None}
            self._scales = stream_scales(
                self._model, lambda x: self.run(x, residual=True).residual, writers, self.probe
            )
        return found_scale(self._scales, site)

    def site_modules(self) -> Mapping[str, nn.Module]:
        return {name: self._model.get_submodule(path) for name, path in self._sites.items()}

    def close(self) -> None:
        """Leave the model as it was found. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        for hook in self._hooks:
            hook.remove()
        uninstall(self._model)
        for module in self._training:
            module.training = True
        for module, compiled in self._compiled:
            module._compiled_call_impl = compiled

    def _discover(self, name: str, probes: Sequence[Mapping[str, Tensor]]) -> None:
        """The traced pass: sites, their output weights, the ending; then the self-check."""
        probe, seen = self._first_that_runs(name, probes)
        self.probe = probe
        self._kinds = {"input_ids", "attention_mask", *probe}
        if not seen.visits:
            raise ModelError(sites.not_reached(self._model, name, seen))
        self._names: dict[str, str] = {}
        self._sites: dict[str, str] = {}
        self._follows: dict[str, OutputPath] = {}
        trained = getattr(self._model.config, "trained_context", None)
        vocabulary = self.reader.vocabulary if sites.predicts_tokens(seen.output) else None
        width, context = sites.width_of(self._model), self.reader.context
        self.shape = ModelShape(name, width, vocabulary, context, trained=trained)
        self._ending: Ending = find_ending(self._model, seen, sites.logits_of(seen.output))
        if self._ending.reader is not None:
            self._hooks.append(self._ending.reader.register_forward_pre_hook(self._keep_residual))
        self._hooks.append(self._model.register_forward_pre_hook(self._begin))
        self._learn(probe, seen)
        self.report = check(self, probe, own_answer(self._model, probe, self.quiet))

    def _learn(self, inputs: Mapping[str, Tensor], seen: Trace) -> None:
        """Sites that this pass reached and no earlier one did. Names given before stay."""
        found = sites.describe(self._model, seen, inputs, self._names)
        follows = zip(found.order, follow(self._model, seen, inputs, self.quiet), strict=True)
        new = {site: how for site, how in follows if site not in self._follows}
        for path in {how.matrix for how in new.values()} - {how.matrix for how in self._follows.values()} - {None}:
            matrix = self._model.get_submodule(str(path))
            self._hooks.append(matrix.register_forward_hook(self._keep_output(str(path))))
        self._names, self._sites = {**found.names, **self._names}, {**found.paths, **self._sites}
        self._follows.update(new)
        self.shape = replace(self.shape, sites={**found.sites, **self.shape.sites})
        self.notes = sites.notes_on(self._model, seen, inputs, self._follows, self._sites)

    def _first_that_runs(self, name: str, probes: Sequence[Mapping[str, Tensor]]) -> tuple[Mapping[str, Tensor], Trace]:
        """Guessed inputs may be wrong, and every family fails on wrong ones in its own way: the next guess is tried."""
        first: Exception | None = None
        for probe in probes:
            try:
                return probe, trace(self._model, probe, **self.quiet)
            except HeadscopeError:
                raise
            except Exception as error:
                first = first or error
        tried = " or ".join("+".join(probe) for probe in probes)
        raise ModelError(
            f"{name} did not run on the inputs that headscope guessed ({tried}): {type(first).__name__}: {first}; "
            "pass probe={…}, tensors by name that it does run on"
        ) from first

    def _mine(self) -> _Run | None:
        run = _run.get()
        return run if run is not None and run.owner == id(self) else None

    def _begin(self, module: nn.Module, args: Any) -> None:
        run = self._mine()
        if run is not None:
            run.times.clear()

    def _keep_residual(self, module: nn.Module, args: Any) -> None:
        run = self._mine()
        if run is not None and run.keep_residual and args:
            run.residual = one_row(args[0], run.row)

    def _keep_output(self, path: str) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            run = self._mine()
            if run is None or not run.arrived:
                return
            x = args[0]
            here = [(site, z) for site, z in run.arrived if self._follows[site.partition("@")[0]].matrix == path]
            same = [(site, z) for site, z in here if z.data_ptr() == x.data_ptr() and z.numel() == x.numel()]
            for site, z in same or here:
                how = self._follows[site.partition("@")[0]]
                heads = z.shape[2]
                rows = rows_by_head(x, z, how.layout)
                split = rows.reshape(*rows.shape[:2], heads, -1)
                made = rows_by_head(output, z, how.layout)
                run.outputs[site] = SiteOutput(one_row(split, run.row), one_row(made, run.row))
            run.arrived = [pair for pair in run.arrived if pair not in (same or here)]

        return keep

    @contextmanager
    def _active(self, run: _Run, observer: SiteObserver | None) -> Iterator[None]:
        if self._closed:
            raise ModelError(f"{self.shape.name}: this scope is closed; load the model again")

        def see(call: Call) -> Tensor:
            name = self._site_of(run, call)
            run.latest = name
            return plain(call) if observer is None or name is None else observer(name, call)

        def arrive(arrival: AttentionCall) -> Tensor:
            if run.latest in run.wanted:
                run.arrived.append((str(run.latest), arrival.z))
            return arrival.z

        token = _run.set(run)
        try:
            with observing(see), tracing(arrive if run.wanted else None):
                yield
        finally:
            _run.reset(token)

    def _site_of(self, run: _Run, call: Call) -> str | None:
        """The name of the site that calls, learning it if the traced pass never came by; None if it is not ours."""
        path = self._paths.get(id(call.site))
        if path is None:
            return None
        count = run.times[id(call.site)] = run.times.get(id(call.site), 0) + 1
        base = self._names.get(path)
        if base is None:
            base = self._names[path] = sites.names_of(self._model, [path], {}, self._names)[path]
        name = base if count == 1 else f"{base}@{count}"
        if name not in self.shape.sites:
            self._sites[name] = path
            site = sites.site_from_call(name, call, None)
            self.shape = replace(self.shape, sites={**self.shape.sites, name: site})
        return name

    def _call(self, inputs: Mapping[str, Tensor]) -> Any:
        moved = self._moved(inputs)
        try:
            return self._model(**moved, **{key: value for key, value in self.quiet.items() if key not in moved})
        except torch.OutOfMemoryError as error:
            raise InputError(_too_big(moved)) from error
        except RuntimeError as error:
            if "allocate memory" in str(error) or "not enough memory" in str(error):
                raise InputError(_too_big(moved)) from error
            raise

    def _moved(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        device = device_of(self._model)
        return {key: value.to(device) for key, value in inputs.items()}

    def look_for_new_sites(self, inputs: Mapping[str, Tensor]) -> None:
        """Inputs of a kind the model was not opened with may reach other parts of it: a picture, a vision tower."""
        if set(inputs) <= self._kinds:
            return
        moved = self._moved(inputs)
        with self.saying_what_does_not_run(inputs):
            seen = trace(self._model, moved, **self.quiet)
        self._learn(moved, seen)
        self._kinds |= set(inputs)

    @contextmanager
    def saying_what_does_not_run(self, inputs: Mapping[str, Tensor]) -> Iterator[None]:
        """Every family fails on inputs it cannot read in its own way; a person is told which inputs those were."""
        try:
            yield
        except HeadscopeError:
            raise
        except Exception as error:
            names = ", ".join(f"{key} {tuple(value.shape)}" for key, value in inputs.items())
            both = media.PIXELS in inputs and "input_ids" in self.takes and "input_ids" not in inputs
            hint = "; it may need a text beside the picture: look((picture, text))" if both else ""
            raise InputError(f"this model does not run on {names}: {type(error).__name__}: {error}{hint}") from error

    def path_of(self, site: str) -> str:
        """Where the attention module of a site stands in the model."""
        if site not in self.shape.sites:
            raise HeadNameError(f"{site}: this model has the sites {', '.join(self.shape.sites)}")
        return self._sites[site]

    def feeding(self, site: str) -> dict[projections.Which, tuple[str, list[Tensor]]]:
        """Which matrices make q, k and v, and which of their outputs belong to each head."""
        return projections.feeding(self._model, self.path_of(site), lambda: self._call(self.probe), site)

    def output_path_of(self, site: str) -> OutputPath:
        self.path_of(site)
        how = self._follows.get(site) or self._follows.get(site.partition("@")[0])
        if how is None or how.matrix is None:
            raise ModelError(
                f"{site}: its heads cannot be split through W_O: {how.why if how else 'it was not traced'}"
            )
        return how

    def _projection(self, site: str, which: projections.Which) -> Tensor:
        return projections.weight(self._model, self.path_of(site), which, lambda: self._call(self.probe), site)


_QUIET: dict[str, Any] = {"use_cache": False, "return_dict": True}


def _end_tokens(model: nn.Module, tokenizer: Any) -> frozenset[int]:
    generation = getattr(model, "generation_config", None)
    ends = [getattr(generation, "eos_token_id", None), getattr(tokenizer, "eos_token_id", None)]
    single = [token for end in ends for token in (end if isinstance(end, list) else [end])]
    return frozenset(token for token in single if token is not None)


def _too_big(inputs: Mapping[str, Tensor]) -> str:
    sizes = ", ".join(f"{key} {tuple(value.shape)}" for key, value in inputs.items())
    device = next(iter(inputs.values())).device
    return f"out of memory on {device} for {sizes}; give a shorter text, dtype=torch.bfloat16, or another device"
