"""Two Ray workers, one of them killed, give the bytes of one process; a Ray that is not there is reported."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headscope.errors import InputError
from headscope.scan.corpus.packing import RowFormat
from headscope.scan.measure import Plan
from headscope.scan.options import ScanOptions
from headscope.scan.pool import WorkerSetup
from headscope.scan.run import scan
from tests.scan.test_resume import content
from tests.scan.tiny import open_tiny, texts

pytestmark = pytest.mark.slow

SCRIPT = """
import json, os, signal, sys
from pathlib import Path
import psutil
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from tests.scan.tiny import open_tiny, texts

plain, killed = ScanFolder.write, []

def named(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # one of Ray's own that ends meanwhile
        return ""

def write(self, path, data):
    plain(self, path, data)
    if path.name.endswith(".tally.safetensors") and not killed:
        worker = next(child for child in psutil.Process().children(recursive=True) if "ScanActor" in named(child))
        killed.append(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)

ScanFolder.write = write
options = ScanOptions(**json.loads(sys.argv[2]), ray="local")
scan(open_tiny(), texts(30), out=Path(sys.argv[1]), options=options, opener=open_tiny)
assert len(killed) == 1, killed
"""
QUIET_AND_PATIENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_health_check_timeout_ms": "300000",
    "RAY_memory_monitor_refresh_ms": "0",  # what else the machine holds in memory ends no worker here
}
OPTIONS = {"context": 64, "batch": 2, "shard_tokens": 128, "threads": 1, "replicates": 20, "workers": 2}


def measured_on_ray(folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder / "ray"), json.dumps(OPTIONS)],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"} | QUIET_AND_PATIENT,
        capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip


def test_two_ray_workers_one_killed_give_the_bytes_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install headscope[ray]")
    scan(open_tiny(), texts(30), out=tmp_path / "one", options=ScanOptions(**(OPTIONS | {"workers": 1})))  # type: ignore[arg-type]
    done = measured_on_ray(tmp_path)
    for _ in range(2):
        if "there is no Ray at 'local'" in done.stderr:
            done = measured_on_ray(tmp_path)
    if "there is no Ray at 'local'" in done.stderr:
        pytest.skip(
            "Ray did not start in three tries: it ends itself where its agents take 15 s (ray-project/ray#65983)"
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert content(tmp_path / "ray") == content(tmp_path / "one")


@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("auto", True),
        ("local", True),
        ("cluster:head", True),
        ("{open}", True),
        ("ray://{open}", True),
        ("127.0.0.1:1", False),
        ("ray://127.0.0.1:1", False),
    ],
)
def test_a_closed_port_is_reported_at_once(address: str, there: bool) -> None:
    """Addresses without a port are left to Ray."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install headscope[ray]")
    from headscope.scan.ray_pool import _check_port, _connect

    with socket.create_server(("127.0.0.1", 0)) as server:
        written = address.format(open=f"127.0.0.1:{server.getsockname()[1]}")
        if there:
            _check_port(written)
            return
        with pytest.raises(InputError, match=rf"there is no Ray at '{written}' .*start one with `ray start --head`"):
            _connect(written, 1)


def test_a_missing_ray_cluster_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install headscope[ray]")
    options = ScanOptions(ray="127.0.0.1:1", threads=1)
    with pytest.raises(InputError, match=r"there is no Ray at '127.0.0.1:1' .*start one with `ray start --head`"):
        scan(open_tiny(), texts(3), out=tmp_path, options=options, opener=open_tiny)


def test_ray_needs_a_model_that_workers_can_open() -> None:
    with pytest.raises(InputError, match="several workers open the model themselves"):
        scan(open_tiny(), texts(3), options=ScanOptions(ray="local"))


class Cluster:
    """What Ray is asked for, in place of a Ray that is started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
        ray = pytest.importorskip("ray", reason="Ray is not installed: pip install headscope[ray]")
        self.started: list[dict[str, Any]] = []
        self.actors: list[dict[str, Any]] = []
        self.stopped = 0
        for name in ("init", "remote", "shutdown"):
            monkeypatch.setattr(ray, name, getattr(self, name))
        monkeypatch.setattr(ray, "is_initialized", lambda: there)
        monkeypatch.setattr(ray, "put", lambda setup: ("shared", setup))

    def init(self, **how: Any) -> None:
        self.started.append(how)

    def remote(self, **resources: Any) -> Any:
        self.actors.append(resources)
        return lambda made: SimpleNamespace(remote=lambda *given: (made.__name__, *given))

    def shutdown(self) -> None:
        self.stopped += 1


def setup_of(threads: int, device: str = "cpu, AVX2") -> WorkerSetup:
    plan = Plan.make(open_tiny(), ScanOptions(replicates=3), RowFormat(32), threads, "piece")
    return WorkerSetup(open_tiny, plan, "hash", device)


def test_a_ray_that_runs_already_is_used_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, there=True)
    from headscope.scan.ray_pool import ray_pool

    with ray_pool(setup_of(1), 2, "local") as pool:
        assert pool.size == 2
    assert (cluster.started, cluster.stopped) == ([], 0)
