"""Models built on our own MultiHeadAttention: the second, trivial seam. The mechanism itself calls the observer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, observing, plain
from headscope.errors import HeadNameError, InputError, ModelError
from headscope.models.inputs.tokens import Reader, Reading
from headscope.models.protocol import OutputWeight, Pass, Prepared, SiteObserver, SiteOutput, Unembedding, one_row
from headscope.models.selfcheck import Report, check
from headscope.models.structure.residual import Scales, found_scale, stream_scales
from headscope.models.structure.site_names import name_sites
from headscope.models.structure.sites import site_from_call
from headscope.models.structure.trace import hooked
from headscope.names import ModelShape, Site


@dataclass
class _Run:
    """What one pass is asked to keep."""

    owner: int
    wanted: frozenset[str] = frozenset()
    keep_residual: bool = False
    row: int | None = None
    outputs: dict[str, SiteOutput] = field(default_factory=dict)
    residual: Tensor | None = None


_run: ContextVar[_Run | None] = ContextVar("headscope_native_run", default=None)


class NativeModel(Reading):
    """See ``OpenModel``. The model takes ids ``[batch, token]`` and answers with logits for each token."""

    def __init__(self, model: nn.Module, tokenizer: Any = None, name: str = "model") -> None:
        modules = {path: part for path, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
        if not modules:
            raise ModelError(
                f"{type(model).__name__} is neither a transformers model nor built on headscope's MultiHeadAttention; "
                "headscope sees attention through one of the two"
            )
        self._model = model
        self.notes: Sequence[str] = ()
        self.report: Report | None = None
        self._training = [module for module in model.modules() if module.training]
        model.eval()
        names = name_sites(list(modules), {}, [])
        self._modules = {names[path]: module for path, module in modules.items()}
        self._names = {id(module): name for name, module in self._modules.items()}
        table = next((part for part in model.modules() if isinstance(part, nn.Embedding)), None)
        self._table = table
        context = getattr(getattr(model, "config", None), "context", None)
        self.reader = Reader(
            _as_transformers(tokenizer), vocabulary=None if table is None else table.num_embeddings, context=context
        )
        end = getattr(self.reader.tokenizer, "eos_token_id", None)
        self.end_tokens: frozenset[int] = frozenset() if end is None else frozenset([end])
        self._hooks: list[Any] = []
        self._scales: Scales | None = None
        self._ending: tuple[nn.Module | None, nn.Linear | None] | None = None
        self._discover(name)

    @property
    def model(self) -> nn.Module:
        return self._model

    def prepare(self, text: Any) -> Prepared:
        return self.reader.prepare(text["input_ids"] if isinstance(text, Mapping) and "input_ids" in text else text)

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
            self._module(site)
        run = _Run(id(self), frozenset(outputs), residual, row)
        device = next(self._model.parameters()).device
        token = _run.set(run)
        try:
            with observing(self._see(observer)):
                logits = self._model(inputs["input_ids"].to(device))
        finally:
            _run.reset(token)
        return Pass(logits, run.outputs, run.residual)

    @contextmanager
    def observing(self, observer: SiteObserver) -> Iterator[None]:
        with observing(self._see(observer)):
            yield

    def output_weight(self, site: str) -> OutputWeight:
        module = self._module(site)
        return OutputWeight(module.output_weight(), module.o_proj.bias, "exact")

    def written(self, site: str, z: Float[Tensor, "batch head query d_value"]) -> SiteOutput:
        return SiteOutput.of(self._module(site).o_proj, z)

    def query_weight(self, site: str) -> Float[Tensor, "head d_model d_head"]:
        return _by_head(self._module(site).q_proj, self._module(site).n_heads)

    def key_weight(self, site: str) -> Float[Tensor, "kv d_model d_head"]:
        return _by_head(self._module(site).k_proj, self._module(site).n_kv_heads)

    def value_weight(self, site: str) -> Float[Tensor, "kv d_model d_value"]:
        return _by_head(self._module(site).v_proj, self._module(site).n_kv_heads)

    def embedding(self) -> Float[Tensor, "vocabulary d_model"]:
        if self._table is None:
            raise ModelError(f"{self.shape.name} has no table of token embeddings")
        return self._table.weight

    def unembedding(self) -> Unembedding:
        if self._ending is None or (self._ending[1] is None and self._table is None):
            raise ModelError(f"{self.shape.name}: no matrix was seen that turns its last states into tokens")
        norm, matrix = self._ending
        weight = self.embedding() if matrix is None else matrix.weight
        note = "no norm stands before W_U" if norm is None else "the final norm is held at this text's own statistics"
        return Unembedding(norm, weight, None if matrix is None else matrix.bias, note)

    def stream_scale(self, site: str) -> float:
        if self._scales is None:
            writers = {name: module.o_proj for name, module in self._modules.items()}
            self._scales = stream_scales(
                self._model, lambda x: self.run(x, residual=True).residual, writers, self._probe
            )
        return found_scale(self._scales, site)

    def site_modules(self) -> Mapping[str, nn.Module]:
        return dict(self._modules)

    def close(self) -> None:
        """Leave the model as it was found."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for module in self._training:
            module.training = True

    def _discover(self, name: str) -> None:
        width, length = self.reader.vocabulary or 2, min(8, self.reader.context or 8)
        probe = self._probe = {"input_ids": (torch.arange(2 * length).view(2, length) * 7 + 1) % width}
        found: dict[str, Site] = {}

        def see(call: Call) -> Tensor:
            site = self._names.get(id(call.site))
            if site is not None:
                found[site] = site_from_call(site, call, None)
            return plain(call)

        with torch.no_grad(), observing(see), self._leaves() as leaves:
            logits = self._model(probe["input_ids"].to(next(self._model.parameters()).device))
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            raise ModelError(
                f"{type(self._model).__name__} must answer token ids with logits [batch, token, vocabulary]"
            )
        d_model = next(iter(self._modules.values())).d_model
        self.shape = ModelShape(name, d_model, self.reader.vocabulary, self.reader.context, found)
        self._ending = self._find_ending(leaves, logits)
        self._set_hooks()
        self.report = check(self, probe, None)

    @contextmanager
    def _leaves(self) -> Iterator[list[tuple[nn.Module, Tensor]]]:
        """Every leaf module and what it gave back, in order, while the block runs."""
        seen: list[tuple[nn.Module, Tensor]] = []
        leaves = [part for part in self._model.modules() if next(part.children(), None) is None]
        with hooked(leaves, leave=lambda module, args, kwargs, output: seen.append((module, output))):
            yield seen

    def _find_ending(
        self, leaves: list[tuple[nn.Module, Tensor]], logits: Tensor
    ) -> tuple[nn.Module | None, nn.Linear | None] | None:
        """The last norm, and W_U: a Linear that gave the logits, or the embedding used again."""
        if not leaves:
            return None
        last, made = leaves[-1]
        matrix = last if isinstance(last, nn.Linear) and torch.equal(made, logits) else None
        before = leaves[-2] if matrix is not None and len(leaves) > 1 else leaves[-1]
        norm = before[0] if "norm" in type(before[0]).__name__.lower() else None
        if matrix is None:
            tied = norm is not None and self._table is not None and before[1].shape[-1] == self._table.embedding_dim
            if not tied or not torch.allclose(before[1] @ self.embedding().T, logits, rtol=1e-3, atol=1e-4):
                return None
        return norm, matrix

    def _set_hooks(self) -> None:
        for site, module in self._modules.items():
            self._hooks.append(module.o_proj.register_forward_hook(self._keep_output(site, module.n_heads)))
        reader = None if self._ending is None else self._ending[0] or self._ending[1]
        if reader is not None:
            self._hooks.append(reader.register_forward_pre_hook(self._keep_residual))

    def _keep_output(self, site: str, n_heads: int) -> Any:
        def keep(module: nn.Module, args: Any, output: Tensor) -> None:
            run = _run.get()
            if run is not None and run.owner == id(self) and site in run.wanted:
                x = args[0]
                split = x.reshape(*x.shape[:-1], n_heads, -1)
                run.outputs[site] = SiteOutput(one_row(split, run.row), one_row(output, run.row))

        return keep

    def _keep_residual(self, module: nn.Module, args: Any) -> None:
        run = _run.get()
        if run is not None and run.owner == id(self) and run.keep_residual:
            run.residual = one_row(args[0], run.row)

    def _see(self, observer: SiteObserver | None) -> Any:
        def see(call: Call) -> Tensor:
            site = self._names.get(id(call.site))
            return plain(call) if observer is None or site is None else observer(site, call)

        return see

    def _module(self, site: str) -> MultiHeadAttention:
        if site not in self._modules:
            raise HeadNameError(f"{site}: this model has the sites {', '.join(self._modules)}")
        return self._modules[site]


def _by_head(linear: nn.Linear, n_heads: int) -> Float[Tensor, "head d_in d_head"]:
    weight = linear.weight
    return weight.reshape(n_heads, -1, weight.shape[1]).transpose(1, 2)


def _as_transformers(tokenizer: Any) -> Any:
    """A tokenizer of the tokenizers library, in the form that transformers' own have."""
    if tokenizer is None or callable(tokenizer):
        return tokenizer
    if not hasattr(tokenizer, "encode_batch"):
        raise InputError(
            f"cannot read text with a {type(tokenizer).__name__}; give a tokenizer of tokenizers or transformers"
        )
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]
