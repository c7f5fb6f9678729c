"""Count a model's parameters by part, its KV cache and the FLOPs of one more token, from its config alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from headscope.errors import InputError
from headscope.lab.cards.config_reader import Architecture

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True)
class Parameters:
    """Parameters of each part, over all layers. ``active`` counts only the experts that one token uses."""

    parts: dict[str, int]
    active: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Parts that cannot be counted because the config leaves out their sizes."""

    @property
    def total(self) -> int | None:
        return None if self.unknown else sum(self.parts.values())

    @property
    def attention(self) -> int:
        return sum(count for part, count in self.parts.items() if part.startswith("W_") or part == "attention, other")


def count_parameters(model: Architecture) -> Parameters:
    """Count the parameters of every part."""
    layers, vocabulary, family = model.attention_layers, model.vocabulary or 0, model.family
    n_positions = model.context + family.positions if model.context and family.positions is not None else 0
    output = 0 if model.tied else model.d_model
    parts = {
        "token embeddings": vocabulary * model.d_model,
        "place embeddings": n_positions * model.d_model,
        **{part: count * layers for part, count in _attention(model).items()},
        **_ffn(model),
        "norms": _norms(model),
        "unembedding": vocabulary * (output + model.on(family.head_bias)),
    }
    parts = {part: count for part, count in parts.items() if count}
    active = dict(parts)
    if model.experts is not None and "experts" in parts:
        active["experts"] = parts["experts"] // model.experts.count * model.experts.used
    unknown = {
        "embeddings": model.vocabulary is None,
        f"{model.n_layers - layers} layers without attention heads": layers < model.n_layers,
        "FFN": model.dense_layers > 0 and model.d_ff is None,
    }
    return Parameters(parts, active, tuple(part for part, missing in unknown.items() if missing))


def _attention(model: Architecture) -> dict[str, int]:
    """W_Q, W_K, W_V and W_O of one layer, biases included, and the other parameters of its attention."""
    d, heads, kv, d_head = model.d_model, model.n_heads, model.n_kv_heads, model.d_head
    family, latent, biased = model.family, model.latent, model.on(model.family.qkv_bias)
    w_o = heads * model.d_value * d + (d if model.on(family.out_bias) else 0)
    if latent is not None:
        rank, down = latent.q_rank, latent.kv_rank + latent.d_rope
        return {
            "W_Q": d * rank + rank * (1 + biased) + rank * heads * d_head if rank else d * heads * d_head,
            "W_K and W_V, down": d * down + down * biased + latent.kv_rank,
            "W_K and W_V, up": latent.kv_rank * heads * (latent.d_nope + latent.d_value),
            "W_O": w_o,
        }
    other = (heads if family.sinks else 0) + family.extra_heads * d_head
    if family.qk_norm and model.on(family.qk_norm_switch):
        other += {"head": 2 * d_head, "head with bias": 4 * d_head, "width": (heads + kv) * d_head}[family.qk_norm]
    return {
        "W_Q": (d + biased) * heads * d_head,
        "W_K": (d + biased) * kv * d_head,
        "W_V": (d + biased) * kv * d_head,
        "W_O": w_o,
        "attention, other": other,
    }


def _ffn(model: Architecture) -> dict[str, int]:
    """The FFN of all layers: dense ones, experts, shared experts and routers."""
    d, family, experts, sparse = model.d_model, model.family, model.experts, model.n_layers - model.dense_layers
    dense = 0 if model.d_ff is None else _mlp(d, model.d_ff, family.gated, model.on(family.ffn_bias)) + family.extra
    parts = {"FFN": dense * model.dense_layers}
    if experts is None or not sparse:
        return parts
    shared = 3 * d * experts.shared_width + (d if family.shared_expert == "gated" else 0)
    return parts | {
        "experts": experts.count * _mlp(d, experts.width, family.gated, family.expert_bias) * sparse,
        "shared experts": shared * sparse if experts.shared_width else 0,
        "router": experts.count * (d + family.router_bias) * sparse,
    }


def _mlp(d_model: int, width: int, gated: bool, bias: bool) -> int:
    inputs = 2 if gated else 1
    return (inputs + 1) * d_model * width + (inputs * width + d_model if bias else 0)


def _norms(model: Architecture) -> int:
    family, per_layer = model.family, model.family.block_norms
    if model.model_type == "falcon" and model.config.get("new_decoder_architecture"):
        per_layer = int(model.config.get("num_ln_in_parallel_attn") or 2)
    if model.model_type == "falcon" and not model.config.get("parallel_attn", True):
        per_layer = 2
    size = {"rms": 1, "layer": 2, "none": 0}[family.norm] * model.d_model
    sub_norms = (model.n_heads * model.d_head + (model.d_ff or 0)) * model.n_layers if family.sub_norms else 0
    return size * (per_layer * model.n_layers + family.final_norm + family.embedding_norm) + sub_norms


def kept_per_token(model: Architecture, *, expanded: bool = False) -> int:
    """Numbers that one attention layer caches per token.

    MLA caches its latent vector. ``expanded`` counts the key and value of every head instead.
    """
    if model.latent is not None and not expanded:
        return model.latent.kv_rank + model.latent.d_rope
    kv_heads = model.n_heads if model.latent is not None else model.n_kv_heads
    return kv_heads * (model.d_head + model.d_value)


def kv_bytes(model: Architecture, length: int, dtype: str = "fp16", *, expanded: bool = False) -> int:
    """Bytes of the KV cache after ``length`` tokens; a sliding-window layer keeps at most its window."""
    if dtype not in BYTES:
        raise InputError(f"dtype={dtype!r} is not one of {', '.join(BYTES)}")
    if length < 0:
        raise InputError(f"length={length}: give a number of tokens of at least 0")
    kept = kept_per_token(model, expanded=expanded) * BYTES[dtype]
    return sum(kept * (length if window is None else min(length, window)) for window in model.windows)


def next_token_flops(model: Architecture, parameters: Parameters, length: int) -> dict[str, int]:
    """Floating-point operations for one more token after ``length``: two for each weight it is multiplied with."""
    n_keys = sum(length + 1 if window is None else min(length + 1, window) for window in model.windows)
    ffn = sum(parameters.active.get(part, 0) for part in ("FFN", "experts", "shared experts", "router"))
    return {
        "looking back": 2 * model.n_heads * (model.d_head + model.d_value) * n_keys,
        "Q, K, V, O": 2 * parameters.attention,
        "FFN": 2 * ffn,
        "output": 2 * (model.vocabulary or 0) * model.d_model,
    }
