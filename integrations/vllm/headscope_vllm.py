"""A vLLM plug-in: writes q, k, v and z of chosen layers to one file per request, for the requests that ask.

The operator sets ``HEADSCOPE_CAPTURE`` to a folder; a request asks with ``extra_args={"headscope": "name"}``, which is
``"vllm_xargs": {"headscope": "name"}`` over HTTP. Without both nothing is captured. Attention is read behind vLLM's
opaque custom op, so compilation stays on. Whatever goes wrong here is logged, and serving goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

TRIED = ("0.32.0",)
"""Versions of vLLM that this was tried with; any other is refused by name."""
FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
log = logging.getLogger("vllm.headscope")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the operator allows. Sizes are in bytes; no layers or no dtype: all layers, the model's dtype."""

    folder: Path
    layers: frozenset[int] | None = None
    dtype: torch.dtype | None = None
    per_request: int = 2**30
    in_all: int = 2**33

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Options | None:
        """Return the options in the environment; None where nothing may be captured."""
        if not environ.get("HEADSCOPE_CAPTURE"):
            return None
        given: dict[str, Any] = {"folder": Path(environ["HEADSCOPE_CAPTURE"])}
        if layers := environ.get("HEADSCOPE_CAPTURE_LAYERS"):
            given["layers"] = frozenset(_layers(layers))
        if dtype := environ.get("HEADSCOPE_CAPTURE_DTYPE"):
            if dtype not in DTYPES:
                raise ValueError(f"HEADSCOPE_CAPTURE_DTYPE={dtype!r} is none of {', '.join(DTYPES)}")
            given["dtype"] = DTYPES[dtype]
        for option, name in (("per_request", "HEADSCOPE_CAPTURE_MB"), ("in_all", "HEADSCOPE_CAPTURE_TOTAL_MB")):
            if size := environ.get(name):
                if not re.fullmatch("[0-9]{1,9}", size):
                    raise ValueError(f"{name}={size!r} is not a whole number of megabytes")
                given[option] = int(size) * 10**6
        return cls(**given)


def _layers(given: str) -> Iterable[int]:
    for part in given.split(","):
        found = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if found is None:
            raise ValueError(f"HEADSCOPE_CAPTURE_LAYERS={given!r}: write numbers and ranges, for example 0,4-7")
        yield from range(int(found[1]), int(found[2] or found[1]) + 1)


@dataclass
class _Request:
    """One request that asked: its rows so far, by layer and step."""

    name: str
    n_prompt: int
    size: int = 0
    steps: dict[str, list[tuple[int, Sequence[Tensor]]]] = field(default_factory=dict)


class Capture:
    """Rows of the requests that asked, kept until each request ends and its file is written."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.asked: dict[str, _Request] = {}
        self.written = sum(file.stat().st_size for file in options.folder.glob("*.safetensors"))

    def ask(self, request: str, extra: Mapping[str, Any] | None, n_prompt: int) -> None:
        """Note a request that asks by a name; a name that is taken, or could be a path, is logged and ignored."""
        name = (extra or {}).get("headscope")
        if name is None or request in self.asked:
            return
        names = {asked.name for asked in self.asked.values()}
        if not isinstance(name, str) or not NAME.fullmatch(name):
            log.warning("headscope: %.80r is not captured: a name has 1-64 letters, digits, _ and -", name)
        elif name in names or self._file(name).exists():
            log.warning("headscope: %r is not captured: there is a capture of that name", name)
        else:
            self.asked[request] = _Request(name, n_prompt)

    def keep(self, request: str, layer: str, first: int, rows: Sequence[Tensor]) -> None:
        """Keep a copy of rows of one layer (tensors of tokens first), the first of which is at this position."""
        found = self.asked.get(request)
        if found is None:
            return
        number = layer_number(layer)
        if layer != "ids" and self.options.layers is not None and number not in self.options.layers:
            return
        dtype = self.options.dtype if layer != "ids" else None
        size = sum(each.numel() * (dtype or each.dtype).itemsize for each in rows)
        held = sum(asked.size for asked in self.asked.values())
        for limit, now in ((self.options.per_request, found.size), (self.options.in_all, self.written + held)):
            if now + size > limit:
                self.drop(request, f"it needs more than {limit:,} bytes")
                return
        found.size += size
        copies = [each.detach().to("cpu", dtype or each.dtype, copy=True) for each in rows]
        found.steps.setdefault(layer, []).append((first, copies))

    def drop(self, request: str, why: str) -> None:
        """Let a request's rows go, and log why."""
        found = self.asked.pop(request, None)
        if found is not None:
            log.warning("headscope: %r is not captured: %s", found.name, why)

    def finish(self, request: str, about: Callable[[Iterable[str], Sequence[int]], dict[str, Any]]) -> None:
        """Write the file of a request that has ended, whole or not at all."""
        found = self.asked.get(request)
        if found is None:
            return None
        layers = {layer: _joined(steps) for layer, steps in found.steps.items()}
        positions, (ids,) = layers.pop("ids", (torch.zeros(0), (torch.zeros(0),)))
        if not layers or any(not torch.equal(at, positions) for at, _ in layers.values()):
            return self.drop(request, "its layers have no rows, or other rows than its tokens")
        tensors = {
            f"{layer}.{what}": each
            for layer, (_, four) in layers.items()
            for what, each in zip("qkvz", four, strict=True)
        }
        told = {"format": FORMAT, "request": request, "n_prompt": found.n_prompt, **about(layers, ids.tolist())}
        data = save(tensors | {"ids": ids, "positions": positions}, {"headscope_capture": json.dumps(told)})
        try:
            self._write(self._file(found.name), data)
        except OSError as error:
            return self.drop(request, f"its file cannot be written ({error.strerror or error})")
        self.written += len(data)
        del self.asked[request]
        return None

    def _file(self, name: str) -> Path:
        return self.options.folder / f"{name}.safetensors"

    def _write(self, file: Path, data: bytes) -> None:
        handle, part = tempfile.mkstemp(prefix=f".{file.stem}.", dir=file.parent)
        try:
            with open(handle, "wb") as out:  # noqa: PTH123 - a descriptor
                out.write(data)
            Path(part).replace(file)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise


