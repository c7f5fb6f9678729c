"""A path cut by hand: plain transformers with hooks and an attention function of its own, without headscope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

N_HEADS, HEAD = 4, 1


@dataclass
class Family:
    """Where a family keeps what the cut needs: W_O of layer 0, norms its output passes, and the reader of layer 1."""

    output: str
    reader: str
    norm: str | None
    """The reader's own norm; None where the stream itself enters its matrices."""
    passes: list[str] = field(default_factory=list)
    inputs: Any = None


FAMILIES = {
    "gpt2": Family("transformer.h.0.attn.c_proj", "transformer.h.1.attn", "transformer.h.1.ln_1"),
    "llama": Family("model.layers.0.self_attn.o_proj", "model.layers.1.self_attn", "model.layers.1.input_layernorm"),
    "gemma3": Family(
        "model.layers.0.self_attn.o_proj", "model.layers.1.self_attn", "model.layers.1.input_layernorm",
        ["model.layers.0.post_attention_layernorm"],
    ),
    "qwen3": Family("model.layers.0.self_attn.o_proj", "model.layers.1.self_attn", "model.layers.1.input_layernorm"),
    "bert": Family(
        "bert.encoder.layer.0.attention.output.dense", "bert.encoder.layer.1.attention.self", None,
        ["bert.encoder.layer.0.attention.output.LayerNorm", "bert.encoder.layer.0.output.LayerNorm"],
    ),
    "t5": Family(
        "decoder.block.0.layer.0.SelfAttention.o", "decoder.block.1.layer.0.SelfAttention",
        "decoder.block.1.layer.0.layer_norm",
    ),
    "opt": Family(
        "model.decoder.layers.0.self_attn.out_proj", "model.decoder.layers.1.self_attn", None,
        ["model.decoder.layers.0.self_attn_layer_norm", "model.decoder.layers.0.final_layer_norm"],
    ),
    "neox": Family(
        "gpt_neox.layers.0.attention.dense", "gpt_neox.layers.1.attention", "gpt_neox.layers.1.input_layernorm"
    ),
    "mixtral": Family("model.layers.0.self_attn.o_proj", "model.layers.1.self_attn", "model.layers.1.input_layernorm"),
}  # fmt: skip


def weights_of(matrix: nn.Module) -> Tensor:
    """W_O as [in, out]."""
    return matrix.weight if type(matrix).__name__ == "Conv1D" else matrix.weight.T  # type: ignore[union-attr,return-value]


@dataclass
class _Attention:
    """Eager attention that may read another q, k or v for one head of one module."""

    reader: nn.Module | None = None
    head: int = 0
    changed: dict[str, Tensor] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **named: Any) -> Any:
        if module is self.reader:
            self.seen = {"q": query, "k": key, "v": value}
        z = self._attend(query, key, value, mask, named)
        if module is self.reader and self.changed:
            new = {"q": query, "k": key, "v": value} | self.changed
            z[:, self.head] = self._attend(new["q"], new["k"], new["v"], mask, named)[:, self.head]
        return z.transpose(1, 2).contiguous(), None

    @staticmethod
    def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Any, named: dict[str, Any]) -> Tensor:
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scale = named.get("scaling")
        scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        bias = named.get("position_bias")
        scores = scores if bias is None else scores + bias
        scores = scores if mask is None else scores + mask[..., : k.shape[2]]
        return scores.softmax(-1) @ v


@contextmanager
def _installed(model: PreTrainedModel, attention: _Attention) -> Iterator[None]:
    AttentionInterface.register("by_hand", attention)
    AttentionMaskInterface.register("by_hand", eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("by_hand")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _held(norm: nn.Module, at: Tensor, part: Tensor) -> Tensor:
    """A part through a norm whose scale is held."""
    gain = norm.weight + 1.0 if "Gemma" in type(norm).__name__ else norm.weight  # type: ignore[operator]
    if "RMS" in type(norm).__name__:
        eps = getattr(norm, "variance_epsilon", None) or norm.eps
        return part * torch.rsqrt(at.pow(2).mean(-1, keepdim=True) + eps) * gain  # type: ignore[operator]
    centred = part - part.mean(-1, keepdim=True)
    return centred * torch.rsqrt(at.var(-1, unbiased=False, keepdim=True) + norm.eps) * gain  # type: ignore[operator]


@torch.no_grad()
def logits_without_path(
    model: PreTrainedModel, family: Family, inputs: dict[str, Tensor], into: str, reader_head: int
) -> Tensor:
    """Logits when head 1 of layer 0 is cut from the q, k or v of one head of layer 1."""
    reader = model.get_submodule(family.reader)
    matrix = model.get_submodule(family.output)
    kept: dict[str, Tensor] = {}
    hooks = [matrix.register_forward_pre_hook(lambda _, args: kept.update(x=args[0]))]
    for name in family.passes:
        norm = model.get_submodule(name)
        hooks.append(norm.register_forward_pre_hook(lambda _, args, name=name: kept.update({name: args[0]})))
    attention = _Attention(reader)
    with _installed(model, attention):
        model(**inputs)
        for hook in hooks:
            hook.remove()
        width = kept["x"].shape[-1] // N_HEADS
        own = slice(HEAD * width, (HEAD + 1) * width)
        part = kept["x"][..., own] @ weights_of(matrix)[own]
        for name in family.passes:
            part = _held(model.get_submodule(name), kept[name], part)
        place = model.get_submodule(family.norm) if family.norm else reader

        def subtract(module: nn.Module, args: Any, kwargs: Any) -> Any:
            if args:
                return (args[0] - part, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": kwargs["hidden_states"] - part}

        hook = place.register_forward_pre_hook(subtract, with_kwargs=True)
        model(**inputs)
        hook.remove()
        attention.changed, attention.head = {into: attention.seen[into]}, reader_head
        return model(**inputs).logits  # type: ignore[no-any-return]
