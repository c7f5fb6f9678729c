"""Tokenizers from strangers: rules that multiply a text, patterns that never end, texts without end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import headscope
from headscope.errors import InputError
from headscope.models.inputs.bounded_encoding import BEGINNING, MOST_CHARACTERS, GrowthLimit
from headscope.models.inputs.tokens import InputProcessor


def processor(context: int | None = 64, **parts: Any) -> InputProcessor:
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    for name, part in parts.items():
        setattr(backend, name, part)
    return InputProcessor(PreTrainedTokenizerFast(tokenizer_object=backend), vocabulary=2, context=context)


MULTIPLYING = {
    "three replacements": normalizers.Sequence([normalizers.Replace("a", "a" * 1000) for _ in range(3)]),
    "nested": normalizers.Sequence([normalizers.Sequence([normalizers.Replace("a", "aa")] * 10)] * 4),
    "look-ahead": normalizers.Sequence([normalizers.Replace(Regex("(?=a)"), "a")] * 40),
    "every place": normalizers.Sequence([normalizers.Replace(Regex(""), "ab")] * 30),
    "one enormous": normalizers.Replace("a", "b" * 10**7),
    "prepended, then multiplied": normalizers.Sequence(
        [normalizers.Prepend("a" * 60_000), normalizers.Replace("a", "a" * 1000)]
    ),
    "matched at the end": normalizers.Sequence([normalizers.Replace(Regex("$"), "b" * 10**6)] * 9),
}


@pytest.mark.parametrize("rules", MULTIPLYING.values(), ids=MULTIPLYING.keys())
def test_normalizers_that_multiply_a_text_are_refused_before_they_do(rules: Any) -> None:
    reader = processor(normalizer=rules)
    for read in (reader.prepare, reader.token_ids):
        with pytest.raises(InputError, match=r"tokenizer lengthens the text past 4,194,304 characters"):
            read("a banana " * 10)
        with pytest.raises(InputError, match=r"tokenizer lengthens the text past 4,194,304 characters"):
            read("a")


def test_a_template_that_adds_too_many_tokens_is_refused() -> None:
    for count, refused in ((64, False), (65, True)):
        added = processors.TemplateProcessing(single="X " * 64 + "$A", pair="$A $B", special_tokens=[special(count)])
        reader = processor(context=None, post_processor=processors.Sequence([added]))
        if not refused:
            assert len(reader.prepare("a").tokens) == 4_097
            continue
        for read in (reader.prepare, reader.token_ids):
            with pytest.raises(InputError, match=r"adds 4,160 tokens to every text, and at most 4,096 are read"):
                read("a")


def special(count: int) -> dict[str, Any]:
    return {"id": "X", "ids": [0] * count, "tokens": ["a"] * count}


def test_a_decoder_that_multiplies_what_it_writes_is_stopped_in_a_child() -> None:
    reader = processor(decoder=decoders.Sequence([decoders.Replace("a", "a" * 1000)] * 3))
    for read in (lambda: reader.decode(torch.tensor([0])), lambda: reader.text_of(0)):
        with pytest.raises(InputError, match=r"tokenizer (was stopped|gives up) on"):
            read()
    assert reader.text_of(1) == "[UNK]"


def test_bytes_of_bytes_of_bytes_are_refused() -> None:
    steps = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)] * 40)
    with pytest.raises(InputError, match="tokenizer lengthens the text"):
        processor(pre_tokenizer=steps).token_ids("é")


def test_ordinary_rules_are_left_alone() -> None:
    ordinary = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(" ", "▁"), normalizers.Replace(Regex(" {2,}"), " "),
         normalizers.Prepend("▁"), normalizers.Lowercase()]
    )  # fmt: skip
    reader = processor(normalizer=ordinary)
    assert reader.token_ids("a") == [1]
    GrowthLimit(reader.tokenizer).check("a b c " * 100_000)
    assert GrowthLimit(headscope.load().model.processor.tokenizer).normalized(1) < 1_000


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
        with pytest.raises(InputError, match=r"tokenizer gives up on the text \(Onig: Regex search error: retry-limit"):
            read("a" * 60 + "b")


def test_a_decoder_that_panics_is_a_sentence() -> None:
    backend = Tokenizer(models.WordLevel({"a" * 60 + "b": 0, "[UNK]": 1}, unk_token="[UNK]"))
    backend.decoder = decoders.Sequence([decoders.Replace(Regex("(a|aa)+$"), "b")])
    reader = InputProcessor(PreTrainedTokenizerFast(tokenizer_object=backend), vocabulary=2, context=64)
    with pytest.raises(InputError, match="tokenizer gives up on these tokens"):
        reader.decode(torch.tensor([0]))
    with pytest.raises(InputError, match="tokenizer gives up on token 0"):
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
