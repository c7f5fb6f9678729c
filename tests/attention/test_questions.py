"""Labels in, masses out: each path forced, all of them agreeing; and labels that do not fit, refused in words."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headscope.attention import blockwise, questions
from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.questions import Classes, Groups, Question, Single, pairs, plan
from headscope.attention.scores import Scores
from headscope.errors import ShapeError

PLACE = torch.arange(9)
TOKENS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5])


def test_positions_take_the_single_pair_path() -> None:
    found = plan(Question(PLACE - 1, PLACE))
    assert isinstance(found, Single)
    assert found.target.tolist() == [[-1, 0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_single_pair_leaves_out_the_query_itself() -> None:
    found = plan(Question(PLACE, PLACE, exclude_self=True))
    assert isinstance(found, Single)
    assert found.target.tolist() == [[-1] * 9]


def test_few_labels_take_the_class_path() -> None:
    found = plan(Question(torch.ones_like(PLACE), PLACE % 2))
    assert isinstance(found, Classes)
    assert found.n_classes == 1


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
def test_a_position_is_a_position_on_every_path(path: questions.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = torch.arange(97)
    _assert_path_agrees(path, Question(place - 3, place), monkeypatch)


def _assert_path_agrees(path: questions.Path, question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 97, 8, generator=generator) for heads in (4, 2, 2))
    scores, asked = Scores(mask=causal()), {"it": question}
    exact = observe(q, k, v, scores=scores, questions=asked, backend="dense").mass["it"]
    forced = {"it": plan(question, path=path)}
    monkeypatch.setattr(blockwise, "plans", lambda asked, device: forced)
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


def test_labels_are_integers() -> None:
    with pytest.raises(ShapeError, match=r"key labels of a question are integers .* got torch.float32 of shape \(9,\)"):
        Question(PLACE, PLACE.float())


def test_labels_fit_the_tensors() -> None:
    x = torch.randn(2, 1, 9, 4)
    with pytest.raises(ShapeError, match=r"query labels .* shape \(1, 8\); these tensors need \(1 or 2, 9\)"):
        observe(x, x, x, questions={"short": Question(PLACE[:8], PLACE)})
    with pytest.raises(ShapeError, match=r"key labels .* shape \(3, 9\); these tensors need \(1 or 2, 9\)"):
        observe(x, x, x, questions={"wide": Question(PLACE, PLACE.expand(3, 9))})


def test_labels_are_worked_out_once_and_again_when_they_change() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    question = Question(labels, labels)
    first = plan(question, path="groups")
    assert plan(question, path="groups") is first
    labels[3] = 0
    again = plan(question, path="groups")
    assert isinstance(again, Groups)
    assert (again.stop - again.start).tolist() == [[3, 1, 3, 3]]
