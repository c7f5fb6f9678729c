"""Any number of processes gives the same bytes as one, also when one of them is killed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from headscope.errors import InputError
from headscope.heads.rules import LabelRule
from headscope.scan import run
from headscope.scan.measure import Tick
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from tests.scan.test_resume import content
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"context": 64, "batch": 2, "shard_tokens": 128, "threads": 1, "replicates": 20, "workers": 2}
ONE_SHARD = OPTIONS | {"shard_tokens": 2**20}


def test_two_processes_one_killed_give_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = texts(30)
    scan(open_tiny(), documents, out=tmp_path / "one", options=ScanOptions(**(OPTIONS | {"workers": 1})))
    plain, killed = ScanFolder.write, []

    def write(self: ScanFolder, path: Path, data: bytes) -> None:
        plain(self, path, data)
        if path.name.endswith(".tally.safetensors") and not killed:
            worker = next(child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline()))
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    monkeypatch.setattr(ScanFolder, "write", write)
    scan(open_tiny(), documents, out=tmp_path / "two", options=ScanOptions(**OPTIONS), opener=open_tiny)
    assert len(killed) == 1
    assert content(tmp_path / "two") == content(tmp_path / "one")
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_a_worker_that_opens_other_weights_is_refused(tmp_path: Path) -> None:
    other = partial(open_tiny, seed=1)
    with pytest.raises(InputError, match="a worker opened tiny with other weights than this scan's"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**ONE_SHARD), opener=other)


def test_a_question_that_cannot_travel_is_said(tmp_path: Path) -> None:
    rule = LabelRule("mine", lambda tokens: [1 for _ in tokens], lambda tokens: [1 for _ in tokens])
    with pytest.raises(InputError, match="the question 'mine' cannot travel to other processes"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(rules=(rule,), **OPTIONS), opener=open_tiny)


def dies() -> Any:
    os._exit(9)


def test_workers_that_keep_dying_end_the_scan_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 workers died at shard 0 \(the last with exit code 9\)"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**ONE_SHARD), opener=dies)


def test_progress_is_told_every_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[int] = []
    here = run.run_here

    def listen(measurer: Any, folder: Any, shards: Any, tick: Tick) -> None:
        here(measurer, folder, shards, lambda tokens: (told.append(tokens), tick(tokens))[0])

    monkeypatch.setattr(run, "run_here", listen)
    census = scan(open_tiny(), texts(4), options=ScanOptions(**(OPTIONS | {"workers": 1, "progress": True})))
    assert sum(told) == census.recipe.words["result"]["tokens"]
