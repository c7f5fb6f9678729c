"""Lookup tasks, answered again from their rows."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel, LookupTask, evaluate, train_all

TASKS = st.builds(
    lambda kind, keys, share, values: LookupTask(
        name="t", kind=kind, lookups=1 + share % min(keys, 3), n_keys=keys, n_values=values
    ),
    st.sampled_from(["keys", "roles"]), st.integers(1, 6), st.integers(0, 9), st.integers(2, 9),
)  # fmt: skip


@settings(deadline=None)
@given(TASKS)
def test_every_possible_question(task: LookupTask) -> None:
    found = [tuple(question) for question in task.questions.tolist()]
    if task.kind == "roles":
        assert found == [tuple(range(task.lookups))]
    else:
        assert found == list(permutations(range(task.n_keys), task.lookups))
        assert len(found) == math.perm(task.n_keys, task.lookups)
    assert task.vocabulary == task.n_keys * task.n_values + len(found)
    assert task.chance == pytest.approx((1 / task.n_values) ** task.lookups)


def test_the_model_answers_at_the_last_position_with_a_row_for_each_part() -> None:
    task = LookupTask(name="t", kind="keys", lookups=3, n_keys=4, n_values=5)
    model = LookupModel(task, Arm(name="a", n_heads=2, d_head=4, d_ff=7), Budget(d_model=8), seed=0)
    ids, _ = task.rows(6, torch.Generator().manual_seed(0))
    answers = model(ids)
    assert answers.shape == (6, 3, 5)
    flat = model.body(ids)[:, -1]
    for part in range(3):
        torch.testing.assert_close(answers[:, part], flat[:, 5 * part : 5 * part + 5])
    attention, ffn, norms = 4 * 8 * 8, 8 * 7 + 7 + 7 * 8 + 8, 3 * 8
    assert model.n_parameters() == (task.vocabulary + 5) * 8 + attention + ffn + norms + 8 * 15


def test_evaluation_marks_each_part_of_unseen_rows() -> None:
    task = LookupTask(name="t", kind="keys")
    model = LookupModel(task, Arm(name="a", n_heads=1, d_head=4), Budget(d_model=8), seed=0).eval()
    ids, answers = task.rows(40, torch.Generator().manual_seed(5))
    said = model(ids).argmax(-1)
    assert evaluate(model, task, 40, seed=5).tolist() == [
        [a == b for a, b in zip(one, two, strict=True)]
        for one, two in zip(said.tolist(), answers.tolist(), strict=True)
    ]


def test_one_step_of_training_is_adams_first_step() -> None:
    """From nothing, Adam moves every weight by its rate, against the sign of its slope."""
    task, arm = LookupTask(name="t", kind="roles", n_keys=3), Arm(name="a", n_heads=2, d_head=4, d_ff=5)
    budget = Budget(d_model=8, steps=1, batch=16, learning_rate=0.01, test_rows=8)
    (trained,) = train_all(task, arm, [7], budget)
    start = LookupModel(task, arm, budget, 7)
    ids, answers = task.rows(16, torch.Generator().manual_seed(7))
    torch.nn.functional.cross_entropy(start(ids).flatten(0, 1), answers.flatten()).backward()
    for (name, before), after in zip(start.named_parameters(), trained.model.parameters(), strict=True):
        assert before.grad is not None
        moved, clear = after.detach() - before.detach(), before.grad.abs() > 1e-5
        expected = -0.01 * before.grad.sign()
        torch.testing.assert_close(moved[clear], expected[clear], atol=2e-5, rtol=1e-3, msg=name)
        assert not moved[before.grad == 0].any()
