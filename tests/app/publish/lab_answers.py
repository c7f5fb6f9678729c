"""Python's answers to what a published site computes: ``python -m tests.app.publish.lab_answers`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic_core import to_jsonable_python

from headscope.lab.teach.course.questions import means, readings
from headscope.lab.teach.crafted_heads import CraftSettings, Job, fit, fresh_model
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel, LookupTask
from headscope.lab.teach.one_or_many import KEYS, PARTITION, PARTITION_WIDTH, ROLES, Outcome, arms, partition_arms
from headscope.lab.teach.target_patterns import Target
from headscope.lab.teach.tiny_transformer import Adam

FILE = Path(__file__).parents[3] / "web" / "tests" / "source" / "lab-answers.json"
TYPED = ("144", ".3", "0,3", "30 %", "3/10", "1,200 heads", "−2", "many", "")
STEPS = 6
SEED = 2
LOOKUP_STEPS = 8
LOOKUPS = [
    *((task, arm, 32) for task in (KEYS, ROLES) for arm in arms()),
    (PARTITION, partition_arms()[2], PARTITION_WIDTH),
]
ACCURACIES = [0.5, 0.75, 1.0]


def lab_answers() -> dict[str, Any]:
    found: dict[str, Any] = {
        "typed": [[text, readings(text), means(text, ".3")] for text in TYPED],
        "training": training(),
        "lookups": [lookups(task, arm, width) for task, arm, width in LOOKUPS],
        "plans": {"arms": arms(), "partition": partition_arms(), "tasks": [KEYS, ROLES, PARTITION]},
        "interval": Outcome("", "", 1, 1, 1, 0, 1, ACCURACIES, ACCURACIES).interval,
    }
    return json.loads(json.dumps(to_jsonable_python(found)))  # type: ignore[no-any-return]


def training() -> dict[str, Any]:
    """A layer's first weights, and its losses while it learns."""
    targets = [
        Target("before", arrows=((1, 0), (2, 1))),
        Target("shared", arrows=((2, 0), (2, 2)), shares=(0.25, 0.75)),
    ]
    words = ["it", "was", "it"]
    rows = [target.rows(words) for target in targets]
    job = Job(words, torch.stack([matrix for matrix, _ in rows]), torch.stack([has for _, has in rows]))
    settings = CraftSettings(d_model=4, d_head=2, steps=STEPS, seed=3, snapshots=2)
    model = fresh_model(job, settings)
    attention = model.attention()
    weights = {"q": attention.q_proj, "k": attention.k_proj}
    fitted = fit(job, settings)
    return {
        "targets": [{"name": each.name, "arrows": each.arrows, "shares": each.shares} for each in targets],
        "sentence": " ".join(words),
        "sizes": {"length": 3, "heads": 2, "dModel": 4, "dHead": 2},
        "x": model.embed(job.ids).flatten().tolist(),
        "weights": {name: layer.weight.flatten().tolist() for name, layer in weights.items()},
        "losses": fitted.losses.tolist(),
        "patterns": fitted.snapshots[-1].patterns.flatten().tolist(),
    }


def lookups(task: LookupTask, arm: Arm, width: int) -> dict[str, Any]:
    """The first row and the first weights of a seed of One or many, and its losses while it learns."""
    budget = Budget(d_model=width, steps=LOOKUP_STEPS)
    model = LookupModel(task, arm, budget, SEED)
    adam = Adam(model.parameters(), budget.learning_rate)
    generator = torch.Generator().manual_seed(SEED)
    found: dict[str, Any] = {"task": task.name, "arm": arm.name, "d_model": width, "seed": SEED}
    found["n_parameters"] = model.n_parameters()
    found["first"] = {name: weight.flatten()[-3:].tolist() for name, weight in model.body.named_parameters()}
    losses = []
    for step in range(budget.steps):
        ids, answers = task.rows(budget.batch, generator)
        if not step:
            found["row"], found["answer"] = ids[0].tolist(), answers[0].tolist()
        loss = F.cross_entropy(model(ids).flatten(0, 1), answers.flatten())
        losses.append(loss.item())
        adam.rate = budget.learning_rate * min(1.0, (budget.steps - step) / (0.3 * budget.steps))
        adam.descend(loss)
    return found | {"losses": losses}


def written() -> str:
    return json.dumps({"generated": "by `python -m tests.app.publish.lab_answers`"} | lab_answers(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
