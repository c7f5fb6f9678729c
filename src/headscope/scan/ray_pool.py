"""The same shards on Ray: workers on any machine of a cluster, tallies written by the one that started the scan.

Rows travel to the workers and tallies back, so the machines need no shared disk. A lost worker's shard is taken over.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from headscope.errors import HeadscopeError, InputError
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.measure import Tick
from headscope.scan.pool import MOST_DEATHS, Work
from headscope.scan.shards import ScanFolder

PATIENCE = 300.0
"""Seconds without a sign of life from any worker after which the cluster is said to have no room."""


class ScanWorker:
    """One worker: a model, opened on the machine where it runs."""

    def __init__(self, work: Work) -> None:
        self.measurer = work.ready()

    def process(self) -> int:
        return os.getpid()

    def measure(self, rows: bytes) -> bytes:
        return self.measurer.measure(PackedRows.from_bytes(rows)).to_bytes()


def run_on_ray(work: Work, folder: ScanFolder, shards: Sequence[int], workers: int, address: str, tick: Tick) -> None:
    """So many Ray workers share the shards. ``address`` is a cluster's, "auto", or "local" for one started here."""
    started = not ray.is_initialized()
    if started:
        _connect(address, workers * work.plan.threads)
    try:
        _Cluster(work, folder, list(shards), tick).run(min(workers, len(shards)))
    finally:
        if started:
            ray.shutdown()


def _connect(address: str, cores: int) -> None:
    _knock(address)
    quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == "local":
            ray.init(address="local", num_cpus=cores, **quiet)
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises many kinds, and bare ones where a node does not come up in time
        raise _nobody(address, error) from error


def _nobody(address: str, error: Exception) -> InputError:
    return InputError(f"there is no Ray at {address!r} ({error}); start one with `ray start --head`")


def _knock(address: str) -> None:
    """Ray asks a machine that is not there again and again, for minutes; one try says it at once."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise _nobody(address, error) from error


class _Cluster:
    def __init__(self, work: Work, folder: ScanFolder, shards: list[int], tick: Tick) -> None:
        self.work, self.folder, self.waiting, self.tick = work, folder, shards, tick
        gpus = 0 if work.device.startswith("cpu") else 1
        self.kind = ray.remote(num_cpus=work.plan.threads, num_gpus=gpus)(ScanWorker)
        self.work_reference = ray.put(work)
        self.busy: dict[Any, tuple[Any, int, int]] = {}
        self.deaths: dict[int, int] = {}

    def run(self, size: int) -> None:
        for _ in range(size):
            self._give(self._worker())
        while self.busy:
            done, _ = ray.wait(list(self.busy), num_returns=1, timeout=PATIENCE)
            if not done:
                raise InputError(
                    f"no Ray worker answered for {PATIENCE:.0f} seconds; has the cluster {size} free places?"
                )
            self._hear(done[0])

    def _worker(self) -> Any:
        return self.kind.remote(self.work_reference)

    def _give(self, worker: Any) -> None:
        if not self.waiting:
            ray.kill(worker)
            return
        shard = self.waiting.pop(0)
        rows = self.folder.rows(shard)
        self.busy[worker.measure.remote(rows.to_bytes())] = (worker, shard, rows.n_tokens)

    def _hear(self, answer: Any) -> None:
        worker, shard, tokens = self.busy.pop(answer)
        try:
            tally = ray.get(answer, timeout=PATIENCE)
        except (RayActorError, GetTimeoutError) as error:
            self._lost(shard, error)
            return
        except RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, HeadscopeError) else error) from None
        self.folder.write(self.folder.tally_file(shard), tally)
        self.tick(tokens)
        self._give(worker)

    def _lost(self, shard: int, error: Exception) -> None:
        """A worker is gone: another takes its shard over."""
        count = self.deaths[shard] = self.deaths.get(shard, 0) + 1
        if count >= MOST_DEATHS:
            raise InputError(f"{count} Ray workers were lost at shard {shard}: {str(error).splitlines()[0]}") from error
        self.waiting.insert(0, shard)
        self._give(self._worker())