def _joined(steps: list[tuple[int, Sequence[Tensor]]]) -> tuple[Tensor, list[Tensor]]:
    """The positions of which there are rows, and the last rows that were computed of each."""
    end = max(first + len(rows[0]) for first, rows in steps)
    there = torch.zeros(end, dtype=torch.bool)
    made = [each.new_zeros(end, *each.shape[1:]) for each in steps[0][1]]
    for first, rows in steps:
        there[first : first + len(rows[0])] = True
        for whole, each in zip(made, rows, strict=True):
            whole[first : first + len(each)] = each
    return there.nonzero()[:, 0], [each[there].contiguous() for each in made]


def layer_number(name: str) -> int | None:
    """The number in a layer's path, such as 5 in ``model.layers.5.self_attn.attn``."""
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else None


class _Plugin:
    """What is wrapped around vLLM: it notes which request has which rows of a step, and tells ``Capture``."""

    def __init__(self, capture: Capture, version: str) -> None:
        self.capture, self.version = capture, version
        self.batch: tuple[list[str], Tensor] | None = None  # of the V2 runner: noted when it prepares a step
        self.runner: Any = None
        self.seen: set[str] = set()  # requests whose ids of this step are kept

    def safely(self, do: Callable[[], None]) -> None:
        """Run this; an error is logged and what is captured dropped, and serving goes on."""
        try:
            do()
        except Exception as error:
            for request in list(self.capture.asked):
                self.capture.drop(request, f"{type(error).__name__}: {error}")

    def rows(self, layer: Any, four: Sequence[Tensor], metadata: Any) -> None:
        """Keep the rows of one attention call, of the requests that asked."""
        requests, ids = self.batch or (self.runner.input_batch.req_ids, self.runner.input_ids.gpu)
        for at, request in enumerate(requests):
            if request in self.capture.asked:
                start, stop = metadata.query_start_loc[at : at + 2].tolist()
                first = int(metadata.seq_lens[at]) - (stop - start)
                if request not in self.seen:
                    self.seen.add(request)
                    self.capture.keep(request, "ids", first, [ids[start:stop].long()])
                self.capture.keep(request, layer.layer_name, first, [each[start:stop] for each in four])

    def begin(self, scheduled: Any) -> None:
        """Note the requests that ended, and those that ask."""
        for request in scheduled.finished_req_ids:
            self.capture.finish(request, self.about)
        workers = self.runner.vllm_config.parallel_config.world_size
        for new in scheduled.scheduled_new_reqs:
            extra = new.sampling_params.extra_args if new.sampling_params else None
            self.capture.ask(new.req_id, extra, len(new.prompt_token_ids or ()))
            if workers > 1:  # each has some of the heads or layers
                self.capture.drop(new.req_id, f"the model is split over {workers} workers")

    def about(self, layers: Iterable[str], ids: Sequence[int]) -> dict[str, Any]:
        """What a file says of its model, of how each layer's scores are made, and of the texts of its tokens."""
        from vllm.tokenizers import cached_tokenizer_from_config

        config, context = self.runner.model_config, self.runner.vllm_config.compilation_config.static_forward_context
        scores = {
            name: {
                "layer": layer_number(name),
                "scale": float(context[name].impl.scale),
                "window": context[name].sliding_window,
                "softcap": float(getattr(context[name].impl, "logits_soft_cap", None) or 0),
            }
            for name in layers
        }
        read = None if config.skip_tokenizer_init else cached_tokenizer_from_config(config)
        texts = [f"[{each}]" if read is None else read.decode([each]) for each in ids]
        about = {"model": str(config.model), "vllm": self.version, "d_model": config.get_hidden_size()}
        return {**about, "scores": scores, "texts": texts}

    def watch(self, layer: Any) -> None:
        """Wrap the forward pass of an attention layer's implementation."""
        plain = layer.impl.forward

        @wraps(plain)
        def forward(owner: Any, query: Any, key: Any, value: Any, cache: Any, metadata: Any, output: Any, *more: Any,
                    **named: Any) -> Any:  # fmt: skip
            made = plain(owner, query, key, value, cache, metadata, output, *more, **named)
            if self.capture.asked and metadata is not None:
                z = output.view(query.shape[0], query.shape[1], -1)
                self.safely(lambda: self.rows(owner, (query, key, value, z), metadata))
            return made

        layer.impl.forward = forward

    def wrap_runner(self, kind: Any) -> None:
        """Wrap the steps of a model runner."""
        run, prepare = kind.execute_model, getattr(kind, "prepare_inputs", None)

        @wraps(run)
        def execute_model(runner: Any, scheduled: Any, *args: Any, **named: Any) -> Any:
            self.runner = runner
            self.safely(lambda: self.begin(scheduled))
            self.seen.clear()
            return run(runner, scheduled, *args, **named)

        kind.execute_model = execute_model
        if prepare is None:
            return

        @wraps(prepare)
        def prepare_inputs(runner: Any, *args: Any, **named: Any) -> Any:
            made = prepare(runner, *args, **named)
            self.batch = (list(made.req_ids), made.input_ids)
            return made

        kind.prepare_inputs = prepare_inputs


