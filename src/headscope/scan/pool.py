"""Measure shards on this machine: in this process, or in worker processes that open the model themselves.

Workers receive packed rows and return a tally; only the parent writes files. The shard of a worker that dies is
measured by another one. Workers end when their parent dies, because their pipe closes.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from headscope.errors import HeadscopeError, InputError
from headscope.models.recording import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.measure import Advance, Measurer, Plan
from headscope.scan.shards import ScanFolder, device_name
from headscope.scan.tally import Tally

Opener = Callable[[], OpenModel]
"""Opens the model again, in another process: a function that can be pickled, as ``partial(open_model, "gpt2")``."""

MAX_LOSSES = 3
"""The number of workers lost at one shard that ends a scan."""


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker needs: how to open the model, what to measure, and which weights and device to expect."""

    opener: Opener
    plan: Plan
    weights_sha256: str
    device: str

    def open(self) -> Measurer:
        """Open the model, and check that it is the one this scan began with."""
        model = self.opener()
        measurer = Measurer(model, self.plan)
        if weight_hash(model.model) != self.weights_sha256:
            raise InputError(f"a worker opened {model.shape.name} with other weights than this scan's")
        if device_name(measurer.device) != self.device:
            raise InputError(
                f"a worker runs on {device_name(measurer.device)}, and this scan on {self.device}: its last digits "
                "would differ; use machines of one kind"
            )
        return measurer


class WorkerLostError(Exception):
    """A worker died before it returned its tally."""


class _Worker(Protocol):
    """A process, here or elsewhere, that measures one shard at a time."""

    def send(self, rows: bytes) -> Any:
        """Start measuring; returns what to wait for."""

    def receive(self) -> bytes:
        """The tally. Raises what went wrong in the worker, or WorkerLostError."""

    def stop(self) -> None: ...


@dataclass(frozen=True)
class WorkerPool:
    """How to start a worker, and how to wait until some of them have answered."""

    size: int
    start: Callable[[], _Worker]
    wait: Callable[[list[Any]], list[Any]]

    def run(self, folder: ScanFolder, shards: Sequence[int], advance: Advance) -> None:
        """Measure the shards with all workers. The shard of a lost worker goes to a new one."""
        queue, losses = deque(shards), Counter[int]()
        busy: dict[Any, tuple[_Worker, int, int]] = {}
        idle = [self.start() for _ in range(min(self.size, len(shards)))]
        try:
            while queue or busy:
                while queue and len(busy) < self.size:
                    rows = folder.rows(queue[0])
                    worker = idle.pop() if idle else self.start()
                    busy[worker.send(rows.to_bytes())] = worker, queue.popleft(), rows.n_tokens
                while idle:  # on a full cluster this frees resources for workers that have not started yet
                    idle.pop().stop()
                for answer in self.wait(list(busy)):
                    worker, shard, n_tokens = busy[answer]
                    try:
                        tally = worker.receive()
                    except WorkerLostError as error:
                        losses[shard] += 1
                        if losses[shard] == MAX_LOSSES:
                            raise InputError(
                                f"{MAX_LOSSES} workers died at shard {shard} (the last: {error}); often that is "
                                "memory: try fewer workers, or a smaller batch"
                            ) from error
                        queue.appendleft(shard)
                    else:
                        folder.write(folder.tally_file(shard), tally)
                        advance(n_tokens)
                        idle.append(worker)
                    del busy[answer]
        finally:
            for worker in (*idle, *(worker for worker, _, _ in busy.values())):
                worker.stop()


def run_here(measurer: Measurer, folder: ScanFolder, shards: Iterable[int], advance: Advance) -> None:
    """Measure one shard after the other in this process."""
    numbers: deque[int] = deque()

    def rows() -> Iterator[PackedRows]:
        for shard in shards:
            numbers.append(shard)
            yield folder.rows(shard)

    def write(tally: Tally) -> None:
        folder.write(folder.tally_file(numbers.popleft()), tally.to_bytes())

    measurer.measure_all(rows(), write, advance)


def process_pool(setup: WorkerSetup, size: int) -> WorkerPool:
    """A pool of processes on this machine."""
    for rule in setup.plan.rules:
        try:
            pickle.dumps(rule)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the question {rule.name!r} cannot be sent to other processes ({error}); define its functions at the "
                "top of a module, or scan with workers=1"
            ) from error
    return WorkerPool(size, partial(_ProcessWorker, setup), wait)


class _ProcessWorker:
    """A worker process and the parent's end of its pipe."""

    def __init__(self, setup: WorkerSetup) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_run_worker, args=(theirs, setup), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, rows: bytes) -> Connection[Any, Any]:
        with suppress(OSError):  # a worker that has died is noticed by receive
            self.pipe.send_bytes(rows)
        return self.pipe

    def receive(self) -> bytes:
        try:
            error, tally = self.pipe.recv()
        except (EOFError, OSError) as closed:
            self.process.join()
            raise WorkerLostError(f"exit code {self.process.exitcode}") from closed
        if error is not None:
            raise error
        return bytes(tally)

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _run_worker(pipe: Connection[Any, Any], setup: WorkerSetup) -> None:
    """Open the model, then answer every shard's rows on the pipe with (error, tally)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops its workers
    try:
        measurer = setup.open()
        while True:
            rows = PackedRows.from_bytes(pipe.recv_bytes())
            pipe.send((None, measurer.measure(rows).to_bytes()))
    except EOFError:
        return
    except Exception as error:
        known = error if isinstance(error, HeadscopeError) else RuntimeError(traceback.format_exc())
        pipe.send((known, None))
