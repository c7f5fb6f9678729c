"""Any number of worker processes gives the bytes of one process, also when a worker is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.models.weight_hash import weight_hash
from headscope.scan import run
from headscope.scan.corpus.packing import PackedRows, RowFormat, pack
from headscope.scan.measure import Advance, Plan
from headscope.scan.options import ScanOptions
from headscope.scan.pool import WorkerLostError, WorkerPool, WorkerSetup
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder, device_name
from tests.scan.test_resume import content
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"context": 64, "batch": 2, "shard_tokens": 128, "threads": 1, "replicates": 20, "workers": 2}
ONE_SHARD = OPTIONS | {"shard_tokens": 2**20}


@pytest.mark.quick
@pytest.mark.slow
def test_two_processes_one_killed_give_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = texts(30)
    scan(open_tiny(), documents, out=tmp_path / "one", options=ScanOptions(**(OPTIONS | {"workers": 1})))
    plain, killed = ScanFolder.write, []

    def write(self: ScanFolder, path: Path, data: bytes) -> None:
        plain(self, path, data)
        if path.name.endswith(".tally.safetensors") and not killed:
            worker = multiprocessing.active_children()[0]
            killed.append(worker.pid)
            worker.kill()

    monkeypatch.setattr(ScanFolder, "write", write)
    scan(open_tiny(), documents, out=tmp_path / "two", options=ScanOptions(**OPTIONS), opener=open_tiny)
    assert len(killed) == 1
    assert content(tmp_path / "two") == content(tmp_path / "one")
    assert multiprocessing.active_children() == []


def test_a_worker_that_opens_other_weights_is_refused(tmp_path: Path) -> None:
    other = partial(open_tiny, seed=1)
    with pytest.raises(InputError, match="a worker opened tiny with other weights than this scan's"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**ONE_SHARD), opener=other)


def test_a_question_that_cannot_be_pickled_is_reported(tmp_path: Path) -> None:
    rule = LabelRule("mine", lambda tokens: [1 for _ in tokens], lambda tokens: [1 for _ in tokens])
    with pytest.raises(InputError, match="the question 'mine' cannot be sent to other processes"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(rules=(rule,), **OPTIONS), opener=open_tiny)


def dies() -> Any:
    os._exit(9)


@pytest.mark.slow
def test_workers_that_keep_dying_end_the_scan_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 workers died at shard 0 \(the last: exit code 9\)"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**ONE_SHARD), opener=dies)


def test_progress_counts_every_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    advanced: list[int] = []
    here = run.run_here

    def listen(measurer: Any, folder: Any, shards: Any, advance: Advance) -> None:
        here(measurer, folder, shards, lambda tokens: (advanced.append(tokens), advance(tokens))[0])

    monkeypatch.setattr(run, "run_here", listen)
    census = scan(open_tiny(), texts(4), options=ScanOptions(**(OPTIONS | {"workers": 1})))
    assert sum(advanced) == census.recipe.data["result"]["tokens"]


def worker_setup(opener: Any, **changed: str) -> WorkerSetup:
    model = open_tiny()
    plan = Plan.make(model, ScanOptions(batch=2, replicates=3, examples=1), RowFormat(32), 1, "piece")
    same = {"weights_sha256": weight_hash(model.model), "device": device_name(torch.device("cpu"))}
    return WorkerSetup(opener, plan, **(same | changed))


@pytest.fixture
def pipe() -> Iterator[tuple[Any, Any]]:
    """Both ends of a pipe; afterwards the handler of Ctrl-C, which a worker ignores, is restored."""
    before = signal.getsignal(signal.SIGINT)
    near, far = multiprocessing.Pipe()
    yield near, far
    signal.signal(signal.SIGINT, before)
    near.close()
    far.close()


def test_a_worker_on_another_kind_of_machine_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a worker runs on cpu, .*, and this scan on H200: its last digits would differ"
    ):
        worker_setup(open_tiny, device="H200").open()


def sleeps() -> Any:
    time.sleep(600)


class Workers:
    """Workers in this process. ``lost`` lists the shards at which a worker dies, once for each time it is there."""

    def __init__(self, lost: list[int] | None = None) -> None:
        self.lost = list(lost or [])
        self.events: list[str] = []
        self.n_started = 0

    def start(self) -> WorkerHere:
        self.n_started += 1
        return WorkerHere(self, "abcdefgh"[self.n_started - 1])

    def wait(self, answers: list[Any]) -> list[Any]:
        """The one that was sent first has answered."""
        self.events.append(f"wait for {len(answers)}")
        return answers[:1]

    def pool(self, size: int) -> WorkerPool:
        return WorkerPool(size, self.start, self.wait)


class WorkerHere:
    def __init__(self, workers: Workers, name: str) -> None:
        self.workers, self.name, self.rows = workers, name, b""

    def send(self, rows: bytes) -> str:
        self.rows = rows
        return self.name

    def receive(self) -> bytes:
        shard = document_of(self.rows)
        if shard in self.workers.lost:
            self.workers.lost.remove(shard)
            raise WorkerLostError("it was killed")
        self.workers.events.append(f"{self.name} measured {shard}")
        return b"tally of " + str(shard).encode()

    def stop(self) -> None:
        self.workers.events.append(f"{self.name} stopped")


def document_of(rows: bytes) -> int:
    return PackedRows.from_bytes(rows).pieces[0].document


@pytest.fixture
def five(tmp_path: Path) -> ScanFolder:
    """A folder of five shards, each a document of its number, of 10 to 14 tokens."""
    folder = ScanFolder(tmp_path)
    folder.work.mkdir()
    for shard in range(5):
        (rows,) = pack([(shard, list(range(10 + shard)))], RowFormat(16), 4)
        folder.save_rows(shard, rows)
    return folder


class Recipe:
    """A recipe that is ready when more than so many batches were run."""

    def __init__(self, batches: list[int], ready_after: int) -> None:
        self.batches, self.ready_after, self.n_written = batches, ready_after, 0

    @property
    def ready(self) -> bool:
        return len(self.batches) > self.ready_after

    def __call__(self) -> None:
        self.n_written += 1
