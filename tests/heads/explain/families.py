"""Tiny random models of the families whose residual streams differ most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.models import tiny
from transformers import PreTrainedModel

ROPE = {**tiny.SIZES, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}

LATENT = {
    **{name: value for name, value in ROPE.items() if name != "head_dim"}, "num_key_value_heads": 4,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}  # fmt: skip


def _drawn(model: PreTrainedModel) -> PreTrainedModel:
    """Gains, biases and embeddings that are not one or zero."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return model


FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2": lambda: _drawn(tiny.gpt2()),
    "llama": lambda: _drawn(tiny.llama()),
    "gemma3": lambda: _drawn(tiny.build("Gemma3TextConfig", "Gemma3ForCausalLM", **ROPE, sliding_window=8)),
    "qwen3": lambda: _drawn(tiny.build("Qwen3Config", "Qwen3ForCausalLM", **ROPE)),
    "bert": lambda: _drawn(tiny.build("BertConfig", "BertForMaskedLM", **tiny.SIZES)),
    "t5": lambda: _drawn(tiny.t5()),
    "opt": lambda: _drawn(tiny.opt()),
    "neox": lambda: _drawn(tiny.build("GPTNeoXConfig", "GPTNeoXForCausalLM", **tiny.SIZES)),
    "mixtral": lambda: _drawn(tiny.build("MixtralConfig", "MixtralForCausalLM", **ROPE, num_local_experts=4)),
    "olmo2": lambda: _drawn(tiny.build("Olmo2Config", "Olmo2ForCausalLM", **ROPE)),
    "deepseek": lambda: _drawn(tiny.build("DeepseekV3Config", "DeepseekV3ForCausalLM", **LATENT)),
}

IDS = torch.randint(3, 90, (1, 12), generator=torch.Generator().manual_seed(2))


def inputs_of(name: str) -> Any:
    """Token ids; for an encoder-decoder, of both sides."""
    ids = IDS[0].tolist()
    return {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]} if name == "t5" else ids
