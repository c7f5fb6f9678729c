"""Measure shards on Ray, with workers on any machine of a cluster.

Rows are sent to the workers and tallies back, and only the starting process writes files, so the machines need no
shared disk.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from headscope.errors import HeadscopeError, InputError
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.pool import WorkerLostError, WorkerPool, WorkerSetup

TIMEOUT = 300.0
"""Seconds without an answer from any worker after which the scan ends."""


class _ScanActor:
    """The actor: a model, opened on the machine where it runs."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.measurer = setup.open()

    def measure(self, rows: bytes) -> bytes:
        return self.measurer.measure(PackedRows.from_bytes(rows)).to_bytes()


class _RayWorker:
    """The driver's side of one actor."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def send(self, rows: bytes) -> Any:
        self.answer = self.actor.measure.remote(rows)
        return self.answer

    def receive(self) -> bytes:
        try:
            return bytes(ray.get(self.answer, timeout=TIMEOUT))
        except (RayActorError, GetTimeoutError) as error:
            raise WorkerLostError(str(error).splitlines()[0]) from error
        except RayTaskError as error:
            raise (error.cause if isinstance(error.cause, HeadscopeError) else error) from None

    def stop(self) -> None:
        ray.kill(self.actor)


@contextmanager
def ray_pool(setup: WorkerSetup, size: int, address: str) -> Iterator[WorkerPool]:
    """A pool of Ray actors. ``address`` is a cluster's, "auto", or "local" to start Ray on this machine."""
    connect = not ray.is_initialized()
    if connect:
        _connect(address, size * setup.plan.threads)
    try:
        gpus = 0 if setup.device.startswith("cpu") else 1
        actor = ray.remote(num_cpus=setup.plan.threads, num_gpus=gpus)(_ScanActor)
        shared = ray.put(setup)
        yield WorkerPool(size, lambda: _RayWorker(actor.remote(shared)), _wait)
    finally:
        if connect:
            ray.shutdown()


def _wait(answers: list[Any]) -> list[Any]:
    done, _ = ray.wait(answers, num_returns=1, timeout=TIMEOUT)
    if not done:
        raise InputError(
            f"no Ray worker answered for {TIMEOUT:.0f} seconds; check that the cluster has resources for "
            f"{len(answers)} workers"
        )
    return list(done)


def _connect(address: str, cores: int) -> None:
    local: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False} if address == "local" else {}
    try:
        _check_port(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # Ray raises many kinds, and bare ones where a node does not come up in time
        raise InputError(f"there is no Ray at {address!r} ({error}); start one with `ray start --head`") from error


def _check_port(address: str) -> None:
    """Try the address once: Ray itself retries for minutes. Addresses without a port are left to Ray."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
