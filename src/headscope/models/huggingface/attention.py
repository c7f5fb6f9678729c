"""The attention function that headscope registers with transformers, and its installation in a model.

It passes every call to ``headscope.attention.observer.attend``, and is registered under two names, one for each kind of
mask that a sub-model reads. Registering is process-wide and changes nothing; a model uses the function only between
``install`` and ``uninstall``, which count, so that two scopes may have one model open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headscope.attention.masks import Mask
from headscope.attention.observer import Call, attend
from headscope.attention.scores import Scores
from headscope.errors import ModelError
from headscope.models.huggingface.masks import IndexedKeys, bool_mask, float_mask, split_mask

# Names must not contain "sdpa", "flash" or "/": transformers reads meaning into those.
BOOL_NAME, FLOAT_NAME = "headscope", "headscope_float"

# Arguments that reach the function and do not change its result: they are for others, or the mask already holds them.
IGNORED_ARGUMENTS = frozenset(
    (
        "cache_position", "cu_seq_lens_k", "cu_seq_lens_q", "deterministic", "dropout", "encoder_attention_mask",
        "encoder_hidden_states", "image_sizes", "inputs_embeds", "interpolate_pos_encoding", "is_causal", "labels",
        "logits_to_keep", "max_length_k", "max_length_q", "num_items_in_batch", "output_attentions",
        "output_hidden_states", "output_router_logits", "past_key_values", "position_embeddings", "position_ids",
        "return_dict", "return_loss", "sliding_window", "token_type_ids", "use_cache",
    )
)  # fmt: skip


@dataclass(frozen=True)
class AttentionCall:
    """One call of the attention function and the z it computed, as passed to a tracer."""

    call: Call
    z: Tensor
    sliding_window: int | None


tracer: ContextVar[Callable[[AttentionCall], Tensor] | None] = ContextVar("headscope_tracer", default=None)


def attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **named: Any
) -> tuple[Tensor, None]:
    """Attend, as transformers calls it: q, k, v ``[batch, head, position, d]``; z ``[batch, position, head, d]``."""
    scores = _scores(module, query, key, attention_mask, named)
    dropout = float(named.get("dropout") or 0.0) if module.training else 0.0
    call = Call(module, query, key, value, scores, dropout)
    z = attend(call).transpose(1, 2).contiguous()
    trace = None if torch.compiler.is_compiling() else tracer.get()
    if trace is not None:
        z = trace(AttentionCall(call, z, named.get("sliding_window")))
    return z, None


def _scores(module: torch.nn.Module, q: Tensor, k: Tensor, mask: Tensor | None, named: dict[str, Any]) -> Scores:
    n_heads, n_query, n_key = q.shape[1], q.shape[2], k.shape[2]
    allowed, bias = split_mask(mask, n_query, n_key)
    named = dict(named)
    allowed = allowed & _indexed_keys(module, n_heads, named)
    position_bias = named.pop("position_bias", None)
    if position_bias is not None:
        also_allowed, extra = split_mask(position_bias.to(q.dtype), n_query, n_key)
        allowed = allowed & also_allowed
        bias = extra if bias is None else bias if extra is None else bias + extra
    scale, softcap, sinks = (named.pop(name, None) for name in ("scaling", "softcap", "s_aux"))
    _refuse_unknown(module, named)
    return Scores(
        scale=_number(scale),
        mask=allowed,
        bias=bias,
        softcap=_number(softcap) or None,
        sinks=None if sinks is None else sinks.reshape(-1),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _indexed_keys(module: torch.nn.Module, n_heads: int, named: dict[str, Any]) -> Mask:
    """Keys selected by an indexer. Families put them into the mask only for implementations named eager or sdpa."""
    indices, blocks = named.pop("indices", None), named.pop("block_indices", None)
    parts: list[IndexedKeys] = []
    if indices is not None:
        parts.append(IndexedKeys(indices[:, None], n_heads))
    if blocks is not None:
        width = getattr(getattr(module, "indexer", None), "block_size", None)
        if width is None:
            raise ModelError(f"{type(module).__name__} passes block_indices, but its indexer has no block_size")
        parts.append(IndexedKeys(blocks, n_heads, int(width)))
    return Mask(tuple(parts))


def _refuse_unknown(module: torch.nn.Module, named: dict[str, Any]) -> None:
    for name, value in named.items():
        if name not in IGNORED_ARGUMENTS and value is not None and value is not False:
            raise ModelError(
                f"{type(module).__name__} passes {name}={_short(value)} to its attention, which headscope does not "
                "know and does not ignore: it could change the result"
            )


def _short(value: Any) -> str:
    return f"<tensor {tuple(value.shape)}>" if isinstance(value, Tensor) else repr(value)[:60]


def register() -> None:
    """Register our attention and mask functions with transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    for name, mask in ((BOOL_NAME, bool_mask), (FLOAT_NAME, float_mask)):
        AttentionInterface.register(name, attention)
        AttentionMaskInterface.register(name, mask)


@dataclass
class _Installed:
    config: Any
    before: Any
    count: int = 0


_lock = threading.Lock()
_installed: dict[int, _Installed] = {}


def implementations(model: torch.nn.Module) -> list[tuple[Any, str]]:
    """Every config of the model, with which of our two names it should use; configs without the interface left out."""
    from transformers import PreTrainedModel

    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    chosen: dict[int, tuple[Any, str]] = {}
    closed = {id(part.config) for part in parts if not part._can_set_attn_implementation()}
    for part in parts:
        if id(part.config) not in closed:
            chosen.setdefault(id(part.config), (part.config, BOOL_NAME if part._supports_sdpa else FLOAT_NAME))
    for config, name in list(chosen.values()):
        for inner in _sub_configs(config):
            if id(inner) not in closed:
                chosen.setdefault(id(inner), (inner, name))
    return list(chosen.values())


def _sub_configs(config: Any) -> list[Any]:
    found = []
    for name in getattr(config, "sub_configs", {}):
        inner = getattr(config, name, None)
        if inner is not None:
            found += [inner, *_sub_configs(inner)]
    return found


def install(model: torch.nn.Module) -> None:
    """Make this model call our attention function. Call ``uninstall`` as often as this."""
    register()
    with _lock:
        for config, name in implementations(model):
            held = _installed.setdefault(id(config), _Installed(config, config._attn_implementation_internal))
            if not held.count:
                config._attn_implementation_internal = name
            held.count += 1


def uninstall(model: torch.nn.Module) -> None:
    """Restore each sub-model's own implementation with the last scope that has it open."""
    with _lock:
        for config, _ in implementations(model):
            held = _installed.get(id(config))
            if held is None:
                continue
            held.count -= 1
            if held.count == 0:
                config._attn_implementation_internal = held.before
                del _installed[id(config)]


def install_count(model: torch.nn.Module) -> int:
    """How many scopes have this model open, or one that shares a config with it."""
    with _lock:
        counts = [_installed[id(config)].count for config, _ in implementations(model) if id(config) in _installed]
    return max(counts, default=0)


@contextmanager
def using_implementation(model: torch.nn.Module, name: str) -> Iterator[None]:
    """Switch the model to another attention implementation inside the block; only while no other scope has it open."""
    before = [(config, config._attn_implementation_internal) for config, _ in implementations(model)]
    try:
        for config, _ in before:
            config._attn_implementation_internal = name
        yield
    finally:
        for config, own in before:
            config._attn_implementation_internal = own
