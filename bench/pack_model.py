"""Put a judged candidate in the embedded model's place: ``python -m bench.pack_model runs/embedded``.

The run's folder holds ``model`` (weights, tokenizer, film), ``judged.json`` (``bench/judge_model.py``) and
``mixture.json``. Weights, tokenizer, film, card and the battery's report are copied or written, and every generated
file that shows the model is generated again. A candidate that misses a goal is refused unless ``--anyway`` is given.
``--into`` packs elsewhere and regenerates nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from bench.heads import ship
from bench.model_card import card
from bench.train_model import log

from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.roles.report import Report
from headscope.models.weight_hash import weight_hash
from headscope.scope import EMBEDDED, load

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("model.safetensors", "film.safetensors"),
)
REGENERATED = (  # what is made from the embedded model, and the command that makes it
    ("bench/results/heads/embedded.json", "bench/heads.py", "--name", "embedded"),
    ("src/headscope/models/embedded/census.zip", "-m", "bench.census"),
    ("docs/film.md", "-m", "docs.generate.film", "docs/film.md"),
    ("docs/images", "docs/pictures.py"),
)


def check(run: Path, *, anyway: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The judgement and the mixture of a run; refuse one that is incomplete or misses a goal."""
    wanted = [run / "judged.json", run / "mixture.json", *(run / "model" / name for name in COPIED)]
    lacking = [str(file) for file in wanted if not file.is_file()]
    if lacking:
        raise InputError(f"{run} lacks {', '.join(lacking)}; train and judge it first")
    judged, mixture = (json.loads(file.read_text(encoding="utf-8")) for file in wanted[:2])
    missed = [goal for goal, reached in judged["goals"].items() if not reached]
    if missed and not anyway:
        raise InputError(f"{run} misses {len(missed)} goals: {'; '.join(missed)}. Train another, or give --anyway")
    return judged, mixture


def place(model: Path, target: Path) -> None:
    """Copy a trained folder's files over another's."""
    for old in target.glob("model*.safetensors*"):
        old.unlink()
    for name in COPIED:
        shutil.copyfile(model / name, target / name)


def write_report(judged: dict[str, Any], target: Path) -> None:
    """Ship the battery's report with the hash of the weights that it was measured on."""
    with load(target, dtype=torch.float32) as scope:
        digest = weight_hash(scope.model.model, torch.float32)
        if digest != judged["weights"]:
            raise InputError(
                f"the weights judged are {judged['weights'][:12]}, these are {digest[:12]}; judge them again"
            )
        report = replace(Report.from_dict(judged["battery"]), model=scope.shape.name)
        ship(report, scope, target / "heads.json")


def regenerate() -> None:
    """Make every file again that shows the embedded model."""
    for file, *command in REGENERATED:
        log("regenerating", file)
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=3600)


def pack(run: Path, target: Path, *, anyway: bool) -> None:
    """Put a run's model into a folder with its card and its report."""
    judged, mixture = check(run, anyway=anyway)
    target.mkdir(parents=True, exist_ok=True)
    place(run / "model", target)
    write_report(judged, target)
    write_atomic(target / "MODEL_CARD.md", card(judged, mixture, target).encode())
    log("packed into", target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, judged")
    parser.add_argument("--into", type=Path, help="pack into this folder instead, and regenerate nothing")
    parser.add_argument("--anyway", action="store_true", help="although goals are missed")
    given = parser.parse_args()
    pack(given.run, given.into or EMBEDDED, anyway=given.anyway)
    if given.into is None:
        regenerate()
        judged, mixture = check(given.run, anyway=True)
        write_atomic(EMBEDDED / "MODEL_CARD.md", card(judged, mixture, EMBEDDED).encode())  # with the new files' hashes
        print("now: make web, make test, and read what tests/test_named_heads.py lists")


if __name__ == "__main__":
    main()
