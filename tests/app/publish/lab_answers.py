"""Answers to what the page computes itself: ``python -m tests.app.publish.lab_answers`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from pydantic_core import to_jsonable_python

from headscope.lab.teach.course.questions import means, readings

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
    """Two heads of two numbers that learn their patterns in plain PyTorch: first weights, losses, last patterns."""
    targets = [
        {"name": "before", "asks": "", "arrows": [(1, 0), (2, 1)], "shares": []},
        {"name": "shared", "asks": "", "arrows": [(2, 0), (2, 2)], "shares": [0.25, 0.75]},
    ]
    wanted = torch.tensor([[[1, 0, 0], [1, 0, 0], [0, 1, 0]], [[1, 0, 0], [1, 0, 0], [0.25, 0, 0.75]]])
    draw = torch.Generator().manual_seed(3)
    x, q, k = (torch.randn(rows, 4, generator=draw, dtype=torch.float64) for rows in (3, 4, 4))
    first = {name: weight.flatten().tolist() for name, weight in (("q", q), ("k", k))}
    adam = torch.optim.Adam([q.requires_grad_(), k.requires_grad_()], lr=0.005)
    losses = []
    for step in range(STEPS + 1):
        queries, keys = ((x @ weight.T).view(3, 2, 2).transpose(0, 1) for weight in (q, k))
        scores = queries @ keys.mT / 2**0.5
        patterns = scores.masked_fill(torch.ones(3, 3).triu(1).bool(), float("-inf")).softmax(-1)
        loss = -(wanted * patterns.clamp(min=1e-12).log()).sum(-1).mean(-1)
        losses.append(loss.tolist())
        if step < STEPS:
            adam.zero_grad()
            loss.sum().backward()
            adam.step()
    return {
        "targets": targets,
        "words": ["it", "was", "it"],
        "sizes": {"length": 3, "heads": 2, "dModel": 4, "dHead": 2},
        "x": x.flatten().tolist(),
        "weights": first,
        "losses": losses,
        "patterns": patterns.flatten().tolist(),
    }


def written() -> str:
    return json.dumps({"generated": "by `python -m tests.app.publish.lab_answers`"} | lab_answers(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
