"""One head or many, measured: writes bench/results/one-or-many.json, its copy in the package, and docs/one-or-many.md.

python bench/one_or_many.py [--seeds 5] [--workers 2] [--partition-only] [--page-only]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path

import torch

from headscope.lab.one_or_many_page import page
from headscope.lab.teach.one_or_many import Outcome, Results, one_or_many, partition

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "one-or-many.json"
SHIPPED = ROOT / "src" / "headscope" / "lab" / "teach" / "one_or_many.json"
PAGE = ROOT / "docs" / "one-or-many.md"


def told(outcome: Outcome) -> None:
    print(
        f"{outcome.task:28} {outcome.arm:24} {outcome.n_parameters:6} {outcome.mean:.3f}  {outcome.accuracies}",
        flush=True,
    )


def worked() -> int:
    """Seconds of processor time, of this process and its own: a busy machine inflates them less than the clock."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(each.ru_utime + each.ru_stime for each in spent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that share the arms")
    parser.add_argument("--partition-only", action="store_true", help="measure only the partition anew")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are there")
    asked = parser.parse_args()
    if asked.partition_only:
        stored = json.loads(RESULTS.read_text(encoding="utf-8"))
        stored["partition"] = [outcome.to_dict() for outcome in partition(asked.seeds, on_outcome=told)]
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    elif not asked.page_only:
        start = time.perf_counter()
        measured = one_or_many(asked.seeds, on_outcome=told, workers=asked.workers).to_dict()
        machine = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
            "workers": asked.workers,
            "load": [round(each, 2) for each in os.getloadavg()],
        }
        measured |= {"machine": machine, "seconds": round(time.perf_counter() - start), "processor_seconds": worked()}
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    SHIPPED.write_text(json.dumps(Results.from_dict(stored).to_dict(), indent=1) + "\n", encoding="utf-8")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(Results.from_dict(stored)), encoding="utf-8")


if __name__ == "__main__":
    main()
