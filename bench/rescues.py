"""Measure what helps one head that is asked for two values at once, and write what a lesson shows.

python bench/rescues.py          three minutes on one core
"""

from __future__ import annotations

import json

from headscope.files import write_atomic
from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import KEYS, RESCUE_WIDTHS, RESCUES, compare, rescue_arms

SEEDS = 5
STEPS = 1200


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
