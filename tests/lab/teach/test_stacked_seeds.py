"""Seeds trained as one batch equal the models trained alone."""

from __future__ import annotations

import pytest
import torch

from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel, LookupTask, StackedModels, train_all
from headscope.lab.teach.one_or_many import KEYS


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
