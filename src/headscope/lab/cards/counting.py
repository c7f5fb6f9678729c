"""Counting: the parameters of each part of a model, what it keeps for each token, and what one more token costs."""

from __future__ import annotations

from dataclasses import dataclass, field

from headscope.errors import InputError
from headscope.lab.cards.config_reader import Anatomy

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True)
class Parameters:
    """Parameters of each part, over all layers. ``active`` is what one token passes through."""

    parts: dict[str, int]
    active: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Parts that the source says nothing about."""

    @property
    def total(self) -> int | None:
        return None if self.unknown else sum(self.parts.values())

    @property
    def attention(self) -> int:
        return sum(count for part, count in self.parts.items() if part.startswith("W_") or part == "attention, other")


def count_parameters(anatomy: Anatomy) -> Parameters:
    """Every part of the model, counted."""
    parts: dict[str, int] = {}
    unknown: list[str] = []
    if anatomy.vocabulary is None:
        unknown.append("embeddings")
    else:
        parts["token embeddings"] = anatomy.vocabulary * anatomy.d_model
    if anatomy.family.positions is not None and anatomy.context is not None:
        parts["place embeddings"] = (anatomy.context + anatomy.family.positions) * anatomy.d_model
    layers = anatomy.attention_layers
    parts |= {part: count * layers for part, count in _attention(anatomy).items() if count}
    if layers < anatomy.n_layers:
        unknown.append(f"{anatomy.n_layers - layers} layers without attention heads")
    ffn = _ffn(anatomy)
    if ffn is None:
        unknown.append("FFN")
    else:
        parts |= {part: count for part, count in ffn.items() if count}
    parts["norms"] = _norms(anatomy)
    output = _output(anatomy)
    if output:
        parts["unembedding"] = output
    parts = {part: count for part, count in parts.items() if count}
    return Parameters(parts, _active(anatomy, parts), tuple(unknown))


def _attention(anatomy: Anatomy) -> dict[str, int]:
    """W_Q, W_K, W_V and W_O of one layer, biases included, and what stands beside them."""
    d, heads, kv, d_head = anatomy.d_model, anatomy.n_heads, anatomy.n_kv_heads, anatomy.d_head
    family = anatomy.family
    out_bias = d if anatomy.on(family.out_bias) else 0
    if anatomy.latent is not None:
        latent, bias = anatomy.latent, anatomy.on(family.qkv_bias)
        down = latent.kv_rank + latent.d_rope
        query = d * heads * d_head
        if latent.q_rank:
            query = d * latent.q_rank + latent.q_rank * (1 + bias) + latent.q_rank * heads * d_head
        return {
            "W_Q": query,
            "W_K and W_V, down": d * down + down * bias + latent.kv_rank,
            "W_K and W_V, up": latent.kv_rank * heads * (latent.d_nope + latent.d_value),
            "W_O": heads * latent.d_value * d + out_bias,
        }
    biased = anatomy.on(family.qkv_bias)
    other = anatomy.n_heads if family.sinks else 0
    if family.qk_norm and anatomy.on(family.qk_norm_switch):
        other += {"head": 2 * d_head, "head with bias": 4 * d_head, "width": (heads + kv) * d_head}[family.qk_norm]
    other += family.extra_heads * d_head
    return {
        "W_Q": (d + biased) * heads * d_head,
        "W_K": (d + biased) * kv * d_head,
        "W_V": (d + biased) * kv * d_head,
        "W_O": heads * d_head * d + out_bias,
        "attention, other": other,
    }


def _ffn(anatomy: Anatomy) -> dict[str, int] | None:
    """The FFN of all layers: plain ones, experts, shared experts and routers."""
    d, family, parts = anatomy.d_model, anatomy.family, {}
    if anatomy.dense_layers:
        if anatomy.d_ff is None:
            return None
        bias = anatomy.on(family.ffn_bias)
        one = _mlp(d, anatomy.d_ff, family.gated, bias) + family.extra
        parts["FFN"] = one * anatomy.dense_layers
    sparse = anatomy.n_layers - anatomy.dense_layers
    if anatomy.experts is not None and sparse:
        experts = anatomy.experts
        parts["experts"] = experts.count * _mlp(d, experts.width, family.gated, family.expert_bias) * sparse
        gate = d if family.shared_expert == "gated" else 0
        parts["shared experts"] = (3 * d * experts.shared_width + gate) * sparse if experts.shared_width else 0
        parts["router"] = experts.count * (d + family.router_bias) * sparse
    return parts


def _mlp(d_model: int, width: int, gated: bool, bias: bool) -> int:
    ins = 2 if gated else 1
    return (ins + 1) * d_model * width + (ins * width + d_model if bias else 0)


def _norms(anatomy: Anatomy) -> int:
    family = anatomy.family
    size = {"rms": 1, "layer": 2, "none": 0}[family.norm] * anatomy.d_model
    per_layer = family.block_norms
    if anatomy.model_type == "falcon" and anatomy.switches.get("new_decoder_architecture"):
        per_layer = int(anatomy.switches.get("num_ln_in_parallel_attn") or 2)
    if anatomy.model_type == "falcon" and not anatomy.switches.get("parallel_attn", True):
        per_layer = 2
    count = per_layer * anatomy.n_layers + family.final_norm + family.embedding_norm
    wide = (anatomy.n_heads * anatomy.d_head + (anatomy.d_ff or 0)) * anatomy.n_layers if family.extra_width else 0
    return size * count + wide


def _output(anatomy: Anatomy) -> int:
    if anatomy.vocabulary is None:
        return 0
    weight = 0 if anatomy.tied else anatomy.vocabulary * anatomy.d_model
    return weight + (anatomy.vocabulary if anatomy.on(anatomy.family.head_bias) else 0)


def _active(anatomy: Anatomy, parts: dict[str, int]) -> dict[str, int]:
    """The same parts, with only as many experts as a token uses."""
    active = dict(parts)
    if anatomy.experts is not None and "experts" in parts:
        active["experts"] = parts["experts"] // anatomy.experts.count * anatomy.experts.used
    return active


def kept_per_token(anatomy: Anatomy, *, expanded: bool = False) -> int:
    """Numbers that one layer with heads keeps for each token it can still see.

    MLA keeps its latent vector. ``expanded`` counts instead what every head's own key and value would take.
    """
    if anatomy.latent is not None and not expanded:
        return anatomy.latent.kv_rank + anatomy.latent.d_rope
    kv_heads = anatomy.n_heads if anatomy.latent is not None else anatomy.n_kv_heads
    return kv_heads * (anatomy.d_head + anatomy.d_value)


def kv_bytes(anatomy: Anatomy, length: int, dtype: str = "fp16", *, expanded: bool = False) -> int:
    """Bytes of the KV cache after ``length`` tokens; a layer with a window keeps at most its window."""
    if dtype not in BYTES:
        raise InputError(f"there is no {dtype!r} here; the cache is counted in {', '.join(BYTES)}")
    if length < 0:
        raise InputError(f"a text of {length} tokens; give a length of at least 0")
    kept = kept_per_token(anatomy, expanded=expanded) * BYTES[dtype]
    return sum(kept * (length if window is None else min(length, window)) for window in anatomy.windows)


def next_token_flops(anatomy: Anatomy, parameters: Parameters, length: int) -> dict[str, int]:
    """Floating-point operations for one more token after ``length``: two for each weight it meets."""
    active = parameters.active
    looked_at = sum(length + 1 if window is None else min(length + 1, window) for window in anatomy.windows)
    per_key = 2 * anatomy.n_heads * (anatomy.d_head + anatomy.d_value)
    ffn = sum(active.get(part, 0) for part in ("FFN", "experts", "shared experts", "router"))
    output = (anatomy.vocabulary or 0) * anatomy.d_model
    return {
        "looking back": per_key * looked_at,
        "Q, K, V, O": 2 * parameters.attention,
        "FFN": 2 * ffn,
        "output": 2 * output,
    }
