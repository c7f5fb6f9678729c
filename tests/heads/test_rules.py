"""A person's own questions: two labelling functions, or a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headscope.errors import InputError
from headscope.heads.rules import SEPARATORS, LabelRule, read_class, token_class
from headscope.models.opened import Token

TOKENS = [Token(i, text) for i, text in enumerate(["In", " 19", "84", ",", " he", " was", " 7", "."])]


def test_a_class_labels_the_tokens_that_match() -> None:
    query, key = token_class("digits", r"\d").labels(TOKENS)
    assert key.tolist() == [-1, 1, 1, -1, -1, -1, 1, -1]
    assert query.tolist() == [1] * 8
    assert SEPARATORS.labels(TOKENS)[1].tolist() == [-1, -1, -1, 1, -1, -1, -1, 1]


def test_a_class_can_say_who_asks() -> None:
    query, key = read_class(r"years=^ (he|was)$=>\d").labels(TOKENS)
    assert query.tolist() == [-1, -1, -1, -1, 1, 1, -1, -1]
    assert key.tolist() == [-1, 1, 1, -1, -1, -1, 1, -1]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("digits", "'digits' is not a class of tokens; write NAME=PATTERN"),
        ("=x", "'=x' is not a class"),
        ("digits=[0-9", "the key pattern '\\[0-9' of 'digits' is not a regular expression"),
        ("a=(=>b", "the query pattern '\\(' of 'a' is not"),
    ],
)
def test_a_class_that_cannot_be_read_is_said(written: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_class(written)


def test_labels_are_integers_one_a_token_and_not_below_minus_one() -> None:
    def too_few(tokens: Sequence[Token]) -> list[int]:
        return [1, 2]

    def halves(tokens: Sequence[Token]) -> list[float]:
        return [0.5] * len(tokens)

    def low(tokens: Sequence[Token]) -> list[int]:
        return [-3] * len(tokens)

    for wrong, said in (
        (too_few, r"shape \(2,\); this text needs 8 integers"),
        (halves, "float32"),
        (low, "from -3 to -3"),
    ):
        with pytest.raises(InputError, match=said):
            LabelRule("mine", wrong, wrong).labels(TOKENS)  # type: ignore[arg-type]


def test_a_changed_function_is_another_rule() -> None:
    one = LabelRule("mine", lambda tokens: [1 for _ in tokens], lambda tokens: [1 for _ in tokens])
    two = LabelRule("mine", lambda tokens: [2 for _ in tokens], lambda tokens: [1 for _ in tokens])
    assert one.identity() != two.identity()
    assert token_class("digits", r"\d").identity()["key"] == r"matches '\\d'"
