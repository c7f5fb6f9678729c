"""Arrows, shares and patterns become target rows, and any text is parsed or refused with a reason."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.lab.teach.target_patterns import (
    MOST_WORDS,
    SENTENCE,
    Target,
    default_targets,
    made_sentence,
    parse_arrows,
    parse_shares,
    previous_token,
    split_words,
)

WORDS = ["the", "horse", "crossed", "the", "road"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_arrows_share_a_row_evenly_and_an_empty_row_attends_to_the_first_word(arrows: list[tuple[int, int]]) -> None:
    matrix, finds = Target("t", arrows=tuple(arrows)).rows(WORDS, causal=False)
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
        assert not target.rows(WORDS, causal=True)[0].triu(1).any()
        return
    start, end = min(ahead)
    with pytest.raises(InputError, match=rf"\({start}\) cannot attend ahead to '{WORDS[end]}' \({end}\)"):
        target.rows(WORDS, causal=True)


def test_a_pattern_is_scaled_to_one_and_empty_rows_attend_to_the_first_word() -> None:
    painted = ((1.0, 0, 0), (0, 0, 0), (0.2, 0.3, 0.505))
    matrix, finds = Target("t", pattern=painted).rows(["a", "b", "c"], causal=True)
    assert matrix[0].tolist() == [1, 0, 0]
    assert matrix[1].tolist() == [1, 0, 0]
    assert matrix[2].tolist() == pytest.approx([0.2 / 1.005, 0.3 / 1.005, 0.505 / 1.005])
    assert finds.tolist() == [True, False, True]


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
def test_shares_on_arrows_equal_the_same_pattern(rows: list[list[float]]) -> None:
    arrows = tuple((start, end) for start in range(5) for end in range(5) if rows[start][end])
    shares = tuple(rows[start][end] for start, end in arrows)
    blank_left_out = tuple(tuple(row) if any(row) else () for row in rows)
    for target in (
        Target("t", arrows=arrows, shares=shares),
        Target("t", pattern=tuple(map(tuple, rows))),
        Target("t", pattern=blank_left_out),
    ):
        matrix, finds = target.rows(WORDS, causal=True)
        for row, wanted in enumerate(rows):
            assert matrix[row].tolist() == pytest.approx(wanted if any(wanted) else [1, 0, 0, 0, 0], abs=1e-6)
            assert bool(finds[row]) == any(wanted)


@pytest.mark.parametrize(
    ("arrows", "shares", "message"),
    [
        (((4, 1), (4, 2)), (0.7,), "t: 2 arrows and 1 shares; give one share per arrow, or none for equal shares"),
        (((4, 1), (4, 1)), (0.7, 0.3), r"arrow from 'road' \(4\) to 'horse' \(1\) has several shares; give it one"),
        (((4, 1), (4, 2)), (0.7, 0.4), r"the row of 'road' \(4\) adds up to 1\.1; .*two full weights"),
        (((4, 1), (4, 2)), (0.2, 0.3), r"the row of 'road' \(4\) adds up to 0\.5; .*give more"),
        (((4, 1), (4, 2)), (1.5, -0.5), "shares are numbers from 0 to 1"),
        (((4, 1), (4, 2)), (math.nan, 1), r"the row of 'road' \(4\) holds \[0\.0, nan, 1\.0"),
        (((1, 0), (1, 2)), (0.7, 0.3), r"'horse' \(1\) cannot attend ahead to 'crossed' \(2\) .*causal=False"),
        (((5, 1),), (1,), "the arrow 5 → 1 is outside the words 0–4"),
    ],
)
def test_impossible_shares_are_refused(
    arrows: tuple[tuple[int, int], ...], shares: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Target("t", arrows=arrows, shares=shares).rows(WORDS, causal=True)


def test_without_the_mask_a_share_may_lie_ahead() -> None:
    matrix, _ = Target("t", arrows=((1, 0), (1, 2)), shares=(0.7, 0.3)).rows(WORDS, causal=False)
    assert matrix[1].tolist() == pytest.approx([0.7, 0, 0.3, 0, 0])


@pytest.mark.parametrize("length", [1, 3])
def test_a_pattern_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(InputError, match="the pattern of 2 words must have 2 rows of 2 numbers"):
        Target("t", pattern=((1,) + (0,) * (length - 1),) * 2).rows(["a", "b"], causal=True)


def test_a_pattern_counts_before_arrows() -> None:
    matrix, _ = Target("t", arrows=((1, 1),), pattern=((1, 0), (1, 0))).rows(["a", "b"], causal=True)
    assert matrix[1].tolist() == [1, 0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_numbers_that_are_no_shares_are_refused_with_their_row(value: float) -> None:
    with pytest.raises(InputError, match=r"t: the row of 'b' \(1\) holds \[.*\]; shares are numbers from 0 to 1"):
        Target("t", pattern=((1, 0), (value, 0.5))).rows(["a", "b"], causal=True)


def test_rows_above_and_below_one_have_different_advice() -> None:
    with pytest.raises(InputError, match=r"adds up to 1\.5; .*two full weights need two heads"):
        Target("t", pattern=((1, 0), (1, 0.5))).rows(["a", "b"], causal=True)
    with pytest.raises(InputError, match=r"adds up to 0\.5; .*give more, or leave the whole row empty"):
        Target("t", pattern=((1, 0), (0, 0.5))).rows(["a", "b"], causal=True)


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


def test_the_largest_number_of_words() -> None:
    assert len(split_words("w " * MOST_WORDS)) == MOST_WORDS
    with pytest.raises(InputError, match=rf"has {MOST_WORDS + 1} words; at most {MOST_WORDS} can be fitted"):
        split_words("w " * (MOST_WORDS + 1))


@pytest.mark.parametrize(
    ("text", "arrows"),
    [
        ("crossed > horse", ((2, 1),)),
        ("crossed -> horse; road→the@3", ((2, 1), (4, 3))),
        ("\n road>crossed ,, \n", ((4, 2),)),
        ("the@3 > the@0", ((3, 0),)),
        ("", ()),
        (" , ;", ()),
    ],
)
def test_arrows_as_people_write_them(text: str, arrows: tuple[tuple[int, int], ...]) -> None:
    assert parse_arrows(text, WORDS) == arrows


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("road > horse .7, road > crossed .3", {(4, 1): 0.7, (4, 2): 0.3}),
        ("road > horse 70%; road > crossed 30 %", {(4, 1): 0.7, (4, 2): 0.3}),
        ("road > horse 0.4, road > crossed, road > the@3", {(4, 1): 0.4, (4, 2): 0.3, (4, 3): 0.3}),
        ("road > horse, road > crossed\ncrossed > horse", {(4, 1): 0.5, (4, 2): 0.5, (2, 1): 1.0}),
        ("crossed > horse 1", {(2, 1): 1.0}),
        ("", {}),
    ],
)
def test_shares_as_people_write_them(text: str, shares: dict[tuple[int, int], float]) -> None:
    arrows, numbers = parse_shares(text, WORDS)
    assert dict(zip(arrows, numbers, strict=True)) == pytest.approx(shares)
    Target("t", arrows=arrows, shares=numbers).rows(WORDS, causal=True)


def test_a_number_is_a_share_only_behind_a_word() -> None:
    words = ["room", "7", "is", ".", "5"]
    assert parse_shares("is > 7 .5, is > room", words) == (((2, 1), (2, 0)), (0.5, 0.5))
    assert parse_shares("5 > 7", words) == (((4, 1),), (1.0,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("road > horse .7, road > horse", "'road > horse' is given twice; give each arrow once"),
        ("road > horse 1, road > crossed", r"'road' \(4\) add up to 1 and leave nothing for 'crossed'; make them"),
        ("road horse .7", "could not read 'road horse .7' as an arrow"),
        ("road > .7", "there is no word '.7'"),
    ],
)
def test_shares_that_do_not_parse(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_shares(text, WORDS)


def test_a_punctuation_mark_may_have_a_position() -> None:
    assert parse_arrows("@@1 > @@0", ["@", "@"]) == ((1, 0),)


@pytest.mark.parametrize("word", ["the@9", "the@1", "the@²", "the@-1", "the@", "horse@0", "The"])
def test_a_position_of_another_word_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=f"there is no word '{word}' in this sentence: the horse crossed the road"):
        parse_arrows(f"road > {word}", WORDS)


@given(st.text(alphabet="theors@>-→,;0123²٣ \n", max_size=24))
def test_any_text_is_arrows_between_words_or_refused(text: str) -> None:
    try:
        arrows = parse_arrows(text, WORDS)
    except InputError:
        return
    assert all(0 <= place < 5 for arrow in arrows for place in arrow)


def test_each_arrow_written_out_is_read_back() -> None:
    names = [f"{word}@{place}" if WORDS.count(word) > 1 else word for place, word in enumerate(WORDS)]
    for start, left in enumerate(names):
        for end, right in enumerate(names):
            assert parse_arrows(f"{left} > {right}", WORDS) == ((start, end),)


def test_the_previous_token_of_every_word_but_the_first() -> None:
    matrix, finds = previous_token(WORDS).rows(WORDS, causal=True)
    assert matrix[1:].argmax(-1).tolist() == [0, 1, 2, 3]
    assert finds.tolist() == [False, True, True, True, True]


def test_the_default_sentence_and_what_its_heads_should_find() -> None:
    words = split_words(SENTENCE)
    read = {
        target.name: [(words[start], words[end]) for start, end in target.arrows] for target in default_targets()[:3]
    }
    assert read == {
        "Verb to subject": [("crossed", "horse"), ("was", "it")],
        "Noun to modifier": [("horse", "tired"), ("road", "narrow")],
        "Pronoun to antecedent": [("it", "horse")],
    }


@pytest.mark.parametrize("seed", range(40))
def test_made_sentences_follow_the_grammar_and_their_arrows(seed: int) -> None:
    sentence, (verb, noun, pronoun, previous) = made_sentence(seed)
    words = split_words(sentence)
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
        assert torch.allclose(target.rows(words, causal=True)[0].sum(-1), torch.ones(len(words)))


def test_equal_seeds_make_equal_sentences_and_others_do_not() -> None:
    assert made_sentence(3) == made_sentence(3)
    assert len({made_sentence(seed)[0] for seed in range(30)}) > 25
