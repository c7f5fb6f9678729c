"""Any number of worker processes gives the bytes of one process, also when a worker is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
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
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.measure import Advance, Measurer, Plan
from headscope.scan.options import ScanOptions
from headscope.scan.pool import WorkerSetup, run_here, run_worker
from headscope.scan.recipe import device_name
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


def test_workers_that_keep_dying_end_the_scan_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 workers died at shard 0 \(the last: exit code 9\)"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**ONE_SHARD), opener=dies)


def test_progress_counts_every_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    advanced: list[int] = []
    here = run.run_here

    def listen(measurer: Any, folder: Any, shards: Any, advance: Advance, begin: Any) -> None:
        here(measurer, folder, shards, lambda tokens: (advanced.append(tokens), advance(tokens))[0], begin)

    monkeypatch.setattr(run, "run_here", listen)
    census = scan(open_tiny(), texts(4), options=ScanOptions(**(OPTIONS | {"workers": 1, "progress": True})))
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


def test_a_worker_returns_the_tally_of_each_shard_and_then_its_error(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    (rows,) = pack([(0, list(b"the cat sat on the mat, the cat"))], RowFormat(32), 9)
    near.send_bytes(rows.to_bytes())
    near.send_bytes(b"damaged")
    setup = worker_setup(open_tiny)
    run_worker(far, setup)
    assert near.recv() == (None, Measurer(open_tiny(), setup.plan).measure(rows).to_bytes())
    error, tally = near.recv()
    assert tally is None
    assert isinstance(error, RuntimeError)
    assert "Traceback" in str(error)


def test_a_worker_returns_headscope_errors_as_they_are(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    run_worker(far, worker_setup(partial(open_tiny, seed=1)))
    error, tally = near.recv()
    assert tally is None
    assert isinstance(error, InputError)
    assert "a worker opened tiny with other weights than this scan's" in str(error)


def test_a_worker_ends_without_an_error_when_its_parent_is_gone(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    near.close()
    run_worker(far, worker_setup(open_tiny))


def test_a_worker_on_another_kind_of_machine_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a worker runs on cpu, .*, and this scan on H200: its last digits would differ"
    ):
        worker_setup(open_tiny, device="H200").open()


def test_shards_measured_in_this_process_are_written_under_their_numbers(tmp_path: Path) -> None:
    folder = ScanFolder(tmp_path)
    folder.work.mkdir()
    shards = list(pack([(number, list(b"a cat saw it; a cat sat") * 2) for number in range(6)], RowFormat(32), 2))
    for number, rows in enumerate(shards):
        folder.save_rows(number, rows)
    advanced: list[int] = []
    measurer = worker_setup(open_tiny).open()
    run_here(measurer, folder, [2, 0], advanced.append)
    assert sorted(file.name for file in folder.work.glob("*.tally.*")) == [
        "000000.tally.safetensors",
        "000002.tally.safetensors",
    ]
    assert folder.tally_file(2).read_bytes() == measurer.measure(shards[2]).to_bytes()
    assert sum(advanced) == shards[0].n_tokens + shards[2].n_tokens
