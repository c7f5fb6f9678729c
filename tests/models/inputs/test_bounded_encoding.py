"""How far a tokenizer's rules may lengthen a text, and how long it may be: at exactly the limits."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from headscope.errors import InputError
from headscope.models.inputs import bounded_encoding
from headscope.models.inputs.bounded_encoding import GrowthLimit, _length_after, panics_as_errors, parts_of


def limit(**parts: Any) -> GrowthLimit:
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    for name, part in parts.items():
        setattr(backend, name, part)
    return GrowthLimit(PreTrainedTokenizerFast(tokenizer_object=backend))


@pytest.mark.parametrize(
    ("parts", "factor"),
    [
        ({}, 1),
        ({"normalizer": normalizers.Replace("a", "xyz")}, 4),
        ({"normalizer": normalizers.Replace("a", "")}, 1),
        ({"normalizer": normalizers.NFKC()}, 18),
        ({"normalizer": normalizers.NFKD()}, 18),
        ({"normalizer": normalizers.NFD()}, 4),
        ({"normalizer": normalizers.ByteLevel()}, 4),
        ({"normalizer": normalizers.NFC()}, 3),
        ({"normalizer": normalizers.Lowercase()}, 3),
        ({"normalizer": normalizers.BertNormalizer()}, 12),
        ({"normalizer": normalizers.Strip()}, 1),
        ({"normalizer": normalizers.Sequence([normalizers.NFC(), normalizers.Replace("a", "b")])}, 6),
        ({"pre_tokenizer": pre_tokenizers.ByteLevel()}, 2),
        ({"pre_tokenizer": pre_tokenizers.Whitespace()}, 1),
        ({"normalizer": normalizers.NFC(), "pre_tokenizer": pre_tokenizers.ByteLevel()}, 6),
        ({"normalizer": normalizers.Sequence([normalizers.NFKC()] * 30)}, 2**60),
        ({"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 59)}, 2**59),
        ({"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 61)}, 2**60),
    ],
)
def test_rules_make_so_many_characters_of_one_at_most(parts: dict[str, Any], factor: int) -> None:
    made = limit(**parts)
    assert min(made.normalized(1) * made.splitting, 2**60) == factor


def test_other_tokenizers_have_no_rules() -> None:
    for other in (GrowthLimit(None), GrowthLimit(object())):
        assert (other.normalized(7), other.splitting, other.decoded(["ab", "c"]), other.added) == (7, 1, 3, 0)
    assert parts_of(None) == parts_of(object()) == []


@pytest.mark.parametrize(
    ("parts", "longest"),
    [
        ({}, 12),
        ({"normalizer": normalizers.Replace("a", "aa")}, 6),
        ({"normalizer": normalizers.Replace("b", "bb")}, 12),
        ({"normalizer": normalizers.Prepend("xy")}, 10),
        ({"pre_tokenizer": pre_tokenizers.ByteLevel()}, 12),
        ({"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 2)}, 6),
    ],
)
def test_a_text_may_be_as_long_as_the_limit_after_its_rules(monkeypatch, parts: dict[str, Any], longest: int) -> None:
    monkeypatch.setattr(bounded_encoding, "MOST_CHARACTERS", 12)
    checked = limit(**parts)
    checked.check("a" * longest)
    said = "the text has 13 characters; at most 12 are read at once" if longest == 12 else "lengthens the text past 12"
    with pytest.raises(InputError, match=said):
        checked.check("a" * (longest + 1))


@pytest.mark.parametrize(
    ("step", "length"),
    [
        ({"type": "Replace", "pattern": {"String": "ab"}, "content": "xyz"}, 8),
        ({"type": "Replace", "pattern": {"String": "ab"}, "content": ""}, 2),
        ({"type": "Replace", "pattern": {"Regex": "a"}, "content": "xyz"}, 27),
        ({"type": "Prepend", "prepend": "▁▁"}, 8),
        ({"type": "NFD"}, 24),
        ({"type": "Precompiled"}, 108),
        ({"type": "Strip"}, 6),
    ],
)
def test_the_length_after_one_rule_is_bounded_before_it_is_run(step: dict[str, Any], length: int) -> None:
    assert _length_after(step, "ab ab ") == length


@pytest.mark.parametrize(("count", "refused"), [(48, False), (49, True)])
def test_a_rule_may_make_four_times_the_limit_if_the_next_shortens_it(monkeypatch, count: int, refused: bool) -> None:
    monkeypatch.setattr(bounded_encoding, "MOST_CHARACTERS", 12)
    rules = [normalizers.Replace("a", "b" * count), normalizers.Replace("bbbb", "")]
    checked = limit(normalizer=normalizers.Sequence(rules))
    with pytest.raises(InputError, match="lengthens the text past 12") if refused else nullcontext():
        checked.check("a")


@pytest.mark.parametrize(
    ("error", "said"),
    [(Exception("first\nsecond"), r"\(first\)"), (Exception(""), "no reason given"), (Exception("x" * 300), "x" * 200)],
)
def test_bare_exceptions_of_the_library_are_errors_in_words(error: Exception, said: str) -> None:
    with pytest.raises(InputError, match=said) as told, panics_as_errors("the text"):
        raise error
    assert "x" * 201 not in str(told.value)
    with pytest.raises(ValueError, match="ours"), panics_as_errors("the text"):
        raise ValueError("ours")
