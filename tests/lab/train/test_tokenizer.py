"""The tokenizer round-trips any string; digits are single, words keep their space, and token 0 begins a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from headscope.errors import InputError
from headscope.lab.train.text_files import (
    START,
    START_ID,
    load_tokenizer,
    save_tokenizer,
    train_tokenizer,
)

TEXT = ["The horse crossed the road in 1984; it's the 1984 horse, isn't it?\n"] * 20
MADE = train_tokenizer(TEXT, 320)


def pieces(text: str) -> list[str]:
    return [MADE.decode([token]) for token in MADE.encode(text, add_special_tokens=False).ids]


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_string_decodes_from_its_tokens(text: str) -> None:
    ids = MADE.encode(text).ids
    assert ids[0] == START_ID
    assert MADE.decode(ids[1:]) == text


@settings(deadline=None)
@given(st.text(alphabet="0123456789 ab.", max_size=30))
def test_no_token_holds_two_digits_or_a_digit_and_a_letter(text: str) -> None:
    assert all(piece.strip().isdigit() == (len(piece.strip()) == 1) for piece in pieces(text) if any(map(str.isdigit, piece)))  # fmt: skip  # noqa: E501


def test_a_saved_tokenizer_loads(tmp_path: Path) -> None:
    save_tokenizer(MADE, tmp_path, 64)
    assert load_tokenizer(tmp_path / "tokenizer.json").to_str() == MADE.to_str()
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert (config["bos_token"], config["model_max_length"]) == (START, 64)


def test_a_tokenizer_without_our_start_token_is_refused(tmp_path: Path) -> None:
    Tokenizer(models.BPE(vocab={"a": 0, START: 1}, merges=[])).save(str(tmp_path / "other.json"))
    with pytest.raises(InputError, match=r"other\.json has no <\|start\|> as token 0; train one with train_tokenizer"):
        load_tokenizer(tmp_path / "other.json")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe", b"[1, 2"])
def test_a_file_that_is_not_a_tokenizer_is_rejected(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(
        InputError, match=r"tokenizer\.json is damaged or in a different format .*that a training run wrote"
    ):
        load_tokenizer(file)
