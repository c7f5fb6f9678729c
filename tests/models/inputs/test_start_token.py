"""A start token that a file asks for and its tokenizer leaves out is added, and that is said."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tests.models import tiny

import headscope
from headscope.models.inputs.tokens import add_start_token, gguf_start_token

WORDS = ["<s>", "</s>", "<unk>", "Ġthe", "Ġhorse", "t", "h", "e", "Ġ", "o", "r", "s", "th", "the", "Ġt", "Ġh"]
MERGES = ["t h", "th e", "Ġ t", "Ġ h"]
WIDTH, HEADS = 32, 4


def write_gguf(file: Path, *, start: bool | None) -> None:
    """A tiny Llama with a byte-pair tokenizer; ``start``: what its metadata says of a start token."""
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(48)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(WORDS) - 3))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if start is not None:
        writer.add_add_bos_token(start)
    draw = np.random.default_rng(0)
    shapes = {"token_embd": (len(WORDS), WIDTH), "output": (len(WORDS), WIDTH), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,), "blk.0.ffn_down": (WIDTH, 48)}
    shapes |= {"blk.0.ffn_gate": (48, WIDTH), "blk.0.ffn_up": (48, WIDTH)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize(("start", "expected"), [(True, True), (False, False), (None, None)])
def test_what_a_gguf_file_says(tmp_path: Path, start: bool | None, expected: bool | None) -> None:
    write_gguf(tmp_path / "tiny.gguf", start=start)
    assert gguf_start_token(gguf.GGUFReader(tmp_path / "tiny.gguf").fields) == (expected, 0)


@pytest.mark.filterwarnings("ignore")
def test_a_gguf_file_gets_the_start_token_it_asks_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for start in (True, False):
        write_gguf(tmp_path / f"{start}.gguf", start=start)
    with headscope.load(tmp_path / "True.gguf", dtype=torch.float32) as scope:
        assert "opening True.gguf: reading its tokenizer" in capfd.readouterr().err
        assert any("True.gguf says that texts begin with a start token" in note for note in scope.notes)
        read = [token.id for token in scope.look(" the").tokens]
        assert read[0] == 0
        assert read.count(0) == 1
    with headscope.load(tmp_path / "False.gguf", dtype=torch.float32) as scope:
        assert not [note for note in scope.notes if "start token" in note]
        assert 0 not in [token.id for token in scope.look(" the").tokens]


def test_a_tokenizer_that_disagrees_with_its_settings_is_mended_once() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.bos_token = "[start]"
    assert add_start_token(tokenizer, "its tokenizer_config.json", None) == ""
    tokenizer.init_kwargs["add_bos_token"] = True
    said = add_start_token(tokenizer, "its tokenizer_config.json", None)
    assert said.startswith("its tokenizer_config.json says that texts begin with a start token")
    assert tokenizer("the horse")["input_ids"] == [1, 4, 5]
    assert add_start_token(tokenizer, "its tokenizer_config.json", None) == ""
    assert tokenizer("the horse")["input_ids"] == [1, 4, 5]
