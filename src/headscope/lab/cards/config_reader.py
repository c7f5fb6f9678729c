"""Read a model's sizes from its config.json: heads, KV heads, windows, experts, latent attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headscope.errors import InputError

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


AttentionName = Literal["MHA", "GQA", "MQA", "MLA"]
EXAMPLE = '{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}'

KEYS = {
    "d_model": ("hidden_size", "n_embd", "d_model"),
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads", "decoder_attention_heads"),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
    "d_head": ("head_dim", "d_kv", "kv_channels"),
    "d_ff": ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff", "dff", "decoder_ffn_dim"),
    "vocabulary": ("vocab_size",),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
}

MORE_SIZES = (
    "attention_chunk_size",
    "expansion_ratio",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "moe_intermediate_size",
    "n_shared_experts",
    "num_experts_per_tok",
    "num_experts_per_token",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "shared_expert_intermediate_size",
    "sliding_window",
    "v_head_dim",
    "window_size",
)
"""Sizes that only some families have."""

LARGEST = dict.fromkeys(KEYS, 1_000_000_000) | {"n_layers": 10_000, "n_heads": 100_000, "n_kv_heads": 100_000}


@dataclass(frozen=True, kw_only=True)
class _Latent:
    """Multi-head latent attention: one compressed vector per token is cached, and a rotary part shared by all heads."""

    kv_rank: int
    q_rank: int | None
    d_nope: int
    d_rope: int
    d_value: int


@dataclass(frozen=True, kw_only=True)
class _Experts:
    """A mixture of experts: ``used`` of ``count`` FFNs per token, and a shared one of ``shared_width``."""

    count: int
    used: int
    width: int
    shared_width: int


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of a model.

    ``windows`` has one entry per layer: its sliding window, None for full attention, 0 for a layer without heads.
    """

    model_type: str
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    d_ff: int | None
    vocabulary: int | None
    context: int | None
    tied: bool
    windows: tuple[int | None, ...]
    latent: _Latent | None
    experts: _Experts | None
    dense_layers: int
    decodes: bool
    family: Family
    known: bool
    config: Mapping[str, Any]

    @property
    def kind(self) -> AttentionName:
        if self.latent is not None:
            return "MLA"
        return "MHA" if self.n_kv_heads == self.n_heads else "MQA" if self.n_kv_heads == 1 else "GQA"

    @property
    def attention_layers(self) -> int:
        return sum(window != 0 for window in self.windows)

    def on(self, switch: Switch) -> bool:
        """Whether a switch of the family is on: always, never, or as the config or the family's default says."""
        if isinstance(switch, bool):
            return switch
        return bool(self.config.get(switch, self.family.defaults.get(switch, False)))


