"""Measure one head against many at equal parameters; write bench/results/one-or-many.json and its copy in the package.

python bench/one_or_many.py [--seeds 5] [--workers 2] [--partition-only]; then write the page with
python -m docs.generate.one_or_many docs/one-or-many.md
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

from headscope.lab.teach.one_or_many import Outcome, Results, one_or_many, partition

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "one-or-many.json"
SHIPPED = ROOT / "src" / "headscope" / "lab" / "teach" / "one_or_many.json"


def report(outcome: Outcome) -> None:
    print(
        f"{outcome.task:28} {outcome.arm:24} {outcome.n_parameters:6} {outcome.mean:.3f}  {outcome.accuracies}",
        flush=True,
    )


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
    if given.partition_only:
        measured = json.loads(RESULTS.read_text(encoding="utf-8"))
        measured["partition"] = [outcome.to_dict() for outcome in partition(given.seeds, on_outcome=report)]
    else:
        start = time.perf_counter()
        measured = one_or_many(given.seeds, on_outcome=report, workers=given.workers).to_dict()
        measured["machine"] = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
            "workers": given.workers,
            "load": [round(each, 2) for each in os.getloadavg()],
        }
        measured |= {"seconds": round(time.perf_counter() - start), "processor_seconds": processor_seconds()}
    RESULTS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    SHIPPED.write_text(json.dumps(Results.from_dict(measured).to_dict(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
