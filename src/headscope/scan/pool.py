"""Shards on this machine: in this process, or in several that open the model themselves.

Workers get packed rows and give back a tally; only the parent writes. A worker that dies gives its shard back, and
workers whose parent dies end by themselves, because their pipe does.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from headscope.errors import HeadscopeError, InputError
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.measure import Measurer, Plan, Tick
from headscope.scan.recipe import device_words
from headscope.scan.shards import ScanFolder

Opener = Callable[[], OpenModel]
"""Opens the model again, in another process: a function that can be pickled, as ``partial(open_model, "gpt2")``."""

MOST_DEATHS = 3
"""A shard that has taken so many workers with it is not tried again."""


@dataclass(frozen=True)
class Work:
    """All that a worker needs to know."""

    opener: Opener
    plan: Plan
    weights_sha256: str
    device: str

    def ready(self) -> Measurer:
        """Open the model here, and make sure it is the same one."""
        model = self.opener()
        measurer = Measurer(model, self.plan)
        if weight_hash(model.model) != self.weights_sha256:
            raise InputError(f"a worker opened {model.shape.name} with other weights than this scan's")
        if device_words(measurer.device) != self.device:
            raise InputError(
                f"a worker runs on {device_words(measurer.device)}, and this scan on {self.device}: its last digits "
                "would differ; use machines of one kind"
            )
        return measurer


def run_here(measurer: Measurer, folder: ScanFolder, shards: Sequence[int], tick: Tick) -> None:
    """One shard after the other, in this process."""
    for shard in shards:
        folder.write(folder.tally_file(shard), measurer.measure(folder.rows(shard), tick).to_bytes())


def run_in_processes(work: Work, folder: ScanFolder, shards: Sequence[int], workers: int, tick: Tick) -> None:
    """So many processes share the shards."""
    _check_travels(work)
    pool = _Pool(work, folder, list(shards), tick)
    try:
        pool.run(min(workers, len(shards)))
    finally:
        pool.stop()


class _Worker:
    """One process, the near end of its pipe, and the shard it is busy with."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=serve, args=(far, work), daemon=True)
        self.process.start()
        far.close()
        self.shard: int | None = None


class _Pool:
    def __init__(self, work: Work, folder: ScanFolder, shards: list[int], tick: Tick) -> None:
        self.work, self.folder, self.waiting, self.tick = work, folder, shards, tick
        self.workers: list[_Worker] = []
        self.deaths: dict[int, int] = {}
        self.tokens: dict[int, int] = {}

    def run(self, size: int) -> None:
        self.workers = [_Worker(self.work) for _ in range(size)]
        for worker in self.workers:
            self._give(worker)
        while any(worker.shard is not None for worker in self.workers):
            busy = {worker.pipe: worker for worker in self.workers if worker.shard is not None}
            for pipe in wait(list(busy)):
                self._hear(busy[pipe])  # type: ignore[index]

    def _give(self, worker: _Worker) -> None:
        worker.shard = self.waiting.pop(0) if self.waiting else None
        if worker.shard is not None:
            rows = self.folder.rows(worker.shard)
            self.tokens[worker.shard] = rows.n_tokens
            try:
                worker.pipe.send_bytes(rows.to_bytes())
            except OSError:  # it died while idle
                self._replace(worker)

    def _hear(self, worker: _Worker) -> None:
        assert worker.shard is not None
        try:
            kind, answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if kind == "error":
            raise answer
        self.folder.write(self.folder.tally_file(worker.shard), answer)
        self.tick(self.tokens[worker.shard])
        self._give(worker)

    def _replace(self, worker: _Worker) -> None:
        """A worker is gone: its shard goes back to the front, and a new worker takes its place."""
        assert worker.shard is not None
        count = self.deaths[worker.shard] = self.deaths.get(worker.shard, 0) + 1
        worker.process.join()
        if count >= MOST_DEATHS:
            raise InputError(
                f"{count} workers died at shard {worker.shard} (the last with exit code {worker.process.exitcode}); "
                "often that is memory: try fewer workers, or a smaller batch"
            )
        self.waiting.insert(0, worker.shard)
        fresh = _Worker(self.work)
        self.workers[self.workers.index(worker)] = fresh
        self._give(fresh)

    def stop(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join(timeout=2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def serve(pipe: Connection[Any, Any], work: Work) -> None:
    """A worker's life: open the model, then a tally for every shard that comes down the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, who closes the pipe
    try:
        measurer = work.ready()
        while True:
            rows = PackedRows.from_bytes(pipe.recv_bytes())
            pipe.send(("tally", measurer.measure(rows).to_bytes()))
    except EOFError:
        return
    except Exception as error:
        known = error if isinstance(error, HeadscopeError) else RuntimeError(traceback.format_exc())
        pipe.send(("error", known))


def _check_travels(work: Work) -> None:
    for rule in work.plan.rules:
        try:
            pickle.dumps(rule)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the question {rule.name!r} cannot travel to other processes ({error}); define its functions at the "
                "top of a module, or scan with workers=1"
            ) from error
