"""Saves on a full disk, without permission and with a jumping clock. Kills are in test_killed_saves."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headscope.app.export.html import save_html
from headscope.errors import InputError
from headscope.heads.film import Film
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from headscope.scope import EMBEDDED
from tests.scan.test_resume import content
from tests.scan.tiny import open_tiny, texts

pytestmark = pytest.mark.promise("Atomic saves")

OPTIONS = ScanOptions(context=64, batch=2, shard_tokens=128, threads=1, replicates=20)


@contextmanager
def disk_space(n_bytes: int) -> Iterator[None]:
    """Limit the size of files, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_last_export_unchanged(scope, tmp_path):
    file = tmp_path / "look.html"
    save_html(scope.look("the old lamp"), file)
    before = file.read_bytes()
    with (
        disk_space(10_000),
        pytest.raises(InputError, match=r"look.html could not be written: no space for [\d,]+ bytes"),
    ):
        save_html(scope.look("the old lamp burned until morning"), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["look.html"]


def test_a_full_disk_leaves_the_last_film_unchanged(tmp_path):
    film, file = Film.load(EMBEDDED / "film.safetensors"), tmp_path / "film.safetensors"
    film.save(file)
    before = file.read_bytes()
    with disk_space(10_000), pytest.raises(InputError, match=r"film.safetensors could not be written: no space"):
        film.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["film.safetensors"]


@pytest.mark.parametrize("space", [300, 12_000, *(pytest.param(space, marks=pytest.mark.slow) for space in (0, 3_000))])
def test_a_disk_that_fills_at_any_moment_costs_no_finished_shard(tmp_path, space):
    scan(open_tiny(), texts(12), out=tmp_path / "whole", options=OPTIONS)
    with disk_space(space), pytest.raises(InputError, match="no space for"):
        scan(open_tiny(), texts(12), out=tmp_path / "out", options=OPTIONS)
    kept = {file: file.read_bytes() for file in (tmp_path / "out").glob("work/*.tally.safetensors")}
    assert not list((tmp_path / "out").rglob("*.part"))
    with disk_space(space), pytest.raises(InputError, match="no space for"):
        scan(open_tiny(), texts(12), out=tmp_path / "out", options=OPTIONS)
    assert all(file.read_bytes() == data for file, data in kept.items())
    scan(open_tiny(), texts(12), out=tmp_path / "out", options=OPTIONS)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_folder_without_write_permission_is_reported_before_the_corpus_is_read(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (Path("/proc/headscope-scan"), tmp_path / "file" / "inner"):
        with pytest.raises(InputError, match=r"cannot be written \(.+\); choose another folder"):
            scan(open_tiny(), texts(3), out=folder, options=OPTIONS)
    with pytest.raises(InputError, match=r"could not be written: No such file.+finished shards are kept"):
        ScanFolder(tmp_path / "gone").write(tmp_path / "gone/a", b"x")
    with pytest.raises(InputError, match=r"could not be written"):
        save_html_somewhere_else(tmp_path)


def save_html_somewhere_else(tmp_path: Path) -> None:
    from headscope.files import write_atomic

    write_atomic(tmp_path / "file/look.html", b"x")


def test_a_clock_that_jumps_changes_no_byte(tmp_path, monkeypatch):
    scan(open_tiny(), texts(12), out=tmp_path / "whole", options=OPTIONS)
    chance, real = random.Random(0), time.time
    jump = lambda: real() + chance.choice((-1e9, -3600, 0, 3600, 1e9))  # noqa: E731
    monkeypatch.setattr(time, "time", jump)
    monkeypatch.setattr(time, "time_ns", lambda: int(jump() * 1e9))
    scan(open_tiny(), texts(12), out=tmp_path / "jumping", options=OPTIONS)
    assert content(tmp_path / "jumping") == content(tmp_path / "whole")
