"""How every benchmark here measures: contenders take turns in one process, and the result says on which machine.

Needs torch only. Rounds are interleaved and their order is shuffled, so that a busy neighbour or a warming chip is
shared out evenly. A timing is a median with its quartiles; nothing is thrown away. With one thread on a CPU the clock
is the processor time that the work itself took, so that a shared machine tells the truth; otherwise it is the clock on
the wall.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Milliseconds: the middle run, the quartiles around it, and how many runs there were."""

    median_ms: float
    quarter_ms: float
    three_quarters_ms: float
    runs: int

    def __str__(self) -> str:
        return f"{self.median_ms:.3f} ms ({self.quarter_ms:.3f} to {self.three_quarters_ms:.3f}, {self.runs} runs)"


def working(contenders: Mapping[str, Work], device: str = "cpu") -> tuple[dict[str, Work], dict[str, str]]:
    """The contenders that run, and what stopped each other one: one that fails does not lose the rest."""
    run, stopped = {}, {}
    for name, work in contenders.items():
        try:
            _run(work, device)
            run[name] = work
        except Exception as error:
            stopped[name] = f"{type(error).__name__}: {error}"[:400]
            print(f"{name} failed: {stopped[name]}", flush=True)
            if device == "cuda":
                torch.cuda.empty_cache()
    return run, stopped


def interleaved(
    contenders: Mapping[str, Work], *, device: str = "cpu", seconds: float = 2.0, least: int = 7, most: int = 400
) -> dict[str, Timing]:
    """Time the contenders turn by turn, for about ``seconds`` all together."""
    for work in contenders.values():
        if _run(work, device) < 5e3:  # whoever takes seconds is warm after one
            _run(work, device)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    order, chance = list(contenders), random.Random(0)
    began = time.perf_counter()
    rounds = 0
    while rounds < least or (rounds < most and time.perf_counter() - began < seconds):
        chance.shuffle(order)
        for name in order:
            taken[name].append(_run(contenders[name], device))
        rounds += 1
    return {name: _timing(runs) for name, runs in taken.items()}


def peak_bytes(work: Work, device: str = "cpu") -> int:
    """The most bytes held above what was there before, at any moment of one run. Warm the work up first."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    assert seen.profiler is not None
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def machine(device: str = "cpu") -> dict[str, Any]:
    """What these numbers came from."""
    about: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "clock": "processor time" if device != "cuda" and torch.get_num_threads() == 1 else "wall",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }
    if device == "cuda":
        about["cuda"] = torch.version.cuda
    return about


def write(path: str | Path, *, benchmark: str, about: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    """One JSON file: what was run, where, when, and a row for every measurement."""
    when = time.strftime("%Y-%m-%d", time.gmtime())
    content = {"schema_version": 1, "benchmark": benchmark, "date": when, "machine": dict(about), "rows": rows}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(content, indent=1, default=_plain) + "\n")


def _run(work: Work, device: str) -> float:
    """Milliseconds of one run."""
    if device != "cuda":
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        began = clock()
        work()
        return (clock() - began) * 1e3
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    work()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def _timing(runs: list[float]) -> Timing:
    low, middle, high = statistics.quantiles(runs, n=4, method="inclusive") if len(runs) > 1 else runs * 3
    return Timing(round(middle, 5), round(low, 5), round(high, 5), len(runs))


def _plain(value: object) -> object:
    if isinstance(value, Timing):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} does not belong in a result file")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
