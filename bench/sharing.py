"""Do heads learn different things? Writes bench/results/sharing.json and docs/sharing.md.

python bench/sharing.py [--page-only]
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F

from headscope.lab.sharing import STARTS, grow, redundancy
from headscope.lab.sharing_page import page
from headscope.lab.teach.kv_sharing import by_groups
from headscope.lab.teach.lookup_tasks import Arm, Budget, Finder
from headscope.lab.teach.one_or_many import KEYS
from headscope.lab.teach.stacked_seeds import train

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "sharing.json"
PAGE = ROOT / "docs" / "sharing.md"


def loss(model: Finder) -> float:
    ids, answers = KEYS.rows(1024, torch.Generator().manual_seed(20_011))
    return float(F.cross_entropy(model(ids).flatten(0, 1), answers.flatten()))


def measure() -> dict[str, object]:
    budget = Budget(steps=800)
    growths = []
    for start in STARTS:
        growths.append(grow(start, budget=budget, every=100).to_dict())
        print(start, growths[-1]["accuracy"], flush=True)
    model = train(KEYS, Arm(name="8 heads", n_heads=8, d_head=4), 0, budget).model
    machine = {"python": platform.python_version(), "torch": torch.__version__, "machine": platform.machine()}
    return {
        "schema_version": 1,
        "machine": machine,
        "budget": asdict(budget),
        "growths": growths,
        "redundancy": redundancy(model).to_dict(),
        "groups": [row.to_dict() for row in by_groups(model, loss)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are there")
    if not parser.parse_args().page_only:
        RESULTS.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
