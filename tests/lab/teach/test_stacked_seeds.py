"""Seeds trained as one batch equal the models trained alone."""

from __future__ import annotations

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel, LookupTask, evaluate
from headscope.lab.teach.one_or_many import KEYS, ROLES
from headscope.lab.teach.stacked_seeds import StackedModels, train_all


@pytest.mark.parametrize("sizes", [{}, {"d_ff": 5}, {"n_layers": 2, "d_ff": 5}])
def test_stacked_logits_equal_those_of_each_model_alone(sizes: dict[str, int]) -> None:
    arm, budget = Arm(name="a", n_heads=2, d_head=4, **sizes), Budget(d_model=8)
    models = [LookupModel(KEYS, arm, budget, seed) for seed in range(3)]
    with torch.no_grad():
        for number, weight in enumerate(weight for model in models for weight in model.parameters()):
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
    ids = torch.stack([KEYS.rows(5, torch.Generator().manual_seed(seed))[0] for seed in range(3)])
    alone = torch.stack([model(rows) for model, rows in zip(models, ids, strict=True)])
    torch.testing.assert_close(StackedModels(models, arm).logits(ids), alone)


def test_seeds_of_a_stack_do_not_influence_each_other() -> None:
    arm, budget = Arm(name="a", n_heads=2, d_head=4), Budget(d_model=8, steps=30, batch=8, test_rows=16)
    together = train_all(ROLES, arm, [3, 4], budget)
    for seed, trained in zip((3, 4), together, strict=True):
        alone = train_all(ROLES, arm, [seed], budget)[0]
        torch.testing.assert_close(trained.model.body.embedding.weight, alone.model.body.embedding.weight)


def test_equal_seeds_give_equal_models() -> None:
    arm, budget = Arm(name="a", n_heads=2, d_head=4), Budget(d_model=8, steps=5, batch=8, test_rows=16)
    first, second = (train_all(ROLES, arm, [3], budget)[0] for _ in range(2))
    assert torch.equal(first.model.body.embedding.weight, second.model.body.embedding.weight)


def test_weights_go_into_the_stack_and_back_unchanged() -> None:
    task, arm = LookupTask(name="t", kind="keys", n_keys=3), Arm(name="a", n_heads=2, d_head=4, n_layers=2)
    models = [LookupModel(task, arm, Budget(d_model=8), seed) for seed in range(3)]
    before = [[weight.detach().clone() for weight in model.parameters()] for model in models]
    stack = StackedModels(models, arm)
    with torch.no_grad():
        for weight in stack.weights.values():
            weight[1] += 1
    for index, model in enumerate(stack.write_back()):
        for old, new in zip(before[index], model.parameters(), strict=True):
            torch.testing.assert_close(new.detach(), old + (index == 1))


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


def test_accuracy_is_all_parts_right_and_parts_right_each_part() -> None:
    task, arm = LookupTask(name="t", kind="roles", n_keys=3), Arm(name="a", n_heads=2, d_head=4)
    budget = Budget(d_model=8, steps=41, batch=8, test_rows=64)
    for trained in train_all(task, arm, [1, 2], budget):
        right = evaluate(trained.model, task, 64)
        assert trained.accuracy == pytest.approx(sum(all(row) for row in right.tolist()) / 64)
        assert trained.parts_right == pytest.approx(sum(sum(row) for row in right.tolist()) / 128)
        assert not trained.model.training


def test_the_learning_rate_is_constant_and_then_falls_to_zero() -> None:
    """Ten steps: eight at the whole rate, then two thirds and one third of it."""
    task, arm = LookupTask(name="t", kind="roles", n_keys=2, n_values=2), Arm(name="a", n_heads=1, d_head=4)
    budget = Budget(d_model=4, steps=10, batch=8, learning_rate=0.01, test_rows=8)
    (trained,) = train_all(task, arm, [2], budget)
    model, generator = LookupModel(task, arm, budget, 2), torch.Generator().manual_seed(2)
    adam = torch.optim.Adam(model.parameters())
    for rate in [0.01] * 8 + [0.01 * 2 / 3, 0.01 / 3]:
        ids, answers = task.rows(8, generator)
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), answers.flatten()).backward()
        adam.step()
    for (name, theirs), ours in zip(model.named_parameters(), trained.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-3, msg=name)


def test_the_last_layer_is_computed_at_the_last_position_only() -> None:
    """The short way through the last layer gives what the whole layer gives at that place."""
    arm = Arm(name="a", n_heads=4, d_head=3, n_layers=1, d_ff=5)
    models = [LookupModel(KEYS, arm, Budget(d_model=8), seed) for seed in range(2)]
    stack, x = StackedModels(models, arm), torch.randn(2, 3, KEYS.context, 8)
    torch.testing.assert_close(stack._last_layer(x, "blocks.0."), stack._layer(x, "blocks.0.")[:, :, -1:])


def test_no_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="seeds is empty: give at least one"):
        train_all(ROLES, Arm(name="a", n_heads=1, d_head=2), [], Budget())
