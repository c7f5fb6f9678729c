"""Save a GPT as a Llama folder for transformers (config.json, safetensors, tokenizer), and load it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import Tensor

from headscope.errors import ModelError
from headscope.files import write_atomic
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.text_files import START_ID, save_tokenizer

OURS_TO_LLAMA = (
    ("embedding.", "model.embed_tokens."),
    ("blocks.", "model.layers."),
    (".attention.", ".self_attn."),
    (".attention_norm.", ".input_layernorm."),
    (".mlp_norm.", ".post_attention_layernorm."),
)

LONGER_CONTEXT = 4  # rotary positions extend past the trained context: the folder allows this many times its length


def _to_llama(name: str) -> str:
    """Translate our name of a weight to Llama's."""
    for ours, llama in OURS_TO_LLAMA:
        name = name.replace(ours, llama)
    return name if name.startswith("model.") else f"model.{name}"


def _from_llama(name: str) -> str:
    """Translate Llama's name of a weight to ours."""
    for ours, llama in OURS_TO_LLAMA:
        name = name.replace(llama, ours)
    return name.removeprefix("model.")


def llama_config(config: GPTConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The config.json with which transformers builds the same model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocabulary,
        "hidden_size": config.d_model,
        "intermediate_size": config.mlp_width,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": LONGER_CONTEXT * config.context,
        "trained_context": config.context,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": START_ID,
        "eos_token_id": START_ID,
        "dtype": str(dtype).removeprefix("torch."),
    }


def gpt_config(llama: dict[str, Any]) -> GPTConfig:
    """Read our sizes from a config.json; reject a model that our GPT cannot represent."""
    plain = llama.get("tie_word_embeddings") and not llama.get("attention_bias") and not llama.get("mlp_bias")
    rope = llama.get("rope_parameters") or {"rope_theta": llama.get("rope_theta", 10_000.0)}
    if llama.get("model_type") != "llama" or not plain or rope.get("rope_type", "default") != "default":
        raise ModelError(
            "this config is not a Llama with tied embeddings, no biases and unscaled RoPE, as the lab's GPT is"
        )
    width, heads = llama["hidden_size"], llama["num_attention_heads"]
    d_head = llama.get("head_dim") or width // heads
    if d_head * heads != width:
        raise ModelError(f"{heads} heads × {d_head} is not hidden_size={width}, as the lab's GPT needs")
    return GPTConfig(
        vocabulary=llama["vocab_size"],
        d_model=llama["hidden_size"],
        n_layers=llama["num_hidden_layers"],
        n_heads=llama["num_attention_heads"],
        n_kv_heads=llama["num_key_value_heads"],
        d_mlp=llama["intermediate_size"],
        context=llama.get("trained_context", llama["max_position_embeddings"]),
        rope_base=float(rope["rope_theta"]),
        norm_eps=llama["rms_norm_eps"],
    )


def save_folder(model: GPT, tokenizer: Tokenizer, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write what ``AutoModelForCausalLM.from_pretrained(folder)`` needs, in place of an earlier save."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", llama_config(model.config, dtype))
    generation = {"bos_token_id": START_ID, "eos_token_id": START_ID, "do_sample": True, "temperature": 0.7}
    _write_json(folder / "generation_config.json", generation)
    save_tokenizer(tokenizer, folder, LONGER_CONTEXT * model.config.context)
    weights = {_to_llama(name): weight.detach().to("cpu", dtype) for name, weight in model.named_parameters()}
    data = save({key: weight.contiguous() for key, weight in weights.items()}, metadata={"format": "pt"})
    write_atomic(folder / "model.safetensors", data)


def load_folder(folder: Path) -> GPT:
    """Load a GPT in float32 from a Llama folder."""
    config = gpt_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    weights: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        weights |= {_from_llama(key): value.float() for key, value in load_file(file).items()}
    model = GPT(config)
    model.load_state_dict(weights)
    return model.eval()


def _write_json(file: Path, content: dict[str, Any]) -> None:
    write_atomic(file, (json.dumps(content, indent=2) + "\n").encode())
