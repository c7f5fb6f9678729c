"""Measure one head against many at equal parameters; write bench/results/one-or-many.json and its copy in the package.

python bench/one_or_many.py [--seeds 5] [--workers 2] [--partition-only]; then write the page with
python -m docs.generate.one_or_many docs/one-or-many.md
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import torch

from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import (
    KEYS,
    OTHER_WIDTHS,
    PARTITION,
    PARTITION_WIDTH,
    ROLES,
    Outcome,
    Results,
    Trial,
    arms,
    outcome,
    partition_arms,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "one-or-many.json"
SHIPPED = ROOT / "src" / "headscope" / "lab" / "teach" / "one_or_many.json"


def report(outcome: Outcome) -> None:
    print(
        f"{outcome.task:28} {outcome.arm:24} {outcome.n_parameters:6} {outcome.mean:.3f}  {outcome.accuracies}",
        flush=True,
    )


def measured_outcomes(trials: list[Trial], workers: int) -> list[Outcome]:
    """Run the trials in so many processes, whose number changes no result; print and return their outcomes in order."""
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit threads that torch has started
    found = []
    with ProcessPoolExecutor(workers, fresh) as pool:
        for each in pool.map(outcome, trials):
            report(each)
            found.append(each)
    return found


def processor_seconds() -> int:
    """Processor time of this process and its children; a busy machine changes it less than wall time."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(each.ru_utime + each.ru_stime for each in spent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that share the arms")
    parser.add_argument("--partition-only", action="store_true", help="measure only the partition anew")
    given = parser.parse_args()
    budget = Budget()
    trials = [(task, arm, given.seeds, budget) for task in (KEYS, ROLES) for arm in arms(KEYS.lookups, budget.d_model)]
    narrow = replace(budget, d_model=PARTITION_WIDTH)
    divided = [(PARTITION, arm, given.seeds, narrow) for arm in partition_arms()]
    others = [
        (PARTITION, arm, given.seeds, replace(budget, d_model=width))
        for width in OTHER_WIDTHS
        for arm in partition_arms(width)
    ]
    if given.partition_only:
        measured = json.loads(RESULTS.read_text(encoding="utf-8"))
        found = [asdict(each) for each in measured_outcomes(divided + others, given.workers)]
        measured |= {"partition": found[: len(divided)], "other_widths": found[len(divided) :]}
    else:
        start = time.perf_counter()
        found = iter(measured_outcomes(trials + divided + others, given.workers))
        parts = (list(islice(found, len(each))) for each in (trials, divided, others))
        measured = asdict(Results(*parts, budget, given.seeds))
        measured["machine"] = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
            "workers": given.workers,
            "load": [round(each, 2) for each in os.getloadavg()],
        }
        measured |= {"seconds": round(time.perf_counter() - start), "processor_seconds": processor_seconds()}
    RESULTS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    SHIPPED.write_text(json.dumps(asdict(Results.of(measured)), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
