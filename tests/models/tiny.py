"""Build tiny random models and tokenizers."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 97,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


NO_WORDS = {key: value for key, value in SIZES.items() if "token" not in key and key != "vocab_size"}


def build(config: str, model: str, **sizes: Any) -> PreTrainedModel:
    """A small random model whose attention is far from uniform."""
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**sizes))
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if weight.ndim == 2 and "embed" not in name:
                weight.normal_(0, 1.4 * weight.shape[-1] ** -0.5)
    return made.eval()  # type: ignore[no-any-return]


def llama(**more: Any) -> PreTrainedModel:
    sizes = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 128, **more}
    return build("LlamaConfig", "LlamaForCausalLM", **sizes)


def gpt2(**more: Any) -> PreTrainedModel:
    sizes = {
        "n_embd": 32,
        "n_head": 4,
        "n_layer": 2,
        "vocab_size": 97,
        "n_positions": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return build("GPT2Config", "GPT2LMHeadModel", **{**sizes, **more})


def t5(**more: Any) -> PreTrainedModel:
    sizes = {
        "d_model": 32,
        "d_kv": 8,
        "num_heads": 4,
        "num_layers": 2,
        "d_ff": 48,
        "vocab_size": 97,
        "decoder_start_token_id": 0,
    }
    return build("T5Config", "T5ForConditionalGeneration", **{**sizes, **more})


def opt(**more: Any) -> PreTrainedModel:
    """Like OPT-350M: a norm on the residual stream after every addition."""
    sizes = {**SIZES, "ffn_dim": 48, "max_position_embeddings": 64, "word_embed_proj_dim": 32}
    return build("OPTConfig", "OPTForCausalLM", **{**sizes, "do_layer_norm_before": False, **more})


def vit(**more: Any) -> PreTrainedModel:
    """Pictures of 4 × 4 patches."""
    return build("ViTConfig", "ViTModel", **{**NO_WORDS, "image_size": 32, "patch_size": 8, **more})


def clip() -> PreTrainedModel:
    """A text and a picture of 2 × 2 patches."""
    tower = {key: value for key, value in SIZES.items() if key != "pad_token_id"}
    text = {**tower, "max_position_embeddings": 20, "eos_token_id": 2}
    vision = {**NO_WORDS, "image_size": 16, "patch_size": 8}
    return build("CLIPConfig", "CLIPModel", text_config=text, vision_config=vision, projection_dim=16)


def vit_classifier() -> PreTrainedModel:
    """Pictures of 4 × 4 patches, put into one of five classes."""
    names = dict(enumerate(("cat", "dog", "horse", "road", "river")))
    sizes = {**NO_WORDS, "image_size": 32, "patch_size": 8, "initializer_range": 0.2}
    return build("ViTConfig", "ViTForImageClassification", **sizes, id2label=names, label2id=None)


def llava() -> PreTrainedModel:
    """A picture of 4 × 4 patches within a text; token 13 stands for a patch."""
    from transformers import CLIPVisionConfig, LlamaConfig

    vision = CLIPVisionConfig(**NO_WORDS, image_size=32, patch_size=8)
    text = LlamaConfig(**{**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64})
    return build(
        "LlavaConfig", "LlavaForConditionalGeneration", vision_config=vision, text_config=text, image_token_id=13,
        image_seq_length=16, vision_feature_layer=-1, vision_feature_select_strategy="default",
    )  # fmt: skip


def whisper() -> PreTrainedModel:
    """A second of sound in 50 positions, and a text."""
    return build(
        "WhisperConfig", "WhisperForConditionalGeneration", d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=97,
        num_mel_bins=8, max_source_positions=50, max_target_positions=40, decoder_start_token_id=1, pad_token_id=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip


def tokenizer() -> PreTrainedTokenizerFast:
    """Words split at spaces; enough to read a sentence."""
    words = [
        "[pad]",
        "[start]",
        "[end]",
        "[unknown]",
        "the",
        "horse",
        "crossed",
        "road",
        "because",
        "it",
        "was",
        "tired",
        ".",
    ]
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[unknown]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[unknown]", eos_token="[end]", pad_token="[pad]")
