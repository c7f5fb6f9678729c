"""The standard questions say what their names say, by hand on one short text."""

import torch

from headscope.attention import reference
from headscope.heads.questions.standard_questions import STANDARD, answerable, standard_questions

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


def test_the_names_are_the_questions() -> None:
    assert tuple(standard_questions(TOKENS)) == STANDARD


def test_previous_itself_and_first_are_places() -> None:
    assert wanted("previous") == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert wanted("itself") == [(i, i) for i in range(5)]
    assert wanted("first") == [(i, 0) for i in range(5)]


def test_duplicate_is_an_earlier_copy_and_induction_what_followed_it() -> None:
    assert wanted("duplicate") == [(2, 0), (4, 1)]
    assert wanted("induction") == [(2, 1), (4, 2)]


def test_a_token_that_follows_its_own_copy_is_not_its_own_induction_target() -> None:
    assert wanted("induction", torch.tensor([[7, 7, 5]])) == []


def test_padding_neither_asks_nor_answers() -> None:
    real = torch.tensor([[False, True, True, True, True]])
    assert wanted("first", real=real) == [(i, 1) for i in range(1, 5)]
    assert wanted("duplicate", real=real) == [(4, 1)]
    assert wanted("previous", real=real) == [(2, 1), (3, 2), (4, 3)]


def test_a_row_can_answer_where_a_key_it_may_read_carries_its_label() -> None:
    questions = standard_questions(TOKENS)
    assert answerable(questions["duplicate"], causal=True)[0].tolist() == [False, False, True, False, True]
    assert answerable(questions["duplicate"], causal=False)[0].tolist() == [True, True, True, False, True]
    assert answerable(questions["itself"], causal=True)[0].tolist() == [False, True, True, True, True]
