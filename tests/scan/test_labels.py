"""Labels of packed rows: pieces never match each other, padding matches nothing, and the null is a share of keys."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.heads.questions.standard_questions import STANDARD, VisibleKeys
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.labels import _small, label_batch, null_name, question_names
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


def test_the_first_query_of_a_piece_sees_only_itself_and_is_not_counted() -> None:
    labels = label_batch(packed("abc", "defg"), RowFormat(48), (), MODEL)
    assert labels.counted[0, :7].tolist() == [False, True, True, False, True, True, True]
    assert labels.visible[0, :8].tolist() == [3, 3, 3, 4, 4, 4, 4, 0]
    assert labels.visible_before[0, :7].tolist() == [1, 2, 3, 1, 2, 3, 4]


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


def test_questions_and_their_nulls_have_different_names() -> None:
    names = question_names((token_class("digits", r"\d"),))
    assert names == (*STANDARD, "digits")
    assert not {null_name(name) for name in names} & set(names)


def test_narrow_labels_are_equal_within_a_piece_where_wide_ones_are() -> None:
    far = LabelRule("far", lambda tokens: [2**39 + token.id for token in tokens], lambda tokens: [t.id for t in tokens])
    near = LabelRule("near", *([lambda tokens: [-1 if t.id == 97 else 2**39 + t.id for t in tokens]] * 2))
    labels = label_batch(packed("abcab", "bcabca"), RowFormat(48), (far, near), MODEL)
    within = labels.within_pieces()
    for name, question in labels.questions.items():
        narrow = within[name]
        assert (narrow.query.dtype, narrow.key.dtype) == (torch.int32, torch.int32)
        assert narrow.exclude_self == question.exclude_self
        for span in (slice(0, 5), slice(5, 11)):
            wide = question.query[0, span, None] == question.key[0, None, span]
            assert torch.equal(narrow.query[0, span, None] == narrow.key[0, None, span], wide), name
        assert torch.equal(narrow.query == -1, question.query == -1)
        assert torch.equal(narrow.key == -1, question.key == -1)
    assert not labels.answerable(UP_TO_QUERY)[labels.names.index("far")].any()
    assert labels.answerable(UP_TO_QUERY)[labels.names.index("near")].sum() == 6


def test_labels_that_do_not_fit_32_bits_become_ranks_and_none_stays_none() -> None:
    query, key = torch.tensor([0, -1, 2**40, 2**31]), torch.tensor([2**40, 0, -1, 1])
    small = _small((query, key))
    assert max(int(side.max()) for side in small) < 2**31
    matches = [(side[:, None] == other) & (side[:, None] >= 0) for side, other in ((query, key), small)]
    assert torch.equal(*matches)
    assert [(side == -1).tolist() for side in small] == [(query < 0).tolist(), (key < 0).tolist()]
    assert [side.tolist() for side in _small((torch.tensor([2**31, 7]), torch.tensor([7, -1])))] == [[2, 1], [1, -1]]
    fitting = (torch.tensor([0, 2**31 - 1]), torch.tensor([-1, 5]))
    assert all(one is other for one, other in zip(_small(fitting), fitting, strict=True))


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


def test_a_gpu_labels_many_questions_in_as_many_launches_as_few() -> None:
    assert launches(1) == launches(5)


def test_labels_of_thousands_of_pieces_in_one_row_never_match() -> None:
    """Labels times positions would not fit 64 bits: those of pieces far apart would become equal."""
    ids = torch.tensor([97, 98] * 4096)[None]
    rows = PackedRows(ids, tuple(Piece(0, at, at + 2, 0, 0) for at in range(0, 8192, 2)))
    labels = label_batch(rows, RowFormat(8192), (), MODEL)
    matching = dict(zip(labels.names, labels.matching.visible(EVERYWHERE), strict=True))
    assert not matching["duplicate"].any()
    assert matching["previous"].tolist() == [[0, 1] * 4096]


def test_labels_are_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        label_batch(packed("ab"), RowFormat(48), (), MODEL).counted = None  # type: ignore[assignment,misc]
