"""Our attention function inside transformers: one function, two names, one for each kind of mask a sub-model reads.

The function hands every call to ``headscope.attention.observer.attend``. Registering is process-wide and harmless;
a model uses it only between ``install`` and ``uninstall``, which count, so that two scopes may hold one model.
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
from headscope.models.huggingface.masks import bool_mask, float_mask, read_mask
from headscope.models.huggingface.sparse_masks import ChosenKeys

# Names must not contain "sdpa", "flash" or "/": transformers reads meaning into those.
BOOL_NAME, FLOAT_NAME = "headscope", "headscope_float"
OUR_NAMES = (BOOL_NAME, FLOAT_NAME)

# Arguments that reach the function and do not change its numbers: they travel through, or the mask already holds them.
HARMLESS = frozenset(
    {
        "cache_position",
        "cu_seq_lens_k",
        "cu_seq_lens_q",
        "deterministic",
        "dropout",
        "encoder_attention_mask",
        "encoder_hidden_states",
        "image_sizes",
        "inputs_embeds",
        "interpolate_pos_encoding",
        "is_causal",
        "labels",
        "logits_to_keep",
        "max_length_k",
        "max_length_q",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "return_loss",
        "sliding_window",
        "token_type_ids",
        "use_cache",
    }
)


@dataclass(frozen=True)
class AttentionCall:
    """One call of the attention function as it came in, for whoever traces a model."""

    call: Call
    z: Tensor
    sliding_window: int | None


tracer: ContextVar[Callable[[AttentionCall], Tensor] | None] = ContextVar("headscope_tracer", default=None)


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **named: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: q, k, v ``[batch, head, position, d]`` in, z ``[batch, position, head, d]`` out."""
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
    words, extra = read_mask(mask, n_query, n_key)
    named = dict(named)
    words = words & _chosen(module, n_heads, named)
    bias = named.pop("position_bias", None)
    if bias is not None:
        bias = bias[(None,) * (4 - bias.ndim)]
        bias_words, bias = read_mask(bias.to(q.dtype), n_query, n_key)
        words = words & bias_words
    bias = extra if bias is None else bias if extra is None else bias + extra
    scale, softcap, sinks = (named.pop(name, None) for name in ("scaling", "softcap", "s_aux"))
    _refuse_unknown(module, named)
    return Scores(
        scale=_number(scale),
        mask=words,
        bias=bias,
        softcap=_number(softcap) or None,
        sinks=None if sinks is None else sinks.reshape(-1),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _chosen(module: torch.nn.Module, n_heads: int, named: dict[str, Any]) -> Mask:
    """Keys chosen by an indexer. Families fold them into the mask only for implementations named eager or sdpa."""
    chosen, blocks = named.pop("indices", None), named.pop("block_indices", None)
    parts: list[ChosenKeys] = []
    if chosen is not None:
        parts.append(ChosenKeys(chosen[:, None], n_heads))
    if blocks is not None:
        width = getattr(getattr(module, "indexer", None), "block_size", None)
        if width is None:
            raise ModelError(f"{type(module).__name__} passes block_indices, but its indexer has no block_size")
        parts.append(ChosenKeys(blocks, n_heads, int(width)))
    return Mask(tuple(parts))


def _refuse_unknown(module: torch.nn.Module, named: dict[str, Any]) -> None:
    for name, value in named.items():
        if name not in HARMLESS and value is not None and value is not False:
            raise ModelError(
                f"{type(module).__name__} passes {name}={_shortly(value)} to its attention, which headscope does not "
                "know and will not drop in silence: it could change the numbers"
            )


def _shortly(value: Any) -> str:
    return f"<tensor {tuple(value.shape)}>" if isinstance(value, Tensor) else repr(value)[:60]


def register() -> None:
    """Make our names known to transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    for name, mask in ((BOOL_NAME, bool_mask), (FLOAT_NAME, float_mask)):
        AttentionInterface.register(name, attention)
        AttentionMaskInterface.register(name, mask)


@dataclass
class _Installed:
    config: Any
    before: Any
    holders: int


_lock = threading.Lock()
_installed: dict[int, _Installed] = {}


def implementations(model: torch.nn.Module) -> list[tuple[Any, str]]:
    """Every config of the model with the name of ours it should use; sub-models without the interface left alone."""
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
    """Let this model attend through us. Call ``uninstall`` as often as this."""
    register()
    with _lock:
        for config, name in implementations(model):
            held = _installed.get(id(config))
            if held is None:
                _installed[id(config)] = _Installed(config, config._attn_implementation_internal, 1)
                config._attn_implementation_internal = name
            else:
                held.holders += 1


def uninstall(model: torch.nn.Module) -> None:
    """Give each sub-model back the implementation it had, once nobody else holds it."""
    with _lock:
        for config, _ in implementations(model):
            held = _installed.get(id(config))
            if held is None:
                continue
            held.holders -= 1
            if held.holders == 0:
                config._attn_implementation_internal = held.before
                del _installed[id(config)]


def holders(model: torch.nn.Module) -> int:
    """How many scopes hold this model, or share a config with one that does."""
    with _lock:
        counts = [_installed[id(config)].holders for config, _ in implementations(model) if id(config) in _installed]
    return max(counts, default=0)


@contextmanager
def exclusively(model: torch.nn.Module) -> Iterator[Callable[[str], None] | None]:
    """For the one holder of a model: a way to give it another implementation for a moment. None if others hold it."""
    register()
    mine = implementations(model)
    if holders(model) > 1:
        yield None
        return

    def switch(name: str) -> None:
        for config, _ in mine:
            config._attn_implementation_internal = name

    with _lock:
        before = [config._attn_implementation_internal for config, _ in mine]
    try:
        yield switch
    finally:
        for (config, _), name in zip(mine, before, strict=True):
            config._attn_implementation_internal = name
