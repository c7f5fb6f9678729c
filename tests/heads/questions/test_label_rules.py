"""Label rules of functions and of regular expressions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.heads.questions.label_rules import (
    LARGEST_LABEL,
    Labeller,
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda tokens: [token.text for token in tokens], "are not integers .*; give 8, one per token"),
        (lambda tokens: None, "the query labels of the question 'mine' are not integers"),
        (lambda tokens: [None] * len(tokens), "are not integers"),
        (lambda tokens: [2**70] * len(tokens), "are not integers"),
        (lambda tokens: [[1], [2, 3]], "are not integers"),
        (lambda tokens: [2**40] * len(tokens), "−1 for none, and below 1,099,511,627,776"),
        (lambda tokens: [True] * len(tokens), "torch.bool"),
    ],
)
def test_a_function_without_integer_labels_is_refused(wrong: Labeller, said: str) -> None:
    with pytest.raises(InputError, match=said):
        LabelRule("mine", wrong, wrong).labels(TOKENS)


def test_labels_may_come_as_a_tensor_or_a_generator_and_reach_the_largest() -> None:
    largest = LARGEST_LABEL - 1
    rule = LabelRule(
        "mine",
        lambda tokens: torch.full((len(tokens),), largest, dtype=torch.int64),  # type: ignore[arg-type, return-value]
        lambda tokens: (token.id for token in tokens),  # type: ignore[arg-type, return-value]
    )
    query, key = rule.labels(TOKENS)
    assert (query.tolist(), key.tolist()) == ([largest] * 8, list(range(8)))
    assert query.dtype == key.dtype == torch.int64


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


def test_a_rule_without_source_is_identified_by_its_name() -> None:
    class Numbers:
        def __call__(self, tokens: Sequence[Token]) -> list[int]:
            return list(range(len(tokens)))

    words = LabelRule("mine", Numbers(), len).identity()  # type: ignore[arg-type]
    assert words["query"].endswith("Numbers")
    assert words["key"] == "len"


def test_a_changed_function_is_another_rule() -> None:
    one = LabelRule("mine", lambda tokens: [1 for _ in tokens], lambda tokens: [1 for _ in tokens])
    two = LabelRule("mine", lambda tokens: [2 for _ in tokens], lambda tokens: [1 for _ in tokens])
    assert one.identity() != two.identity()
    assert token_class("digits", r"\d").identity()["key"] == r"matches '\\d'"