def register() -> None:
    """Entry point of ``vllm.general_plugins``: does nothing unless ``HEADSCOPE_CAPTURE`` names a folder."""
    options = Options.read(os.environ)
    if options is None:
        return
    from vllm.version import __version__ as version

    refuse_version(version)
    from vllm.model_executor.layers.attention import Attention
    from vllm.v1.attention.backend import AttentionType
    from vllm.v1.request import Request
    from vllm.v1.worker.gpu import model_runner
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if getattr(Attention.__init__, "headscope", False):
        return  # vLLM may load its plug-ins more than once in a process
    options.folder.mkdir(parents=True, exist_ok=True)
    plugin, made, skips = _Plugin(Capture(options), version), Attention.__init__, Request.get_skip_reading_prefix_cache

    @wraps(skips)
    def get_skip_reading_prefix_cache(request: Any) -> bool:
        extra = request.sampling_params.extra_args if request.sampling_params else None
        return "headscope" in (extra or ()) or bool(skips(request))  # rows in the cache would not be computed

    @wraps(made)
    def init(layer: Any, *args: Any, **named: Any) -> None:
        made(layer, *args, **named)
        if layer.attn_type == AttentionType.DECODER and layer.kv_sharing_target_layer_name is None:
            plugin.watch(layer)

    init.headscope = True  # type: ignore[attr-defined]
    Attention.__init__ = init
    Request.get_skip_reading_prefix_cache = get_skip_reading_prefix_cache
    plugin.wrap_runner(GPUModelRunner)
    plugin.wrap_runner(model_runner.GPUModelRunner)
    log.warning("headscope: requests that ask are captured in %s", options.folder.resolve())


def refuse_version(version: str) -> None:
    """Raise for a version of vLLM that this was not tried with."""
    if version.partition("+")[0] not in TRIED:
        raise RuntimeError(f"headscope-vllm was not tried with vLLM {version}; it knows {', '.join(TRIED)}")
