"""Open a PyTorch model whose attention is headscope's own MultiHeadAttention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call
from headscope.errors import InputError, ModelError
from headscope.models.inputs.tokens import InputProcessor
from headscope.models.protocol import OutputWeight, Prepared
from headscope.models.recording import OpenModel, Recording
from headscope.models.selfcheck import run_self_check
from headscope.models.structure.sites import input_embedding, name_sites
from headscope.models.structure.unembedding import find_unembedding
from headscope.names import ModelShape


class NativeModel(OpenModel):
    """See ``OpenModel``. The model maps ids ``[batch, token]`` to logits ``[batch, token, vocabulary]``."""

    def __init__(self, model: nn.Module, tokenizer: Any = None, name: str = "model") -> None:
        modules = {path: part for path, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
        if not modules:
            raise ModelError(
                f"{type(model).__name__} is not a transformers model and does not use headscope's MultiHeadAttention; "
                "pass example inputs, load(module, inputs=x), and its attention is found while it runs"
            )
        table = input_embedding(model)
        vocabulary = getattr(table, "num_embeddings", None)
        context = getattr(getattr(model, "config", None), "context", None)
        super().__init__(model, InputProcessor(as_transformers(tokenizer), vocabulary=vocabulary, context=context))
        names = name_sites(list(modules), {}, [])
        self._modules = {names[path]: module for path, module in modules.items()}
        self._names = {id(module): name for name, module in self._modules.items()}
        self.shape = ModelShape(name, next(iter(modules.values())).d_model, vocabulary, context)
        length = min(8, context or 8)
        self.probe = {"input_ids": (torch.arange(2 * length).view(2, length) * 7 + 1) % (vocabulary or 2)}
        with self._observed(Recording(id(self)), None), torch.no_grad():
            output = self._call(self.probe)
        if not isinstance(output, Tensor) or output.ndim != 3:
            raise ModelError(f"{type(model).__name__} must return logits [batch, token, vocabulary] for token ids")
        self._set_unembedding(find_unembedding(self))
        self._watched.add(part for module in self._modules.values() for part in (module, module.o_proj))
        self.self_check = run_self_check(self, self.probe, None)

    def prepare(self, text: Any) -> Prepared:
        return self.processor.prepare(text["input_ids"] if isinstance(text, Mapping) and "input_ids" in text else text)

    def output_weight(self, site: str) -> OutputWeight:
        module = self._module(site)
        return OutputWeight(module.output_weight(), module.o_proj.bias, "exact")

    def output_matrix(self, site: str) -> nn.Module:
        return self._module(site).o_proj

    def site_modules(self) -> Mapping[str, nn.Module]:
        return dict(self._modules)

    def _call(self, inputs: Mapping[str, Tensor]) -> Any:
        return self.model(inputs["input_ids"].to(next(self.model.parameters()).device))

    def _site_of(self, recording: Recording, call: Call) -> str | None:
        name = self._names.get(id(call.site))
        if name is not None:
            self._add_site(name, call)
        return name

    def _module(self, site: str) -> MultiHeadAttention:
        self._check_site(site)
        return self._modules[site]


def as_transformers(tokenizer: Any) -> Any:
    """Wrap a tokenizer of the tokenizers library for transformers."""
    if tokenizer is None or callable(tokenizer):
        return tokenizer
    if not hasattr(tokenizer, "encode_batch"):
        raise InputError(
            f"cannot read text with a {type(tokenizer).__name__}; give a tokenizer of tokenizers or transformers"
        )
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]
