"""Tokenizers whose patterns make their library panic, and texts that are too long."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import headscope
from headscope.errors import InputError
from headscope.models.inputs.tokens import BEGINNING, MOST_CHARACTERS, InputProcessor


def processor(context: int | None = 64, **parts: Any) -> InputProcessor:
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    for name, part in parts.items():
        setattr(backend, name, part)
    return InputProcessor(PreTrainedTokenizerFast(tokenizer_object=backend), vocabulary=2, context=context)


@pytest.mark.parametrize("part", ["pre_tokenizer", "normalizer"])
def test_a_pattern_that_backtracks_without_end_is_a_sentence(part: str) -> None:
    """The library gives up by a panic, which is no Exception."""
    pattern = Regex("(a|aa)+$")
    kinds = {
        "pre_tokenizer": pre_tokenizers.Split(pattern, "isolated"),
        "normalizer": normalizers.Replace(pattern, "b"),
    }
    reader = processor(**{part: kinds[part]})
    for read in (reader.prepare, reader.token_ids):
        with pytest.raises(InputError, match=r"tokenizer fails on the text \(Onig: Regex search error: retry-limit"):
            read("a" * 60 + "b")


def test_a_decoder_that_panics_is_a_sentence() -> None:
    backend = Tokenizer(models.WordLevel({"a" * 60 + "b": 0, "[UNK]": 1}, unk_token="[UNK]"))
    backend.decoder = decoders.Sequence([decoders.Replace(Regex("(a|aa)+$"), "b")])
    reader = InputProcessor(PreTrainedTokenizerFast(tokenizer_object=backend), vocabulary=2, context=64)
    with pytest.raises(InputError, match="tokenizer fails on these tokens"):
        reader.decode(torch.tensor([0]))
    with pytest.raises(InputError, match="tokenizer fails on token 0"):
        reader.text_of(0)


def test_a_million_letters_are_refused_by_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """One word of a million letters: no more than its beginning is tokenized."""
    reader, read = headscope.load().model.processor, []
    whole = type(reader.tokenizer).__call__

    def count(self: Any, text: str, **options: Any) -> Any:
        read.append(len(text))
        return whole(self, text, **options)

    monkeypatch.setattr(type(reader.tokenizer), "__call__", count)
    with pytest.raises(
        InputError, match=r"has 1,000,000 characters; the first 131,072 alone are [\d,]+ tokens, and this"
    ):
        reader.prepare("a" * 1_000_000)
    assert read == [BEGINNING]


def test_more_text_than_is_read_at_once_is_refused_before_it_is_tokenized() -> None:
    with pytest.raises(InputError, match="the text has 4,194,305 characters; at most 4,194,304 are read at once"):
        processor(context=None).prepare("a" * (MOST_CHARACTERS + 1))
