"""Labels of packed rows: pieces never match each other, padding matches nothing, and the null is a share of keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.heads.questions.standard_questions import STANDARD, VisibleKeys
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.labels import label_batch
from tests.scan.tiny import open_tiny

MODEL = open_tiny()
EVERYWHERE, UP_TO_QUERY = VisibleKeys(causal=False), VisibleKeys(causal=True)


def packed(*pieces: str, context: int = 48) -> PackedRows:
    """Texts in one row, byte by byte."""
    ids = torch.zeros(1, context, dtype=torch.long)
    placed, at = [], 0
    for document, text in enumerate(pieces):
        data = list(text.encode())
        ids[0, at : at + len(data)] = torch.tensor(data)
        placed.append(Piece(0, at, at + len(data), document, 0))
        at += len(data)
    return PackedRows(ids, tuple(placed))


def test_labels_of_different_pieces_never_match() -> None:
    rows = packed("abab", "abab")
    labels = label_batch(rows, RowFormat(48), (), MODEL)
    for name in STANDARD:
        question = labels.questions[name]
        first, second = (set(question.key[0, span].tolist()) - {-1} for span in (slice(0, 4), slice(4, 8)))
        asked = set(question.query[0, 4:8].tolist()) - {-1}
        assert not first & second
        assert not first & asked
    assert labels.matching.visible(UP_TO_QUERY)[labels.names.index("duplicate"), 0, :8].tolist() == [
        0,
        0,
        1,
        1,
        0,
        0,
        1,
        1,
    ]
    assert labels.matching.visible(UP_TO_QUERY)[labels.names.index("induction"), 0, :8].tolist() == [
        0,
        0,
        1,
        1,
        0,
        0,
        1,
        1,
    ]


def test_padding_is_neither_query_nor_key() -> None:
    labels = label_batch(packed("abcabc"), RowFormat(48), (), MODEL)
    for name in STANDARD:
        question = labels.questions[name]
        assert set(question.query[0, 6:].tolist()) == {-1}
        assert set(question.key[0, 6:].tolist()) == {-1}
    assert not labels.counted[0, 6:].any()
    assert labels.visible[0].tolist() == [6] * 6 + [0] * 42


def test_tokens_that_the_tokenizer_adds_are_not_counted() -> None:
    rows = packed("\x01abcd\x02")
    labels = label_batch(rows, RowFormat(48, tokens_before=(1,), tokens_after=(2,)), (), MODEL)
    assert labels.counted[0, :6].tolist() == [False, True, True, True, True, False]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2, 3, 5])
def test_the_match_share_is_that_of_the_visible_keys(causal: bool, window: int | None) -> None:
    texts = "abcaba", "bbab"
    labels = label_batch(packed(*texts), RowFormat(48), (), MODEL)
    shares = labels.match_share(VisibleKeys(causal, window))
    for start, text in zip((0, 6), texts, strict=True):
        for row, token in enumerate(text):
            seen = [at for at in range(len(text)) if (at <= row or not causal) and abs(at - row) < (window or 48)]
            others = [at for at in seen if at != row]
            expected = sum(text[at] == token for at in others) / max(len(others), 1)
            assert float(shares[labels.names.index("duplicate"), 0, start + row]) == pytest.approx(expected)
            assert float(shares[labels.names.index("itself"), 0, start + row]) == pytest.approx(1 / len(seen))


def test_only_queries_with_a_matching_key_are_answerable() -> None:
    labels = label_batch(packed("abcab"), RowFormat(48), (), MODEL)
    duplicate = labels.names.index("duplicate")
    assert labels.answerable(UP_TO_QUERY)[duplicate, 0, :5].tolist() == [False, False, False, True, True]
    assert labels.answerable(EVERYWHERE)[duplicate, 0, :5].tolist() == [False, True, False, True, True]
    assert not labels.answerable(VisibleKeys(True, window=3))[duplicate].any(), "copies are three tokens apart"


def test_a_custom_rule_is_applied_piece_by_piece() -> None:
    vowels = token_class("vowels", "[aeiou]")
    seen: list[int] = []

    def place_of_last(tokens: object) -> list[int]:
        assert isinstance(tokens, tuple)
        seen.append(len(tokens))
        return [len(tokens) - 1] * len(tokens)

    last = LabelRule("last", place_of_last, lambda tokens: list(range(len(tokens))))
    labels = label_batch(packed("bade", "iota"), RowFormat(48), (vowels, last), MODEL)
    assert set(seen) == {4}
    assert labels.matching.visible(EVERYWHERE)[labels.names.index("vowels"), 0, :8].tolist() == [
        2,
        1,
        2,
        1,
        2,
        2,
        3,
        2,
    ]
    assert labels.matching.visible(EVERYWHERE)[labels.names.index("last"), 0, :8].tolist() == [1] * 8
    assert labels.matching.visible(UP_TO_QUERY)[labels.names.index("last"), 0, :8].tolist() == [
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
    ]


class Launches(TorchDispatchMode):
    """Counts operations that compute something on the meta device, which stands for a GPU: it runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **kwargs or {})
        first = made[0] if isinstance(made, tuple | list) else made
        self.count += isinstance(first, Tensor) and first.device.type == "meta" and not func.is_view
        return made


def launches(n_rules: int) -> int:
    rules = tuple(token_class(f"class {n}", "abcde"[n]) for n in range(n_rules))
    with Launches() as seen:
        labels = label_batch(packed("abcab", "bcabca"), RowFormat(48), rules, MODEL, "meta")
        labels.within_pieces(), labels.answerable(UP_TO_QUERY), labels.match_share(UP_TO_QUERY)
    return seen.count
