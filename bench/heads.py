"""Run the battery on a model and save its report: python bench/heads.py [MODEL] [--name NAME] [--twice] [--ship]

The report goes to results/heads/NAME.json; --ship puts it where the program shows it instead: for the embedded model,
and for smollm2. With --twice a second run has to be equal.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from headscope.app.pages import roles
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.models.weight_hash import weight_hash
from headscope.scope import Scope, load

RESULTS = Path(__file__).parent / "results" / "heads"


def ship(report: Report, scope: Scope, path: Path | None = None) -> None:
    """Write a report where it ships, marked with the hash of the weights it was measured on."""
    if (report.model, report.n_heads) != (scope.shape.name, scope.shape.n_heads):
        raise InputError(
            f"this report is of {report.model} with {report.n_heads} heads, "
            f"the model here is {scope.shape.name} with {scope.shape.n_heads}; run `python bench/heads.py` first"
        )
    marked = replace(report, recipe={**report.recipe, roles.WEIGHTS: weight_hash(scope.model.model, torch.float32)})
    written = json.dumps(marked.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_atomic(path or roles.REPORTS[scope.shape.name], written.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a folder, a GGUF file or a hub name; the embedded model unless given")
    parser.add_argument("--name", help="name of the model and of the result file")
    parser.add_argument("--twice", action="store_true", help="run it again and compare")
    parser.add_argument("--threads", type=int, default=1, help="part of the recipe: sums depend on it in the last bits")
    parser.add_argument("--ship", action="store_true", help="put it where the program shows it")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    called = {"name": given.name} if given.name else {}
    with load(given.model, dtype=torch.float32, **called) as scope:
        began = time.process_time()
        report = run_battery(scope.model, RoleOptions(importance=True))
        took = time.process_time() - began
        print(report)
        print(f"{took:.1f} s of processor time")
        if given.twice:
            assert run_battery(scope.model, RoleOptions(importance=True)) == report, (
                "the second run differs from the first"
            )
            print("a second run gives the same report")
        if given.ship:
            ship(report, scope)
            return
    target = RESULTS / f"{given.name or report.model}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"-> {target}")


if __name__ == "__main__":
    main()
