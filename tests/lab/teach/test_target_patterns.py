"""Arrows, shares and patterns become target rows, or are refused with a reason."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.lab.teach.target_patterns import (
    SENTENCE,
    Target,
    made_sentence,
    sentence_targets,
    split_words,
)

WORDS = ["the", "horse", "crossed", "the", "road"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda pair: (max(pair), min(pair))), max_size=12))
def test_arrows_share_a_row_evenly_and_an_empty_row_attends_to_the_first_word(arrows: list[tuple[int, int]]) -> None:
    matrix, finds = Target("t", arrows=tuple(arrows)).rows(WORDS)
    for row in range(5):
        ends = {end for start, end in arrows if start == row}
        expected = [1 / len(ends) if key in ends else 0.0 for key in range(5)] if ends else [1.0, 0, 0, 0, 0]
        assert matrix[row].tolist() == pytest.approx(expected)
        assert bool(finds[row]) == bool(ends)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_a_causal_target_never_attends_ahead(arrows: list[tuple[int, int]]) -> None:
    ahead = [(start, end) for start, end in arrows if end > start]
    target = Target("t", arrows=tuple(arrows))
    if not ahead:
        assert not target.rows(WORDS)[0].triu(1).any()
        return
    start, end = min(ahead)
    with pytest.raises(InputError, match=rf"\({start}\) cannot attend ahead to '{WORDS[end]}' \({end}\)"):
        target.rows(WORDS)


@st.composite
def shared_rows(draw: st.DrawFn) -> list[list[float]]:
    """Causal rows over five words: shares that add up to one, or nothing."""
    rows = []
    for place in range(5):
        parts = draw(st.lists(st.integers(0, 9), min_size=place + 1, max_size=place + 1))
        total = sum(parts)
        rows.append([part / total if total else 0.0 for part in parts] + [0.0] * (4 - place))
    return rows


@given(shared_rows())
def test_shares_on_arrows_are_the_pattern(rows: list[list[float]]) -> None:
    arrows = tuple((start, end) for start in range(5) for end in range(5) if rows[start][end])
    shares = tuple(rows[start][end] for start, end in arrows)
    matrix, finds = Target("t", arrows=arrows, shares=shares).rows(WORDS)
    for row, wanted in enumerate(rows):
        assert matrix[row].tolist() == pytest.approx(wanted if any(wanted) else [1, 0, 0, 0, 0], abs=1e-6)
        assert bool(finds[row]) == any(wanted)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Well, it isn't.", ["Well", ",", "it", "isn't", "."]),
        ("a well-known thing!?", ["a", "well-known", "thing", "!", "?"]),
        ("it’s  spaced\nout", ["it’s", "spaced", "out"]),
        ("Ünï cödé 世界", ["Ünï", "cödé", "世界"]),
    ],
)
def test_words_and_marks_are_tokens(sentence: str, words: list[str]) -> None:
    assert split_words(sentence) == words


def test_the_default_sentence_and_what_its_heads_should_find() -> None:
    words = split_words(SENTENCE)
    read = {
        target.name: [(words[start], words[end]) for start, end in target.arrows]
        for target in sentence_targets(split_words(SENTENCE))[:3]
    }
    assert read == {
        "Verb to subject": [("crossed", "horse"), ("was", "it")],
        "Noun to modifier": [("horse", "tired"), ("road", "narrow")],
        "Pronoun to antecedent": [("it", "horse")],
    }


@pytest.mark.parametrize("seed", range(40))
def test_made_sentences_follow_the_grammar_and_their_arrows(seed: int) -> None:
    sentence = made_sentence(seed)
    words = split_words(sentence)
    verb, noun, pronoun, previous = sentence_targets(words)
    assert " ".join(words) == sentence
    assert words[-3:-1] == ["it", "was"]
    (who, subject), (was, it) = verb.arrows
    assert (words[it], words[was]) == ("it", "was")
    assert who - subject in (1, 2)
    assert (who - subject == 2) == (words[who - 1] == "quickly")
    assert noun.arrows == ((subject, subject - 1), (who + 3, who + 2))
    assert pronoun.arrows == ((it, subject),)
    assert len(previous.arrows) == len(words) - 1
    for target in (verb, noun, pronoun, previous):
        assert torch.allclose(target.rows(words)[0].sum(-1), torch.ones(len(words)))