def read_config(config: Mapping[str, Any]) -> Architecture:
    """Read the sizes of the language model that a config.json describes."""
    config = _text_part(config)
    for key in MORE_SIZES:
        value = config.get(key)
        if isinstance(value, int | float) and not 0 <= value <= LARGEST["d_ff"]:
            raise InputError(f"{key} is {value!r} in this config; give 0 to {LARGEST['d_ff']:,}, or leave it out")
    model_type = str(config.get("model_type", "unknown"))
    family = FAMILIES.get(model_type, LLAMA)
    n_heads, d_model, n_layers = _required(config, model_type)
    latent = _latent(config)
    n_kv_heads = _kv_heads(config, family, n_heads)
    d_head = latent.d_nope + latent.d_rope if latent else _whole(config, "d_head") or d_model // n_heads
    if latent is None and _whole(config, "d_head") is None and d_model % n_heads:
        raise InputError(
            f"hidden_size {d_model} does not divide into {n_heads} heads, and the config gives no head_dim; add it"
        )
    experts, built = _experts(config, family), " ".join(config.get("architectures") or ())
    return Architecture(
        model_type=model_type,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        d_value=latent.d_value if latent else d_head,
        d_ff=_dense_width(config, d_model, family, model_type),
        vocabulary=_whole(config, "vocabulary"),
        context=_whole(config, "context"),
        tied=bool(config.get("tie_word_embeddings", family.defaults.get("tie_word_embeddings", False))),
        windows=_windows(config, family, n_layers),
        latent=latent,
        experts=experts,
        dense_layers=_dense_layers(config, n_layers) if experts else n_layers,
        decodes=model_type not in _ENCODERS and not any(word in built for word in ("MaskedLM", "ForSequence")),
        family=family,
        known=model_type in FAMILIES,
        config=config,
    )


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of the language model inside a multimodal one, else the config itself."""
    for name in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping) and any(key in inner for key in KEYS["n_heads"]):
            return inner
    return config


def _whole(config: Mapping[str, Any], name: str) -> int | None:
    for key in KEYS[name]:
        value = config.get(key)
        if isinstance(value, bool) or value is None:
            continue
        if not isinstance(value, int | float) or not 0 <= value <= LARGEST[name] or value != int(value):
            raise InputError(
                f"{key} is {value!r} in this config; a whole number from 0 to {LARGEST[name]:,} was expected, "
                f"as in {EXAMPLE}"
            )
        return int(value)
    return None


def _required(config: Mapping[str, Any], model_type: str) -> tuple[int, int, int]:
    n_heads, d_model, n_layers = (_whole(config, name) for name in ("n_heads", "d_model", "n_layers"))
    if not n_heads:
        raise InputError(
            f"this config ({model_type}) names no attention heads: a model without attention, such as Mamba, has no "
            f"heads to count. A card needs at least {EXAMPLE}"
        )
    if not d_model or not n_layers:
        raise InputError(
            f"this config ({model_type}) gives {d_model=} and {n_layers=}; a card needs at least {EXAMPLE}"
        )
    return n_heads, d_model, n_layers


def _kv_heads(config: Mapping[str, Any], family: Family, n_heads: int) -> int:
    given, model_type = _whole(config, "n_kv_heads"), config.get("model_type")
    old_falcon = model_type == "falcon" and not config.get("new_decoder_architecture")
    if old_falcon or (model_type == "gpt_bigcode" and given is None):
        given = 1 if config.get("multi_query", True) else n_heads
    count = given or int(family.defaults.get("num_key_value_heads", n_heads))
    if n_heads % count:
        raise InputError(f"{n_heads} heads cannot share {count} KV heads evenly; use a divisor of {n_heads}")
    return count


def _latent(config: Mapping[str, Any]) -> _Latent | None:
    rank = config.get("kv_lora_rank")
    if not rank:
        return None
    sizes = {key: config.get(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    nope, rope, value = (size if isinstance(size, int) else 0 for size in sizes.values())
    if not (nope and rope and value):
        raise InputError(f"a config with kv_lora_rank (MLA) needs {', '.join(sizes)} too; got {sizes}")
    return _Latent(kv_rank=int(rank), q_rank=config.get("q_lora_rank"), d_nope=nope, d_rope=rope, d_value=value)


def _dense_width(config: Mapping[str, Any], d_model: int, family: Family, model_type: str) -> int | None:
    if model_type == "llama4_text":
        return int(config.get("intermediate_size_mlp", 0)) or None
    if isinstance(config.get("expansion_ratio"), int):
        return int(config["expansion_ratio"]) * d_model
    width = _whole(config, "d_ff")
    return width or (None if family.gated else 4 * d_model)


def _experts(config: Mapping[str, Any], family: Family) -> _Experts | None:
    count = _whole(config, "n_experts")
    width = config.get("moe_intermediate_size") or config.get("intermediate_size")
    used = config.get("num_experts_per_tok") or config.get("num_experts_per_token")
    if not count or count < 2 or not width or config.get("is_moe") is False:
        return None
    if int(used or 1) > count:
        raise InputError(f"this config uses {used} experts per token and has {count}; use at most {count}")
    shared = int(config.get("n_shared_experts") or 0) * int(width)
    if family.shared_expert == "gated":
        shared = int(config.get("shared_expert_intermediate_size") or 0)
    if family.shared_expert == "one":
        shared = int(width)
    return _Experts(count=count, used=int(used or 1), width=int(width), shared_width=shared)


def _dense_layers(config: Mapping[str, Any], n_layers: int) -> int:
    """Count the layers of a mixture of experts that have a dense FFN."""
    chosen = config.get("moe_layers")
    if isinstance(chosen, list):
        return sum(layer not in chosen for layer in range(n_layers))
    step = int(config.get("interleave_moe_layer_step") or config.get("decoder_sparse_step") or 1)
    plain = set(config.get("mlp_only_layers") or ())
    sparse = [layer for layer in range(n_layers) if (layer + 1) % step == 0 and layer not in plain]
    first = int(config.get("first_k_dense_replace") or 0)
    return n_layers - len([layer for layer in sparse if layer >= first])


def _windows(config: Mapping[str, Any], family: Family, n_layers: int) -> tuple[int | None, ...]:
    chunk = config.get("attention_chunk_size")
    width = config.get("sliding_window") or config.get("window_size")
    kinds = config.get("layer_types") or config.get("attention_layers")
    if isinstance(kinds, list) and len(kinds) == n_layers:
        return tuple(_window(str(kind), width, chunk) for kind in kinds)
    width, rule = chunk if config.get("model_type") == "llama4_text" else width, family.windows
    if not width or rule == "none" or (rule == "switch" and not config.get("use_sliding_window")):
        return (None,) * n_layers
    if isinstance(rule, int):
        period = int(config.get("sliding_window_pattern") or rule)
        return tuple(None if (layer + 1) % period == 0 else int(width) for layer in range(n_layers))
    first = int(config.get("max_window_layers") or 0) if rule == "switch" else 0
    return tuple(int(width) if layer >= first else None for layer in range(n_layers))


def _window(kind: str, width: int | None, chunk: int | None) -> int | None:
    """The window of a layer of this kind: None for full attention, 0 for a layer without heads."""
    if kind in ("sliding_attention", "local", "chunked_attention"):
        size = chunk if kind == "chunked_attention" else width
        return int(size) if size else None
    return None if kind == "global" or ("attention" in kind and "linear" not in kind) else 0


_ENCODERS = {
    "bert",
    "roberta",
    "distilbert",
    "electra",
    "albert",
    "deberta",
    "deberta-v2",
    "modernbert",
    "vit",
    "mpnet",
}
