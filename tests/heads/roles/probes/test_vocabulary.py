"""Vocabulary: added tokens, ordinary words, separators, and the positions of spans of text."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.heads.controls import AT, SIZES, WORDS, opened
from tests.lab.by_hand import HandSizes, by_hand
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from headscope.heads.roles.probes.vocabulary import TokenizedText, Vocabulary
from headscope.models.native import NativeModel
from headscope.models.protocol import Token


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary(opened(by_hand("induction", SIZES)))


def small(tokenizer: Tokenizer | None, size: int = 64) -> Vocabulary:
    return Vocabulary(NativeModel(by_hand("induction", HandSizes(vocabulary=size, context=96)), tokenizer, "small"))


def tokenizer_around(template: str) -> Tokenizer:
    listed = ["[a]", "[b]", "[c]", "?", "The", "horse", ".", ",", *(f"word{'abcdefghij'[n % 10] * (1 + n // 10)}" for n in range(56))]  # fmt: skip  # noqa: E501
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(listed)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [(name, at) for at, name in enumerate(("[a]", "[b]", "[c]"))]
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return made


@pytest.mark.parametrize(
    ("template", "prefix", "suffix", "rule"),
    [
        ("$A", (), (), "before nothing, after nothing"),
        ("[a] $A", (0,), (), "before [a], after nothing"),
        ("[a] [b] $A [c]", (0, 1), (2,), "before [a][b], after [c]"),
        ("$A [c] [b]", (), (2, 1), "before nothing, after [c][b]"),
    ],
)
def test_added_tokens_are_found_and_put_around_ids(
    template: str, prefix: tuple[int, ...], suffix: tuple[int, ...], rule: str
) -> None:
    vocabulary = small(tokenizer_around(template))
    assert (vocabulary.prefix, vocabulary.suffix) == (prefix, suffix)
    assert vocabulary.added_tokens == f"as the model's tokenizer does it: {rule}"
    ids = torch.tensor([[9, 10], [11, 12]])
    assert vocabulary.wrap(ids).tolist() == [[*prefix, *row, *suffix] for row in ids.tolist()]
    assert not set(vocabulary.ordinary.tolist()) & {*prefix, *suffix}


def test_ordinary_tokens_are_words_in_order_and_none_is_special(words: Vocabulary) -> None:
    ordinary = words.ordinary.tolist()
    assert ordinary == sorted(set(ordinary))
    assert all(WORDS[token].isalpha() and len(WORDS[token]) > 1 for token in ordinary)
    assert AT["<s>"] not in ordinary
    missing = {at for word, at in AT.items() if word.isalpha() and len(word) > 1} - set(ordinary)
    assert not missing, "a vocabulary smaller than the sample is read whole"


def test_tokens_overlap_their_spans_of_characters(words: Vocabulary) -> None:
    spelled = words.tokenize("the horse, not")
    assert [WORDS[token] for token in spelled.ids] == ["<s>", "the", "horse", ",", "not"]
    assert spelled.positions((4, 9)) == [2]
    assert spelled.positions((8, 11)) == [2, 3]
    assert spelled.positions((9, 10)) == [3]
    assert spelled.positions((3, 4)) == [], "the space between two words is of neither"


@given(
    st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 20), st.integers(0, 6))), max_size=6),
    st.tuples(st.integers(0, 22), st.integers(0, 22)),
)
def test_a_span_has_the_positions_of_the_tokens_that_overlap_it(
    drawn: list[tuple[int, int] | None], span: tuple[int, int]
) -> None:
    places = [None if each is None else (each[0], each[0] + each[1]) for each in drawn]
    tokens = tuple(Token(0, "x", *(each or (None, None))) for each in places)
    shared = [index for index, each in enumerate(places) if each is not None and set(range(*each)) & set(range(*span))]
    whole = [index for index in TokenizedText((0,) * len(tokens), tokens).positions(span) if places[index][0] < places[index][1] and span[0] < span[1]]  # type: ignore[index]  # fmt: skip  # noqa: E501
    assert whole == shared


def test_a_word_is_a_single_token_if_it_is_one_inside_a_sentence() -> None:
    """This tokenizer puts a ▁ before every text, so that a word after a space alone is two tokens of it."""
    pieces = ["▁The", "▁horse", "▁saw", "▁Mary", "▁John", "▁there", ".", "▁"]
    scores = [("<unk>", -20.0), *((piece, -1.0) for piece in pieces), *((each, -9.0) for each in "JohnMaryadeghorstw")]
    made = Tokenizer(models.Unigram(list(dict(scores).items()), 0, False))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    assert len(made.encode(" Mary").ids) == 2
    assert small(made).single_tokens(["Mary", "John", "Marta"]) == {"Mary": 4, "John": 5}
