"""Every path from labels to masses gives the same masses, and labels that do not fit are refused."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headscope.attention import questions
from headscope.attention.backends import blockwise
from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.questions import Groups, Question, pairs, plan
from headscope.attention.scores import Scores

POSITION = torch.arange(9)
TOKENS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5])


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
