"""Measure what helps one head that is asked for two values at once, and write what a lesson shows.

python bench/rescues.py          three minutes on one core
"""

from __future__ import annotations

import json

from headscope.files import write_atomic
from headscope.lab.teach.lookup_tasks import Arm, Budget
from headscope.lab.teach.one_or_many import KEYS, RESCUE_WIDTHS, RESCUES, compare

SEEDS = 5
STEPS = 1200


def rescue_arms(width: int) -> list[Arm]:
    """One head of half the width, and four ways to help it, each with about as many more parameters."""
    half = width // 2
    return [
        Arm(name="one head", n_heads=1, d_head=half),
        Arm(name="a second head", n_heads=2, d_head=half),
        Arm(name="twice as wide", n_heads=1, d_head=width),
        Arm(name="another layer", n_heads=1, d_head=half, n_layers=2),
        Arm(name="a bigger FFN", n_heads=1, d_head=half, d_ff=width),
    ]


def main() -> None:
    measured: dict[str, object] = {"seeds": SEEDS, "steps": STEPS}
    for name, width in RESCUE_WIDTHS.items():
        budget = Budget(d_model=width, steps=STEPS)
        outcomes = compare(
            KEYS, rescue_arms(width), SEEDS, budget, lambda each: print(each.arm, each.accuracies, flush=True)
        )
        measured[name] = {outcome.arm: outcome.accuracies for outcome in outcomes}
    write_atomic(RESCUES, (json.dumps(measured, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
