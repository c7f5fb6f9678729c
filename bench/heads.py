"""Run the battery on a model and save its report: python bench/heads.py [MODEL] [--name NAME] [--twice]

The report goes to results/heads/NAME.json. With --twice a second run has to be equal.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.scope import load

RESULTS = Path(__file__).parent / "results" / "heads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a folder, a GGUF file or a hub name; the embedded model unless given")
    parser.add_argument("--name", help="name of the model and of the result file")
    parser.add_argument("--twice", action="store_true", help="run it again and compare")
    parser.add_argument("--threads", type=int, default=1, help="part of the recipe: sums depend on it in the last bits")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    called = {"name": given.name} if given.name else {}
    with load(given.model, dtype=torch.float32, **called) as scope:
        began = time.process_time()
        report = run_battery(scope.model, RoleOptions())
        took = time.process_time() - began
        print(report)
        print(f"{took:.1f} s of processor time")
        if given.twice:
            assert run_battery(scope.model, RoleOptions()) == report, "the second run differs from the first"
            print("a second run gives the same report")
    target = RESULTS / f"{given.name or report.model}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"-> {target}")


if __name__ == "__main__":
    main()
