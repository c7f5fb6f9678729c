"""Kill a scan at one file operation after another, then finish it. Run by test_resume in a process of its own.

Each scan is a fork, so modules are imported only once. Prints one JSON line.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import torch

from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from tests.killing import in_a_fork, kill_at_byte, kill_before_change
from tests.scan.tiny import open_tiny, texts

OPTIONS = ScanOptions(context=64, batch=1, shard_tokens=256, threads=1, replicates=20, examples=2)
SIZES = (1, 500, 5_000, 20_000)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(12)))
    ends: dict[str, list[int]] = {"bytes": [], "changes": [], "whole": []}

    def scan_into(name: str) -> None:
        scan(open_tiny(), corpus, out=folder / name, options=OPTIONS)

    for size in SIZES:
        ends["bytes"].append(kill_at_byte(size, lambda: scan_into("bytes")))
    phases = []
    while not ends["changes"] or ends["changes"][-1]:
        phases.append(phase(folder / "changes"))
        turn = phases.count(phases[-1])
        # Packing and the end are done anew after a kill, so each kill comes later; a measured shard is kept.
        number = 3 + turn % 2 if phases[-1] == "measuring" else 4 * turn - 4
        by = signal.SIGTERM if turn % 2 else signal.SIGKILL
        ends["changes"].append(kill_before_change(number, folder / "changes", lambda: scan_into("changes"), by))
    for name in ("bytes", "whole"):
        ends[name].append(in_a_fork(lambda name=name: scan_into(name)))  # type: ignore[misc]
    sys.stdout.write(json.dumps({"ends": ends, "phases": phases}) + "\n")


def phase(out: Path) -> str:
    """What a scan into this folder has to do next."""
    if not (out / "work/packed.json").exists():
        return "packing" if not (out / "census.parquet").exists() else "ending"
    n_rows, n_tallies = (len(list(out.glob(f"work/*.{kind}.safetensors"))) for kind in ("rows", "tally"))
    return "measuring" if n_tallies < n_rows else "ending"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
