"""Label rules of functions and of regular expressions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.heads.questions.label_rules import (
    LabelRule,
    _PatternLabeller,
    read_class,
    token_class,
)
from headscope.models.protocol import Token

TOKENS = [Token(i, text) for i, text in enumerate(["In", " 19", "84", ",", " he", " was", " 7", "."])]


def test_a_class_labels_the_tokens_that_match() -> None:
    query, key = token_class("digits", r"\d").labels(TOKENS)
    assert key.tolist() == [-1, 1, 1, -1, -1, -1, 1, -1]
    assert query.tolist() == [1] * 8


def test_a_class_can_have_a_query_pattern() -> None:
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
def test_a_bad_regular_expression_is_refused(written: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_class(written)


def test_labels_are_integers_one_per_token_and_at_least_minus_one() -> None:
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


@given(st.text(alphabet="ab.=> ", max_size=8))
def test_a_written_class_is_read_back_or_refused(written: str) -> None:
    """NAME before the first "=", the pattern after it; of a pattern, who asks before the first "=>"."""
    name, equals, rest = written.partition("=")
    if not name.strip() or not equals or not rest:
        with pytest.raises(InputError, match="is not a class of tokens"):
            read_class(written)
        return
    rule = read_class(written)
    asks, arrow, wanted = rest.partition("=>")
    assert rule.name == name.strip()
    assert isinstance(rule.query, _PatternLabeller)
    assert isinstance(rule.key, _PatternLabeller)
    assert (rule.query.pattern, rule.key.pattern) == ((asks, wanted) if arrow else ("", rest))
    assert rule.exclude_self
