"""Files with the names that the tasks of docs/tasks open, small enough to be made in a test."""

from __future__ import annotations

from pathlib import Path

import gguf
import torch
from tests.models import tiny
from tests.models.media import picture
from transformers import ViTImageProcessorPil
from transformers.convert_slow_tokenizer import bytes_to_unicode

GGUF = "SmolLM2-135M-Instruct-Q8_0.gguf"
CHAT = "{% for turn in messages %}<s>{{ turn.role }}: {{ turn.content }}\n{% endfor %}"


def furnish(folder: Path) -> None:
    """A GGUF file, texts, a base and a fine-tuned model, a vision model and a picture."""
    write_gguf(folder / GGUF)
    animals, ways = ("horse", "old man", "black dog", "cat", "ferry"), ("road", "river", "bridge", "field")
    lines = [f"The {a} crossed the {way} because it was {n}." for a in animals for way in ways for n in range(10)]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = tiny.llama()
    for name in ("base", "tuned"):
        model.save_pretrained(folder / name)
        tiny.tokenizer().save_pretrained(folder / name)
        with torch.no_grad():
            model.model.layers[1].self_attn.q_proj.weight.mul_(1.5)
    tiny.vit().save_pretrained(folder / "vit")
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder / "vit")
    picture().save(folder / "picture.png")


def write_gguf(file: Path) -> None:
    """A small model in llama.cpp's format, with a tokenizer of bytes and a chat template."""
    words = [*bytes_to_unicode().values(), "<s>", "</s>", "th"]
    model = tiny.llama(vocab_size=len(words), bos_token_id=256, eos_token_id=257)
    sizes = model.config
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(sizes.max_position_embeddings)
    writer.add_embedding_length(sizes.hidden_size)
    writer.add_block_count(sizes.num_hidden_layers)
    writer.add_feed_forward_length(sizes.intermediate_size)
    writer.add_head_count(sizes.num_attention_heads)
    writer.add_head_count_kv(sizes.num_key_value_heads)
    writer.add_layer_norm_rms_eps(sizes.rms_norm_eps)
    writer.add_vocab_size(sizes.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL])
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template(CHAT)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if (stored := names.get_name(name, try_suffixes=(".weight",))) is not None:
            writer.add_tensor(stored, weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
