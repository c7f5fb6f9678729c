"""Every path from labels to masses gives the same masses, and labels that do not fit are refused."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch.testing import assert_close

from headscope.attention import questions
from headscope.attention.backends import blockwise
from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.questions import MOST_CLASSES, Classes, Groups, Question, Single, pairs, plan, single_or_groups
from headscope.attention.scores import Scores
from headscope.errors import ShapeError

POSITION = torch.arange(9)
TOKENS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5])


def test_positions_take_the_single_pair_path() -> None:
    found = plan(Question(POSITION - 1, POSITION))
    assert isinstance(found, Single)
    assert found.target.tolist() == [[-1, 0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_single_pair_leaves_out_the_query_itself() -> None:
    found = plan(Question(POSITION, POSITION, exclude_self=True))
    assert isinstance(found, Single)
    assert found.target.tolist() == [[-1] * 9]


def test_few_labels_take_the_class_path() -> None:
    found = plan(Question(torch.ones_like(POSITION), POSITION % 2))
    assert isinstance(found, Classes)
    assert found.columns.shape == (1, 9, 1)


def test_many_labels_take_the_group_path() -> None:
    many = torch.arange(80) % 40
    found = plan(Question(many, many))
    assert isinstance(found, Groups)
    rows, keys = pairs(found, item=0, start=0, stop=80, offset=0)
    assert sorted(zip(rows.tolist(), keys.tolist(), strict=True)) == [
        (row, key) for row in range(80) for key in range(80) if (row - key) % 40 == 0
    ]


@pytest.mark.parametrize("path", ["classes", "groups"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_every_path_gives_the_same_masses(
    path: questions.Path, exclude_self: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = torch.randint(0, 5, (2, 97), generator=torch.Generator().manual_seed(3))
    _assert_path_agrees(path, Question(tokens, tokens.roll(1, -1), exclude_self), monkeypatch)


@pytest.mark.parametrize("path", ["single", "classes", "groups"])
def test_a_position_question_has_the_same_mass_on_every_path(
    path: questions.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = torch.arange(97)
    _assert_path_agrees(path, Question(position - 3, position), monkeypatch)


def _assert_path_agrees(path: questions.Path, question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 97, 8, generator=generator) for heads in (4, 2, 2))
    scores, asked = Scores(mask=causal()), {"it": question}
    exact = observe(q, k, v, scores=scores, questions=asked, backend="dense").mass["it"]
    forced = plan(question, path=path)
    monkeypatch.setattr(blockwise, "plan", lambda question, device: forced)
    seen = observe(q, k, v, scores=scores, questions=asked, backend="blockwise")
    assert_close(seen.mass["it"], exact, atol=2e-6, rtol=1e-5)


def test_label_minus_one_matches_nothing_and_other_negative_labels_do() -> None:
    labels = torch.tensor([-1, -2, 0])
    found = plan(Question(labels, labels), path="groups")
    assert isinstance(found, Groups)
    rows, keys = pairs(found, 0, 0, 3, 0)
    assert rows.tolist() == keys.tolist() == [1, 2]


def test_the_single_path_refuses_several_keys() -> None:
    with pytest.raises(ShapeError, match="matches 2 keys; the single-pair path takes at most one"):
        plan(Question(TOKENS, TOKENS), path="single")


MISTAKES = {
    "fractions": (
        POSITION,
        POSITION.float(),
        "the key labels of a question are integers",
        "got torch.float32 of shape (9,)",
    ),
    "by head": (
        POSITION,
        POSITION.expand(2, 4, 9),
        "the key labels of a question are",
        "got torch.int64 of shape (2, 4, 9)",
    ),
    "one": (
        POSITION[0],
        POSITION,
        "the query labels of a question are integers of shape",
        "got torch.int64 of shape ()",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_labels_are_integers_of_one_or_two_axes(name: str) -> None:
    query, key, what, got = MISTAKES[name]
    with pytest.raises(ShapeError, match=re.escape(what) + ".*" + re.escape(got)):
        Question(query, key)


def test_labels_fit_the_tensors() -> None:
    x = torch.randn(2, 1, 9, 4)
    with pytest.raises(ShapeError, match=r"query labels .* shape \(1, 8\); these tensors need \(1 or 2, 9\)"):
        observe(x, x, x, questions={"short": Question(POSITION[:8], POSITION)})
    with pytest.raises(ShapeError, match=r"key labels .* shape \(3, 9\); these tensors need \(1 or 2, 9\)"):
        observe(x, x, x, questions={"wide": Question(POSITION, POSITION.expand(3, 9))})


def test_a_plan_is_computed_once_and_again_when_labels_change() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    question = Question(labels, labels)
    first = plan(question, path="groups")
    assert plan(question, path="groups") is first
    labels[3] = 0
    again = plan(question, path="groups")
    assert isinstance(again, Groups)
    assert (again.stop - again.start).tolist() == [[3, 1, 3, 3]]


@pytest.mark.parametrize(("changed", "matches"), [("query", [[1, 1]]), ("key", [[0, 2]])])
def test_query_and_key_labels_may_change(changed: str, matches: list[list[int]]) -> None:
    labels = {"query": torch.tensor([5, 6]), "key": torch.tensor([5, 6])}
    question = Question(labels["query"], labels["key"])

    def count() -> list[list[int]]:
        groups = plan(question, path="groups")
        assert isinstance(groups, Groups)
        found: list[list[int]] = (groups.stop - groups.start).tolist()
        return found

    assert count() == [[1, 1]]
    labels[changed][:] = torch.tensor([6, 6])
    assert count() == matches
    labels[changed][:] = torch.tensor([9, 9])
    assert count() == [[0, 0]]


def test_labels_may_be_made_in_inference_mode() -> None:
    """Such tensors have no version counter."""
    with torch.inference_mode():
        labels = torch.tensor([3, 3, 4])
    question = Question(labels, labels)
    first = plan(question)
    assert plan(question) is first
    x = torch.zeros(1, 1, 3, 2)
    assert_close(observe(x, x, x, questions={"it": question}).mass["it"][0, 0], torch.tensor([2 / 3, 2 / 3, 1 / 3]))


@pytest.mark.parametrize(("n_labels", "form"), [(MOST_CLASSES, Classes), (MOST_CLASSES + 1, Groups)])
def test_only_labels_that_some_query_asks_for_are_classes(n_labels: int, form: type) -> None:
    """Each label is on two keys; a hundred other keys have labels that no query asks for."""
    asked = torch.arange(n_labels)
    key = torch.cat((asked, asked, torch.arange(1000, 1100)))
    found = plan(Question(asked, key))
    assert isinstance(found, form)
    if isinstance(found, Classes):
        assert torch.equal(found.columns[0, :-100], torch.eye(n_labels).repeat(2, 1))
        assert not found.columns[0, -100:].any()


@pytest.mark.parametrize(
    ("query", "key", "form"),
    [
        ([0, 1, 2], [2, 1, 0], Single),
        ([0, 0, 0], [0, 1, 2], Single),
        ([0, 1, 7], [0, 0, 1], Groups),
        ([7, 8, 9], [0, 0, 1], Single),
        ([-1, -1], [-1, -1], Single),
    ],
    ids=["one each", "all the same one", "two", "none", "no label"],
)
def test_one_matching_key_per_query_is_the_single_form(query: list[int], key: list[int], form: type) -> None:
    question = Question(torch.tensor(query), torch.tensor(key))
    found = single_or_groups(question, torch.device("cpu"))
    assert isinstance(found, form)
    if isinstance(found, Single):
        wanted = [key.index(label) if label in key and label != -1 else -1 for label in query]
        assert found.target.tolist() == [wanted]


@pytest.mark.parametrize("path", ["groups", "single"])
def test_a_question_without_matching_keys_has_no_mass(path: questions.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    position = torch.arange(97)
    _assert_path_agrees(path, Question(position + 1000, position), monkeypatch)
    _assert_path_agrees(path, Question(torch.full_like(position, -1), torch.full_like(position, -1)), monkeypatch)
    _assert_path_agrees(path, Question(position - 1000, position), monkeypatch)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_pairs_are_those_of_the_given_rows_and_item(exclude_self: bool) -> None:
    query, key = torch.tensor([[0, 1, 0], [2, -1, 1]]), torch.tensor([[0, 0, 1, 0, 2], [1, 2, 2, -1, 1]])
    groups = plan(Question(query, key, exclude_self), path="groups")
    assert isinstance(groups, Groups)
    for item in range(2):
        for start, stop in ((0, 3), (1, 3), (2, 2), (0, 1)):
            rows, keys = pairs(groups, item, start, stop, offset=2)
            assert sorted(zip(rows.tolist(), keys.tolist(), strict=True)) == [
                (row, position)
                for row in range(start, stop)
                for position in range(5)
                if query[item, row] == key[item, position] != -1 and not (exclude_self and position == row + 2)
            ]


def test_a_question_and_its_plan_are_not_changed() -> None:
    ids = torch.zeros(1, 3, dtype=torch.long)
    plans = (Single(ids), Classes(ids, torch.zeros(1, 3, 1), False), Groups(ids, ids, ids, False))
    for made in (Question(ids, ids), *plans):
        with pytest.raises(FrozenInstanceError):
            made.exclude_self = True  # type: ignore[misc,union-attr]
