"""A scan that is killed at any moment resumes, and ends with the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import InputError
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import Packing, ScanFolder
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"context": 64, "batch": 2, "shard_tokens": 128, "threads": 1, "replicates": 20}


def content(folder: Path) -> dict[str, bytes]:
    """What a scan gives."""
    files = sorted(folder.iterdir())
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.slow
def test_a_scan_killed_at_many_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.scan.killed", str(tmp_path)],
        cwd=root, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ends"]["bytes"] == [-signal.SIGXFSZ] * 4 + [0]
    assert {*said["ends"]["changes"][:-1]} == {-signal.SIGKILL, -signal.SIGTERM}
    assert (said["ends"]["changes"][-1], said["ends"]["whole"]) == (0, [0])
    killed = Counter(said["phases"][:-1])
    assert min(killed["packing"], killed["measuring"], killed["ending"]) >= 3, killed
    for name in ("bytes", "changes"):
        assert content(tmp_path / name) == content(tmp_path / "whole")


class StopError(Exception):
    pass


def stop_after(monkeypatch: pytest.MonkeyPatch, writes: int, error: BaseException) -> None:
    """Raise an error after this many files."""
    plain, count = ScanFolder.write, 0

    def write(self: ScanFolder, path: Path, data: bytes) -> None:
        nonlocal count
        count += 1
        if count > writes:
            raise error
        plain(self, path, data)

    monkeypatch.setattr(ScanFolder, "write", write)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.param(StopError(), marks=pytest.mark.slow)])
def test_a_scan_stopped_between_any_two_files_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    documents, options = texts(12), ScanOptions(**OPTIONS)
    scan(open_tiny(), documents, out=tmp_path / "whole", options=options)
    for writes in (0, 1, 2, 5, 9):
        with monkeypatch.context() as patch:
            stop_after(patch, writes, error)
            with pytest.raises(type(error)):
                scan(open_tiny(), documents, out=tmp_path / "stopped", options=options)
    scan(open_tiny(), documents, out=tmp_path / "stopped", options=options)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_ctrl_c_reports_how_many_shards_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_after(monkeypatch, 14, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match=r"\d of \d+ shards are kept in .*out"):
        scan(open_tiny(), texts(12), out=tmp_path / "out", options=ScanOptions(**OPTIONS))


def test_a_full_disk_keeps_finished_shards(tmp_path: Path) -> None:
    documents, options = texts(12), ScanOptions(**OPTIONS)
    scan(open_tiny(), documents, out=tmp_path / "whole", options=options)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, before[1]))  # rows fit, tallies do not
    try:
        with pytest.raises(InputError, match=r"out/.* no space for [\d,]+ bytes .*finished shards are kept"):
            scan(open_tiny(), documents, out=tmp_path / "out", options=options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "out").glob("work/*.rows.safetensors"))
    assert not list((tmp_path / "out").glob("work/*.part"))
    scan(open_tiny(), documents, out=tmp_path / "out", options=options)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.parametrize(
    ("model", "changed", "said"),
    [
        ({}, {"context": 32}, "packing.context: 64 there, 32 here"),
        ({}, {"seed": 1}, "seed: 0 there, 1 here"),
        ({"seed": 1}, {}, "model.weights_sha256: "),
    ],
)
def test_another_recipe_is_refused_with_the_differences(
    tmp_path: Path, model: dict[str, Any], changed: dict[str, Any], said: str
) -> None:
    scan(open_tiny(), texts(3), out=tmp_path, options=ScanOptions(**OPTIONS))
    with pytest.raises(InputError, match=said):
        scan(open_tiny(**model), texts(3), out=tmp_path, options=ScanOptions(**(OPTIONS | changed)))
    with pytest.raises(InputError, match=r"corpus\[0\].sha256"):
        scan(open_tiny(), texts(4), out=tmp_path, options=ScanOptions(**OPTIONS))


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds thesis.txt, which is not a scan's; choose an empty folder"):
        scan(open_tiny(), texts(3), out=tmp_path, options=ScanOptions(**OPTIONS))


def test_a_scan_stopped_before_its_weights_were_hashed_is_packed_again(tmp_path: Path) -> None:
    options = ScanOptions(**OPTIONS)
    scan(open_tiny(), texts(6), out=tmp_path / "whole", options=options)
    stopped = tmp_path / "stopped"
    folder = ScanFolder(stopped)
    folder.work.mkdir(parents=True)
    (other,) = pack([(0, list(range(40)))], RowFormat(64), 4)  # of another text: it is not to be measured
    sha256 = folder.save_rows(0, other)
    folder.save_packing(Packing(1, 1, 1, 1, 40, hashlib.sha256(sha256.encode()).hexdigest(), []))
    scan(open_tiny(), texts(6), out=stopped, options=options)
    assert content(stopped) == content(tmp_path / "whole")
