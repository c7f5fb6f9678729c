"""Kill scans at random moments, then finish them. Run by test_resume in a process of its own.

Each scan is a fork, so modules are imported only once. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from tests.scan.tiny import open_tiny, texts

OPTIONS = ScanOptions(context=64, batch=1, shard_tokens=64, threads=1, replicates=20, examples=2)


def scan_once(out: Path, corpus: Path) -> None:
    scan(open_tiny(), corpus, out=out, options=OPTIONS)


def start(out: Path, corpus: Path) -> int:
    child = os.fork()
    if child == 0:
        scan_once(out, corpus)
        os._exit(0)
    return child


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(40)))
    began = time.monotonic()
    os.waitpid(start(folder / "whole", corpus), 0)
    took = time.monotonic() - began
    chance, killed = random.Random(seed), 0
    outs, shards_seen = [folder / "killed-0"], set()
    while killed < kills:
        out = outs[-1]
        child = start(out, corpus)
        time.sleep(chance.uniform(0.0, 0.9) * took)
        os.kill(child, chance.choice((signal.SIGKILL, signal.SIGTERM)))
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        shards_seen.add(len(list(out.glob("work/*.tally.safetensors"))))
        if (out / "census.parquet").exists() and not (out / "work").exists():
            outs.append(folder / f"killed-{len(outs)}")
    statuses = [os.waitpid(start(out, corpus), 0)[1] for out in outs]
    said = {"killed": killed, "status": max(statuses), "outs": [str(out) for out in outs]}
    sys.stdout.write(json.dumps(said | {"moments": sorted(shards_seen)}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
