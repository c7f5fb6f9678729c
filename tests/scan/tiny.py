"""A small model for scans: two layers of headscope's attention over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.models.native import NativeModel

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "that",
    "it",
    "was",
    "good",
    ";",
    "no",
    "dog",
    "came",
    ".",
]


class Bytes:
    """A tokenizer with one token per byte; with ``start``, token 256 before every text."""

    is_fast = False

    def __init__(self, start: bool = False) -> None:
        self.start = start

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        ids = list(text.encode())
        return {"input_ids": [256, *ids] if self.start and add_special_tokens else ids}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join("<s>" if token == 256 else chr(token) for token in ids)

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.decode([token])


class TinyModel(nn.Module):
    """Embedding, two attention layers in a residual stream, logits."""

    def __init__(self, seed: int = 0, context: int = 64, absolute: bool = False) -> None:
        super().__init__()
        self.config = SimpleNamespace(context=context)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(257, 16)
            self.places = nn.Embedding(context, 16) if absolute else None
            rope = None if absolute else Rope(8)
            self.layers = nn.ModuleList(
                MultiHeadAttention(16, n_heads=2, n_kv_heads=1, d_head=8, rope=rope) for _ in range(2)
            )
            self.unembedding = nn.Linear(16, 257)
        for weight in self.parameters():
            weight.data.mul_(3.0)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        if self.places is not None:
            x = x + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = x + layer(x, mask=causal())
        return self.unembedding(x)  # type: ignore[no-any-return]


def open_tiny(seed: int = 0, context: int = 64, start: bool = False, absolute: bool = False) -> NativeModel:
    return NativeModel(TinyModel(seed, context, absolute), Bytes(start), name="tiny")


def texts(count: int = 40, seed: int = 0) -> list[str]:
    """Documents of very different lengths, with repetitions in them."""
    chance = torch.Generator().manual_seed(seed)
    words = WORDS

    def word() -> str:
        return words[int(torch.randint(len(words), (1,), generator=chance))]

    return [" ".join(word() for _ in range(2 + int(torch.randint(60, (1,), generator=chance)))) for _ in range(count)]


SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}


def family(name: str) -> Any:
    """A small transformers model of a family, with sharp attention."""
    import transformers as t

    made = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=64)),
        "gemma2": lambda: t.Gemma2ForCausalLM(
            t.Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=8, sliding_window=6, max_position_embeddings=64)
        ),
        "roberta": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**SIZES, max_position_embeddings=66)),
        "t5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=300, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0)
        ),
        "llama4, in chunks of 24": lambda: t.Llama4ForCausalLM(
            t.Llama4TextConfig(
                **SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=64, attention_chunk_size=24,
                num_local_experts=2, intermediate_size_mlp=32, no_rope_layers=[1, 1], pad_token_id=None,
            )
        ),
        "phi3, rotations changed after 20": lambda: t.Phi3ForCausalLM(
            t.Phi3Config(
                **SIZES, num_key_value_heads=2, max_position_embeddings=64, original_max_position_embeddings=20,
                pad_token_id=None, rope_parameters={
                    "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 1e4,
                    "original_max_position_embeddings": 20,
                },
            )
        ),
        "deberta, with a convolution": lambda: t.DebertaV2ForMaskedLM(
            t.DebertaV2Config(
                **SIZES, max_position_embeddings=64, relative_attention=True, pos_att_type=["c2p", "p2c"],
                conv_kernel_size=3, conv_act="gelu",
            )
        ),
    }  # fmt: skip
    torch.manual_seed(0)
    model = made[name]().eval()
    for weight in model.parameters():
        weight.data.mul_(4.0 if weight.ndim > 1 else 1.0)
    return model
