"""Runs one task of one tool in a process of its own, and prints what it took as one line of JSON.

Time is this process's processor time with one thread, so that a busy machine tells the truth; the wall clock stands
beside it. Peak memory is the kernel's high-water mark of resident memory, from its value just before the task; for
``open`` it is the whole process. The first run of a task gives the memory and the answer, the middle of all runs the
time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

Task = Callable[..., Any]


def main(package: str, open_model: Task, **tasks: Task) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["open", *tasks])
    parser.add_argument("folder", type=Path, help="weights and tokenizer")
    parser.add_argument("--ids", type=Path, help="the token ids, as JSON")
    parser.add_argument("--out", type=Path, help="where the answer goes: a tensor, or a picture")
    parser.add_argument("--seconds", type=float, default=5.0, help="repeat for so long")
    given = parser.parse_args()
    Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, let it be this process that goes
    with contextlib.redirect_stdout(None):
        took = _opening(open_model, given) if given.task == "open" else _asking(open_model, tasks[given.task], given)
    print(json.dumps({"version": metadata.version(package), **took}))


def _opening(open_model: Task, given: argparse.Namespace) -> dict[str, Any]:
    seconds, wall, _ = _timed(lambda: open_model(str(given.folder)))
    return {"seconds": seconds, "wall_seconds": wall, "peak_bytes": _status("VmHWM"), "runs": 1}


def _asking(open_model: Task, task: Task, given: argparse.Namespace) -> dict[str, Any]:
    import torch

    ids = torch.tensor(json.loads(given.ids.read_text()))
    model = open_model(str(given.folder))
    more = [given.out] if task.__name__.startswith("picture") else []
    task(model, ids[:16], *more)  # whatever is loaded or compiled on first use
    before = _forget_the_peak()
    times = [_timed(lambda: task(model, ids, *more))]
    peak, answer = _status("VmHWM") - before, times[0][2]
    if not more:
        torch.save(answer.detach().clone(), given.out)
    began = time.perf_counter()
    while len(times) < 30 and time.perf_counter() - began + times[0][1] < given.seconds:
        times.append(_timed(lambda: task(model, ids, *more)))
    took = {
        "seconds": statistics.median(seconds for seconds, _, _ in times),
        "wall_seconds": statistics.median(wall for _, wall, _ in times),
        "peak_bytes": peak,
        "runs": len(times),
    }
    return took | ({"file_bytes": given.out.stat().st_size} if more else {})


def _timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    answer = work()
    return time.process_time() - processor, time.perf_counter() - wall, answer


def _forget_the_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not tell {name}; the comparison needs Linux")
