"""How long headscope takes to start, beside Python itself: ``python bench/start.py --out bench/results/start.json``.

Three commands take turns, order shuffled: ``python -c pass``, ``python -c "import headscope"``, ``headscope --help``.
What counts is the middle of the differences to the plain start of the same round, in processor time of the process and
its children, so that a busy machine tells the truth; the wall clock stands beside it. The first rounds only write byte
code and are not counted.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import measure

GOALS = {"import headscope": 50.0, "headscope --help": 200.0}  # milliseconds beyond Python's own start
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import headscope": [sys.executable, "-c", "import headscope"],
    "headscope --help": [str(Path(sys.executable).with_name("headscope")), "--help"],
}


def one(command: list[str]) -> tuple[float, float]:
    """Milliseconds of processor time and on the wall."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used * 1e3, wall * 1e3


def rounds(count: int) -> list[dict[str, tuple[float, float]]]:
    order, chance = list(COMMANDS), random.Random(0)
    for _ in range(2):
        for command in COMMANDS.values():
            one(command)
    taken = []
    for _ in range(count):
        chance.shuffle(order)
        taken.append({name: one(COMMANDS[name]) for name in order})
    return taken


def rows(taken: list[dict[str, tuple[float, float]]]) -> list[dict[str, Any]]:
    found = []
    for name in COMMANDS:
        row: dict[str, Any] = {"command": name, "runs": len(taken)}
        for place, clock in enumerate(("processor_ms", "wall_ms")):
            row[clock] = round(statistics.median(turn[name][place] for turn in taken), 1)
            if name in GOALS:
                beyond = [turn[name][place] - turn["python -c pass"][place] for turn in taken]
                row[f"beyond_{clock}"] = round(statistics.median(beyond), 1)
        if name in GOALS:
            row |= {"goal_ms": GOALS[name], "met": row["beyond_processor_ms"] <= GOALS[name]}
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    about = measure.machine() | {"clock": "processor time"}
    found = rows(rounds(given.rounds))
    for row in found:
        print(row)
    if given.out is not None:
        measure.write(given.out, benchmark="start", about=about, rows=found)


if __name__ == "__main__":
    main()
