"""Counts of matching keys, found by search, against counting them one by one; and pieces that never meet."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.heads.questions.standard_questions import STANDARD
from headscope.scan.corpus.packing import Frame, PackedRows
from headscope.scan.labels import _asked, label, null_name, question_names
from headscope.scan.tally.examples import Span
from tests.scan.tiny import open_tiny

MODEL = open_tiny()


def packed(*pieces: str, context: int = 48) -> PackedRows:
    """Texts in one row, byte by byte."""
    ids = torch.zeros(1, context, dtype=torch.long)
    spans, at = [], 0
    for document, text in enumerate(pieces):
        data = list(text.encode())
        ids[0, at : at + len(data)] = torch.tensor(data)
        spans.append(Span(0, at, at + len(data), document, 0))
        at += len(data)
    return PackedRows(ids, tuple(spans))


def matches(query: list[int], key: list[int], row: int, exclude_self: bool) -> list[int]:
    """The keys with the row's label, counted by hand."""
    if query[row] < 0:
        return []
    return [at for at in range(len(key)) if key[at] == query[row] and not (exclude_self and at == row)]


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(*(st.lists(st.integers(-1, 4), min_size=n, max_size=n) for _ in range(2)))
    ),
    st.booleans(),
)
def test_matches_are_counted_as_a_person_would(labels: tuple[list[int], list[int]], alone: bool) -> None:
    query, key = labels
    asked = _asked(Question(torch.tensor([query]), torch.tensor([key]), alone))
    for row in range(len(query)):
        found = matches(query, key, row, alone)
        assert int(asked.matching[0, row]) == len(found)
        assert int(asked.matching_before[0, row]) == sum(at <= row for at in found)


def test_labels_of_different_pieces_never_match() -> None:
    rows = packed("abab", "abab")
    labels = label(rows, Frame(48), (), MODEL)
    for name in STANDARD:
        question = labels.asked[name].question
        first, second = (set(question.key[0, span].tolist()) - {-1} for span in (slice(0, 4), slice(4, 8)))
        asked = set(question.query[0, 4:8].tolist()) - {-1}
        assert not first & second
        assert not first & asked
    assert labels.asked["duplicate"].matching_before[0, :8].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert labels.asked["induction"].matching_before[0, :8].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_padding_neither_asks_nor_answers() -> None:
    labels = label(packed("abcabc"), Frame(48), (), MODEL)
    for name in STANDARD:
        question = labels.asked[name].question
        assert set(question.query[0, 6:].tolist()) == {-1}
        assert set(question.key[0, 6:].tolist()) == {-1}
    assert not labels.counted[0, 6:].any()


def test_the_first_row_of_a_piece_has_no_choice_and_is_not_counted() -> None:
    labels = label(packed("abc", "defg"), Frame(48), (), MODEL)
    assert labels.counted[0, :7].tolist() == [False, True, True, False, True, True, True]


def test_tokens_that_the_tokenizer_adds_are_not_counted() -> None:
    rows = packed("\x01abcd\x02")
    labels = label(rows, Frame(48, before=(1,), after=(2,)), (), MODEL)
    assert labels.counted[0, :6].tolist() == [False, True, True, True, True, False]


@pytest.mark.parametrize("causal", [True, False])
def test_chance_is_the_share_of_keys_that_match(causal: bool) -> None:
    text = "abcaba"
    labels = label(packed(text), Frame(48), (), MODEL)
    chance = labels.chance("duplicate", causal)[0]
    for row, token in enumerate(text):
        keys = [at for at in range(len(text)) if at != row and (at < row or not causal)]
        expected = sum(text[at] == token for at in keys) / max(len(keys), 1)
        assert float(chance[row]) == pytest.approx(expected)
    assert labels.chance("itself", causal)[0, 3] == pytest.approx(1 / (4 if causal else 6))


def test_only_rows_with_something_to_find_can_answer() -> None:
    labels = label(packed("abcab"), Frame(48), (), MODEL)
    assert labels.answerable("duplicate", causal=True)[0, :5].tolist() == [False, False, False, True, True]
    assert labels.answerable("duplicate", causal=False)[0, :5].tolist() == [False, True, False, True, True]


def test_a_rule_of_ones_own_is_labelled_piece_by_piece() -> None:
    vowels = token_class("vowels", "[aeiou]")
    seen: list[int] = []

    def place_of_last(tokens: object) -> list[int]:
        assert isinstance(tokens, tuple)
        seen.append(len(tokens))
        return [len(tokens) - 1] * len(tokens)

    last = LabelRule("last", place_of_last, lambda tokens: list(range(len(tokens))))
    labels = label(packed("bade", "iota"), Frame(48), (vowels, last), MODEL)
    assert set(seen) == {4}
    assert labels.asked["vowels"].matching[0, :8].tolist() == [2, 1, 2, 1, 2, 2, 3, 2]
    assert labels.asked["last"].matching[0, :8].tolist() == [1] * 8
    assert labels.asked["last"].matching_before[0, :8].tolist() == [0, 0, 0, 1, 0, 0, 0, 1]


def test_names_of_questions_and_their_nulls_are_told_apart() -> None:
    names = question_names((token_class("digits", r"\d"),))
    assert names == (*STANDARD, "digits")
    assert not {null_name(name) for name in names} & set(names)
