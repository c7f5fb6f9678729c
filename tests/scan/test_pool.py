"""Any number of worker processes gives the bytes of one process, also when a worker is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.models.weight_hash import weight_hash
from headscope.scan import pool, run
from headscope.scan.corpus.packing import PackedRows, RowFormat, pack
from headscope.scan.measure import Advance, Measurer, Plan
from headscope.scan.options import ScanOptions
from headscope.scan.pool import WorkerLostError, WorkerPool, WorkerSetup, _ProcessWorker, _run_worker, run_here
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
    _run_worker(far, setup)
    assert near.recv() == (None, Measurer(open_tiny(), setup.plan).measure(rows).to_bytes())
    error, tally = near.recv()
    assert tally is None
    assert isinstance(error, RuntimeError)
    assert "Traceback" in str(error)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "Ctrl-C is the parent's"


def test_a_worker_returns_headscope_errors_as_they_are(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    _run_worker(far, worker_setup(partial(open_tiny, seed=1)))
    error, tally = near.recv()
    assert tally is None
    assert isinstance(error, InputError)
    assert "a worker opened tiny with other weights than this scan's" in str(error)


def test_a_worker_ends_without_an_error_when_its_parent_is_gone(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    near.close()
    _run_worker(far, worker_setup(open_tiny))


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


def sleeps() -> Any:
    time.sleep(600)


def test_a_stopped_worker_is_gone_whatever_it_does() -> None:
    worker = _ProcessWorker(worker_setup(sleeps))
    try:
        assert worker.process.daemon, "it ends with its parent"
        worker.stop()
        assert worker.pipe.closed
        assert worker.process.exitcode == -signal.SIGKILL
    finally:
        worker.process.kill()


def test_a_worker_s_answer_is_its_tally_its_error_or_its_end(pipe: tuple[Any, Any]) -> None:
    near, far = pipe
    ended: list[int] = []
    worker = _ProcessWorker.__new__(_ProcessWorker)
    worker.pipe, worker.process = near, SimpleNamespace(join=lambda: ended.append(9), exitcode=9)  # type: ignore[assignment]
    assert worker.send(b"rows") is near
    assert far.recv_bytes() == b"rows"
    far.send((None, b"tally"))
    assert worker.receive() == b"tally"
    far.send((InputError("too short"), None))
    with pytest.raises(InputError, match="too short"):
        worker.receive()
    far.close()
    assert worker.send(b"rows") is near, "that it has died is noticed when it is asked for its answer"
    with pytest.raises(WorkerLostError, match="exit code 9"):
        worker.receive()
    assert ended == [9], "there is no exit code before a process has been waited for"


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


def test_workers_take_one_shard_after_the_other_and_stop_when_there_is_none_left(five: ScanFolder) -> None:
    workers, advanced = Workers(), list[int]()
    workers.pool(2).run(five, [0, 1, 3, 4], advanced.append)
    assert workers.events == [
        "wait for 2", "b measured 0", "wait for 2", "a measured 1", "wait for 2", "b measured 3", "b stopped",
        "wait for 1", "a measured 4", "a stopped",
    ]  # fmt: skip
    assert advanced == [10, 11, 13, 14]
    assert workers.n_started == 2
    written = {file.name: file.read_bytes() for file in five.work.glob("*.tally.*")}
    assert written == {f"00000{n}.tally.safetensors": f"tally of {n}".encode() for n in (0, 1, 3, 4)}


def test_no_more_workers_are_started_than_there_are_shards(five: ScanFolder) -> None:
    workers = Workers()
    workers.pool(4).run(five, [1, 2], lambda _: None)
    assert workers.n_started == 2


def test_a_shard_of_two_lost_workers_is_measured_by_the_third(five: ScanFolder) -> None:
    workers, advanced = Workers(lost=[1, 1, 0]), list[int]()
    workers.pool(1).run(five, [0, 1], advanced.append)
    assert [event for event in workers.events if "measured" in event] == ["b measured 0", "d measured 1"]
    assert (workers.n_started, advanced) == (4, [10, 11])
    assert five.n_tallies() == 2


def test_the_third_worker_lost_at_one_shard_ends_the_scan_and_all_workers(five: ScanFolder) -> None:
    workers = Workers(lost=[2, 2, 2])
    with pytest.raises(InputError, match=r"^3 workers died at shard 2 \(the last: it was killed\); often"):
        workers.pool(2).run(five, [2, 4], lambda _: None)
    stopped = {event.split()[0] for event in workers.events if event.endswith("stopped")}
    assert "a" in stopped, "the one that measures the other shard"
    assert workers.n_started == 4


class Recipe:
    """A recipe that is ready when more than so many batches were run."""

    def __init__(self, batches: list[int], ready_after: int) -> None:
        self.batches, self.ready_after, self.n_written = batches, ready_after, 0

    @property
    def ready(self) -> bool:
        return len(self.batches) > self.ready_after

    def __call__(self) -> None:
        self.n_written += 1


@pytest.mark.parametrize(
    ("ready_after", "room", "written_after"),
    [
        (0, 99, [0, 1, 2, 3]),  # tallies that were written when a shard's tokens were counted: at once
        (2, 99, [0, 0, 0, 3]),
        (9, 99, [0, 0, 0, 0]),
        (9, 2, [0, 0, 0, 3]),
    ],
)
def test_tallies_are_held_until_the_recipe_is_ready_or_there_is_no_room(
    five: ScanFolder, monkeypatch: pytest.MonkeyPatch, ready_after: int, room: int, written_after: list[int]
) -> None:
    measurer = worker_setup(open_tiny).open()
    size = len(measurer.measure(five.rows(0)).to_bytes())
    monkeypatch.setattr(pool, "HELD", room * size)
    seen: list[int] = []
    begin = Recipe(seen, ready_after)
    run_here(measurer, five, [4, 1, 2, 3], lambda _: seen.append(five.n_tallies()), begin)
    assert seen == written_after, "the tally of a batch is made when the next one has been run"
    assert [shard for shard in range(5) if five.tally_file(shard).exists()] == [1, 2, 3, 4]
    assert begin.n_written > 0
    for shard in (1, 4):
        assert five.tally_file(shard).read_bytes() == measurer.measure(five.rows(shard)).to_bytes()


def test_a_scan_that_is_stopped_keeps_what_it_held(five: ScanFolder) -> None:
    def press(_: int) -> None:
        pressed.append(1)
        if len(pressed) == 3:
            raise KeyboardInterrupt

    pressed = list[int]()
    begin = Recipe(pressed, 99)
    with pytest.raises(KeyboardInterrupt):
        run_here(worker_setup(open_tiny).open(), five, range(5), press, begin)
    assert (five.n_tallies(), begin.n_written) == (2, 1)


def test_a_scan_stopped_before_its_first_tally_writes_no_recipe(five: ScanFolder) -> None:
    def press(_: int) -> None:
        raise KeyboardInterrupt

    begin = Recipe([], 0)
    with pytest.raises(KeyboardInterrupt):
        run_here(worker_setup(open_tiny).open(), five, range(5), press, begin)
    assert (five.n_tallies(), begin.n_written) == (0, 0)


def test_a_pool_and_what_it_sends_to_workers_are_not_changed() -> None:
    for made in (Workers().pool(1), worker_setup(open_tiny)):
        with pytest.raises(FrozenInstanceError):
            made.size = made.device = 2  # type: ignore[misc,union-attr,assignment]
