"""Python's answers to what a published site computes: ``python -m tests.app.publish.lab_answers`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from pydantic_core import to_jsonable_python

from headscope.lab.teach.course.questions import means, readings
from headscope.lab.teach.crafted_heads import CraftSettings, Job, fit, fresh_model
from headscope.lab.teach.target_patterns import Target

FILE = Path(__file__).parents[3] / "web" / "tests" / "source" / "lab-answers.json"
TYPED = ("144", ".3", "0,3", "30 %", "3/10", "1,200 heads", "−2", "many", "")
STEPS = 6


def lab_answers() -> dict[str, Any]:
    found: dict[str, Any] = {
        "typed": [[text, readings(text), means(text, ".3")] for text in TYPED],
        "training": training(),
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


def written() -> str:
    return json.dumps({"generated": "by `python -m tests.app.publish.lab_answers`"} | lab_answers(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
