"""How the blocks of each model family are built: what its config.json leaves out.

Families are listed by ``model_type``: which norms, biases and FFN their blocks have, and which layers have a sliding
window, so that parameters are counted exactly. A test compares every family with the model that transformers builds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Switch = bool | str
"""Always, never, or the name of the config key that decides."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How the blocks of a family are built."""

    gated: bool = True
    norm: Literal["rms", "layer", "none"] = "rms"
    block_norms: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["", "head", "width", "head with bias"] = ""
    qk_norm_switch: Switch = True
    qkv_bias: Switch = False
    out_bias: Switch = False
    ffn_bias: Switch = False
    head_bias: Switch = False
    positions: int | None = None
    """Learned position embeddings: how many more than the context; None without them."""
    windows: Literal["none", "all", "switch"] | int = "none"
    """Which layers have a sliding window if the config has no ``layer_types``. A number n: all but each n-th."""
    shared_expert: Literal["", "gated", "one"] = ""
    router_bias: bool = False
    expert_bias: bool = False
    sinks: bool = False
    extra: int = 0
    """Parameters of the activation function, per layer."""
    extra_heads: int = 0
    """Other attention parameters per layer, in units of d_head."""
    sub_norms: bool = False
    """A norm before W_O and one before the FFN's output matrix."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that transformers assumes for keys that are not in the config."""


_LAYER: dict[str, Any] = {"norm": "layer"}
_OLD: dict[str, Any] = {"gated": False, "norm": "layer", "defaults": {"tie_word_embeddings": True}}
_ALL_BIASED: dict[str, Any] = {"qkv_bias": True, "out_bias": True, "ffn_bias": True}
_SWITCHED: dict[str, Any] = {"qkv_bias": "attention_bias", "out_bias": "attention_bias"}
_TIED: dict[str, Any] = {"defaults": {"tie_word_embeddings": True}}
_GEMMA: dict[str, Any] = {**_SWITCHED, **_TIED, "block_norms": 4}
_GLM: dict[str, Any] = {"qkv_bias": "attention_bias", "defaults": {"attention_bias": True, "num_key_value_heads": 2}}

LLAMA = Family(**_SWITCHED, ffn_bias="mlp_bias")

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "granite": LLAMA,
    "helium": LLAMA,
    "smollm3": Family(**_SWITCHED, **_TIED, ffn_bias="mlp_bias", windows="switch"),
    "arcee": Family(**_SWITCHED, ffn_bias="mlp_bias", gated=False),
    "seed_oss": Family(
        qkv_bias="attention_bias", out_bias="attention_out_bias", ffn_bias="mlp_bias", defaults={"attention_bias": True}
    ),
    "mistral": Family(windows="all"),
    "mixtral": Family(windows="all"),
    "phi3": Family(windows="all"),
    "phimoe": Family(norm="layer", **_SWITCHED, head_bias="lm_head_bias", windows="all"),
    "qwen2": Family(qkv_bias=True, windows="switch"),
    "qwen2_moe": Family(qkv_bias="qkv_bias", shared_expert="gated", windows="switch", defaults={"qkv_bias": True}),
    "qwen3": Family(**_SWITCHED, qk_norm="head", windows="switch"),
    "qwen3_moe": Family(**_SWITCHED, qk_norm="head", windows="switch"),
    "gemma": Family(**_SWITCHED, **_TIED),
    "gemma2": Family(**_GEMMA, windows=2),
    "gemma3_text": Family(**_GEMMA, qk_norm="head", windows=6),
    "vaultgemma": Family(**{**_GEMMA, "block_norms": 2}, windows=2),
    "gpt2": Family(**_OLD, **_ALL_BIASED, positions=0),
    "gpt_bigcode": Family(**_OLD, **_ALL_BIASED, positions=0),
    "openai-gpt": Family(**_OLD, **_ALL_BIASED, positions=0, final_norm=False),
    "gpt_neo": Family(**_OLD, out_bias=True, ffn_bias=True, positions=0),
    "gptj": Family(gated=False, **_LAYER, block_norms=1, ffn_bias=True, head_bias=True),
    "codegen": Family(gated=False, **_LAYER, block_norms=1, ffn_bias=True, head_bias=True),
    "gpt_neox": Family(gated=False, **_LAYER, qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias=True,
                       defaults={"attention_bias": True}),
    "opt": Family(gated=False, **_LAYER, qkv_bias="enable_bias", out_bias="enable_bias", ffn_bias="enable_bias",
                  positions=2, defaults={"tie_word_embeddings": True, "enable_bias": True}),
    "biogpt": Family(**_OLD, **_ALL_BIASED, positions=2),
    "xglm": Family(**_OLD, **_ALL_BIASED),
    "ctrl": Family(**_OLD, **_ALL_BIASED, head_bias=True),
    "bloom": Family(**_OLD, **_ALL_BIASED, embedding_norm=True),
    "mpt": Family(gated=False, **_TIED),
    "falcon": Family(gated=False, **_LAYER, block_norms=1, qkv_bias="bias", out_bias="bias", ffn_bias="bias", **_TIED),
    "phi": Family(gated=False, **_LAYER, block_norms=1, **_ALL_BIASED, head_bias=True, qk_norm="head with bias",
                  qk_norm_switch="qk_layernorm"),
    "persimmon": Family(gated=False, **_LAYER, **_ALL_BIASED, qk_norm="head with bias", qk_norm_switch="qk_layernorm",
                        defaults={"qk_layernorm": True}),
    "stablelm": Family(**_LAYER, qkv_bias="use_qkv_bias"),
    "starcoder2": Family(gated=False, **_LAYER, qkv_bias="use_bias", out_bias="use_bias", ffn_bias="use_bias",
                         windows="all", defaults={"tie_word_embeddings": True, "use_bias": True}),
    "olmo": Family(**_SWITCHED, norm="none"),
    "olmo2": Family(**_SWITCHED, qk_norm="width"),
    "olmo3": Family(**_SWITCHED, qk_norm="width", windows=4),
    "olmoe": Family(**_SWITCHED, qk_norm="width"),
    "cohere": Family(**_SWITCHED, **_TIED, block_norms=1),
    "cohere2": Family(**_SWITCHED, **_TIED, block_norms=1, windows=4),
    "glm": Family(**_GLM),
    "glm4": Family(**_GLM, block_norms=4),
    "glm4_moe": Family(qkv_bias="attention_bias", qk_norm="head", qk_norm_switch="use_qk_norm"),
    "exaone4": Family(qk_norm="head", windows=4),
    "ernie4_5": Family(qkv_bias="use_bias", out_bias="use_bias", ffn_bias="use_bias", **_TIED),
    "apertus": Family(**_SWITCHED, gated=False, qk_norm="head", extra=2),
    "bitnet": Family(**_SWITCHED, sub_norms=True),
    "diffllama": Family(**_SWITCHED, extra_heads=4),
    "granitemoe": Family(**_SWITCHED),
    "gpt_oss": Family(**_SWITCHED, windows=2, sinks=True, router_bias=True, expert_bias=True,
                      defaults={"attention_bias": True}),
    "llama4_text": Family(**_SWITCHED, shared_expert="one", windows=4),
    "deepseek_v2": Family(**_SWITCHED),
    "deepseek_v3": Family(**_SWITCHED),
}  # fmt: skip
