"""What the vLLM plug-in costs: requests to a server without it, and to one with it, that ask and that do not.

    make served SERVED=.venv/served     # makes the environment of vLLM
    python -m bench.served .venv/served/bin/python     # writes bench/results/served-cpu.json

Two servers of SmolLM2-135M in float32 on one thread each, one of which loads no plug-ins. Rounds of ten requests at
once take turns, in an order drawn anew for every round; the other server is idle meanwhile. No prompt begins as
another does, so the prefix cache helps nobody. Times are processor time of a server and its processes, and clock on the
wall. The first round is not counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from tests.integrations.served import ask, start

from bench import measure
from headscope.models.fetch import KNOWN, fetch

ROUND = 10
WORDS = 60  # of a prompt
CONTENDERS = {"without the plug-in": (0, False), "not asked": (1, False), "asked": (1, True)}
"""The server, and whether its requests ask."""
numbers = count(1000)


def one(port: int, asks: bool) -> None:
    """One request, whose prompt has not been sent before."""
    number = next(numbers)
    words = ["river", "horse", "bread", "office", "park", "city", "night", "letter", "window", "road"]
    prompt = " ".join([f"{number}:", *random.Random(number).choices(words, k=WORDS)])
    ask(f"request-{number}" if asks else None, port=port, prompt=prompt, max_tokens=16)


def used(server: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time of a server and its processes."""
    root = psutil.Process(server.pid)
    return sum(sum(each.cpu_times()[:2]) for each in (root, *root.children(recursive=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path, help="of the environment with vLLM")
    parser.add_argument("--rounds", type=int, default=20, help="of ten requests of each kind")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "served-cpu.json")
    chosen = parser.parse_args()
    model = KNOWN["smollm2"].kept if KNOWN["smollm2"].here else fetch(KNOWN["smollm2"])
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(ROUND) as pool:
        folder = Path(work) / "captures"
        folder.mkdir()
        servers: list[subprocess.Popen[bytes]] = []
        try:
            for plugins, port in (("none", 8652), ("headscope", 8653)):
                log, given = Path(work) / plugins, {"VLLM_PLUGINS": plugins, "OMP_NUM_THREADS": "1"}
                servers.append(start(chosen.python.absolute(), model, folder, log, port=port, **given))
            for each in range(chosen.rounds + 1):  # the first is not counted
                for name in random.Random(each).sample(list(CONTENDERS), len(CONTENDERS)):
                    which, asks = CONTENDERS[name]
                    before, began = used(servers[which]), time.perf_counter()
                    list(pool.map(lambda _, send: send(), range(ROUND), [partial(one, 8652 + which, asks)] * ROUND))
                    ask(None, port=8652 + which, prompt="end", max_tokens=1)  # a capture is written at the next step
                    taken = used(servers[which]) - before, time.perf_counter() - began
                    times[name] += [taken] if each else []
                    print(f"{each:2} {name:40} {taken[0]:6.2f} s of processor time, {taken[1]:6.2f} s", flush=True)
        finally:
            for server in servers:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(60)
        captured = [file.stat().st_size for file in folder.glob("*.safetensors")]
    rows = [_row(name, each, times["without the plug-in"]) for name, each in times.items()]
    about = {**measure.machine(), "torch_threads": 1, "clock": "processor time of the server, and wall"}
    what = {"what": "captures", "files": len(captured), "mean_bytes": round(statistics.mean(captured))}
    measure.write(chosen.out, benchmark="served", about=about, rows=[*rows, what])
    for row in rows:
        print(row)


def _row(name: str, taken: list[tuple[float, float]], base: list[tuple[float, float]]) -> dict[str, Any]:
    """Median and least per request, and quartiles over rounds of the ratio to the same requests without the plug-in."""
    row: dict[str, Any] = {"what": name, "requests": ROUND * len(taken)}
    for at, clock in enumerate(("processor_s", "wall_s")):
        ratios = [mine[at] / other[at] for mine, other in zip(taken, base, strict=True)]
        quartiles = statistics.quantiles(ratios, n=4, method="inclusive")
        row[clock] = round(statistics.median(each[at] for each in taken) / ROUND, 4)
        row[f"{clock}_least"] = round(min(each[at] for each in taken) / ROUND, 4)
        row[f"{clock}_ratio_quartiles"] = [round(each, 3) for each in quartiles]
    return row


if __name__ == "__main__":
    main()
