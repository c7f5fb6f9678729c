"""The standard questions on one short text, and the rows that can answer a question against counting pair by pair."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.attention import reference
from headscope.attention.masks import causal as causal_mask
from headscope.attention.masks import full, window
from headscope.attention.questions import Question
from headscope.heads.questions.standard_questions import (
    VisibleKeys,
    answerable,
    matching_keys,
    standard_questions,
)

TOKENS = torch.tensor([[7, 3, 7, 5, 3]])


def wanted(name: str, tokens: torch.Tensor = TOKENS, real: torch.Tensor | None = None) -> list[tuple[int, int]]:
    question = standard_questions(tokens, real)[name]
    length = tokens.shape[1]
    hits = []
    for key in range(length):
        row = torch.zeros(length, length)
        row[:, key] = 1.0
        mass = reference.mass(row, question.query[0], question.key[0], question.exclude_self)
        hits += [(query, key) for query in range(length) if mass[query] > 0 and key <= query]
    return sorted(hits)


def test_duplicate_is_an_earlier_copy_and_induction_what_followed_it() -> None:
    assert wanted("duplicate") == [(2, 0), (4, 1)]
    assert wanted("induction") == [(2, 1), (4, 2)]


def test_a_token_that_follows_its_own_copy_is_not_its_own_induction_target() -> None:
    assert wanted("induction", torch.tensor([[7, 7, 5]])) == []


labels = st.lists(st.integers(-1, 4), min_size=1, max_size=9)


@settings(max_examples=200, deadline=None)
@given(labels, labels, st.booleans(), st.booleans(), st.none() | st.integers(1, 9))
def test_matching_keys_are_those_counted_pair_by_pair(
    query: list[int], key: list[int], exclude_self: bool, causal: bool, width: int | None
) -> None:
    """Of any two lengths: the last query stands at the last key."""
    question = Question(torch.tensor([query, query[::-1]]), torch.tensor(key), exclude_self)
    offset, keys = len(key) - len(query), VisibleKeys(causal, width)
    allowed = ((causal_mask() if causal else full()) & (full() if width is None else window(width))).block(
        torch.arange(len(query)), torch.arange(len(key)), offset
    )[0, 0]
    counts, answered = matching_keys(question).visible(keys), answerable(question, keys)
    for item, row_labels in enumerate((query, query[::-1])):
        for row, label in enumerate(row_labels):
            found = [
                at
                for at in range(len(key))
                if allowed[row, at] and key[at] == label != -1 and not (exclude_self and at == row + offset)
            ]
            assert int(counts[item, row]) == len(found)
            alone = causal and offset == 0 and row == 0
            assert bool(answered[item, row]) == (not alone and len(found) > 0)


class LargestTensor(TorchDispatchMode):
    """Note the number of elements of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor):
                self.elements = max(self.elements, each.numel())
        return made


@pytest.mark.parametrize("length", [1_000, 4_000])
@pytest.mark.parametrize("keys", [VisibleKeys(True), VisibleKeys(False), VisibleKeys(True, 9)])
def test_one_token_repeated_takes_memory_in_proportion_to_its_length(length: int, keys: VisibleKeys) -> None:
    """All of its query–key pairs match, and none of them is made."""
    questions = standard_questions(torch.full((1, length), 7))
    for name, question in questions.items():
        with LargestTensor() as largest:
            answerable(question, keys)
        assert 0 < largest.elements <= 2 * length, name
