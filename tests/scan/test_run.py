"""A scan from beginning to end: its recipe, its forward passes, its files."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import InputError
from headscope.heads.questions.label_rules import token_class
from headscope.models.native import NativeModel
from headscope.scan.census import Census
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from tests.scan.test_resume import StopError, content
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"context": 64, "batch": 2, "shard_tokens": 128, "threads": 1, "replicates": 20, "examples": 2}  # fmt: skip  # noqa: E501


def passes(model: NativeModel) -> list[int]:
    """A list that gets the number of rows of every forward pass."""
    counted: list[int] = []
    model.model.register_forward_hook(lambda module, args, output: counted.append(len(args[0])))
    return counted


def test_the_recipe_holds_the_options() -> None:
    spaces = token_class("spaces", "^ $")
    options = ScanOptions(**OPTIONS, seed=7, rules=(spaces,), broken="skip", max_tokens=900)
    words = scan(open_tiny(), texts(30), options=options).recipe.data
    assert words["rows_in_pass"] == 2
    assert words["rows_in_shard"] == 2, "128 tokens are two rows of 64"
    assert words["questions"] == ["previous", "itself", "first", "duplicate", "induction", spaces.identity()]
    assert (words["seed"], words["replicates"], words["examples"], words["max_tokens"]) == (7, 20, 2, 900)
    assert words["reading"] == {"field": "text", "lines": False, "broken": "skip"}
    assert words["machine"]["threads"] == 1
    assert words["model"]["sites"] == {"0": 2, "1": 2}


def test_an_interval_that_no_replicate_has_drawn_is_none_and_never_nan() -> None:
    found = [
        scan(open_tiny(), ["the cat saw the cat"], options=ScanOptions(**{**OPTIONS, "replicates": 2, "seed": seed}))
        for seed in range(16)
    ]
    rows = [row for census in found for row in census.rows]
    ends = [end for row in rows for end in (row.low, row.high, row.null_low, row.null_high)]
    assert None in [row.low for row in rows], "both replicates draw no piece with probability e⁻²"
    assert all(end is None or math.isfinite(end) for end in ends)


@pytest.mark.parametrize(("count", "unit"), [(19, "piece"), (20, "document")])
def test_intervals_are_over_documents_where_there_are_enough(count: int, unit: str) -> None:
    census = scan(open_tiny(), texts(40)[:count], options=ScanOptions(**OPTIONS))
    assert census.recipe.data["result"]["interval_over"] == unit


def test_a_finished_scan_is_loaded_and_not_run_again(tmp_path: Path) -> None:
    made = scan(open_tiny(), texts(12), out=tmp_path, options=ScanOptions(**OPTIONS))
    before = content(tmp_path)
    model = open_tiny()
    counted = passes(model)
    again = scan(model, texts(12), out=tmp_path, options=ScanOptions(**OPTIONS))
    trial_rows = sum(counted)
    assert again.to_arrow().equals(made.to_arrow())
    assert content(tmp_path) == before
    scan(model, texts(12), options=ScanOptions(**OPTIONS))
    assert sum(counted) > 2 * trial_rows + 10, "loading a census takes only the few rows that choose the row format"


def test_after_a_ctrl_c_only_the_shards_that_are_missing_are_measured(tmp_path: Path) -> None:
    options, model = ScanOptions(**OPTIONS), open_tiny()
    counted = passes(model)
    whole = scan(model, texts(12), out=tmp_path / "whole", options=options)
    everything, late = len(counted), 3 * len(counted) // 4
    counted.clear()

    def press(*_: object) -> None:
        if len(counted) > late:
            raise KeyboardInterrupt

    pressed = model.model.register_forward_hook(press)
    with pytest.raises(KeyboardInterrupt, match=r"(\d) of (\d+) shards are kept"):
        scan(model, texts(12), out=tmp_path / "out", options=options)
    pressed.remove()
    kept = len(list((tmp_path / "out/work").glob("*.tally.safetensors")))
    counted.clear()
    again = scan(model, texts(12), out=tmp_path / "out", options=options)
    assert len(counted) == everything - kept, "a shard of two rows is one pass here"
    assert kept > 2
    assert again.to_arrow().equals(whole.to_arrow())


def test_without_a_folder_no_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    census = scan(open_tiny(), texts(6), options=ScanOptions(**OPTIONS))
    assert list(tmp_path.iterdir()) == []
    assert len(census.examples()) > 0, "a census does not need its folder"


def test_the_size_of_shards_changes_no_number() -> None:
    censuses = [
        scan(open_tiny(), texts(12), options=ScanOptions(**(OPTIONS | {"shard_tokens": size}))) for size in (128, 10**6)
    ]
    assert len({census.recipe.data["result"]["shards"] for census in censuses}) == 2
    for row in censuses[0].rows:
        other = censuses[1].row(str(row.head), row.question)
        assert (row.count, row.minimum, row.maximum) == (other.count, other.minimum, other.maximum)
        assert row.mean == pytest.approx(other.mean, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(("bad", "said"), [(b"\xff\xfe", "is not UTF-8"), (b"", "the corpus is empty")])
def test_a_corpus_without_readable_text_can_be_fixed(tmp_path: Path, bad: bytes, said: str) -> None:
    """The folder is reset, so the fixed file is not refused as another recipe."""
    corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
    corpus.write_bytes(bad)
    with pytest.raises(InputError, match=said):
        scan(open_tiny(), corpus, out=out, options=ScanOptions(**OPTIONS))
    corpus.write_text("a text that can be read")
    assert scan(open_tiny(), corpus, out=out, options=ScanOptions(**OPTIONS)).recipe.data["result"]["documents"] == 1


def test_rows_that_a_kill_left_while_packing_are_packed_again(tmp_path: Path) -> None:
    scan(open_tiny(), texts(12), out=tmp_path / "whole", options=ScanOptions(**OPTIONS))
    other = tmp_path / "out"
    (other / "work").mkdir(parents=True)
    (other / "recipe.json").write_bytes(_begun(tmp_path / "whole"))
    (other / "work/000099.rows.safetensors").write_bytes(b"half a shard of a packing that was not finished")
    scan(open_tiny(), texts(12), out=other, options=ScanOptions(**OPTIONS))
    assert content(other) == content(tmp_path / "whole")


def _begun(folder: Path) -> bytes:
    """The recipe as it stands in a folder whose scan has just begun: without a result."""
    recipe = Census.load(folder).recipe
    return type(recipe)({name: value for name, value in recipe.data.items() if name != "result"}).to_json().encode()


def test_a_missing_ray_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "headscope.scan.ray_pool", raising=False)
    options = ScanOptions(**OPTIONS, ray="local")
    with pytest.raises(InputError, match=r"scanning on Ray needs one more package; pip install ray"):
        scan(open_tiny(), texts(3), out=tmp_path, options=options, opener=open_tiny)
    assert (tmp_path / "work/packed.json").exists(), "the packed rows are kept for when it is installed"


@pytest.mark.parametrize("more", [{"workers": 2}, {"ray": "local"}])
def test_workers_need_a_model_that_they_can_open(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"they need its name or folder; this model is an object: scan with workers=1"):
        scan(open_tiny(), texts(3), out=tmp_path / "out", options=ScanOptions(**OPTIONS, **more))
    assert not (tmp_path / "out").exists()


SMALL: dict[str, Any] = OPTIONS | {"replicates": 2, "examples": 1, "context": 32}


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Stop a scan where it writes a file whose name ends like this."""
    plain = ScanFolder.write

    def write(self: ScanFolder, path: Path, data: bytes) -> None:
        if path.name.endswith(name):
            raise StopError
        plain(self, path, data)

    monkeypatch.setattr(ScanFolder, "write", write)


def never() -> Any:
    raise AssertionError("no worker is needed")


def test_another_recipe_is_refused_though_the_scan_is_finished(tmp_path: Path) -> None:
    scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL))
    with pytest.raises(InputError, match=r"another recipe \(seed: 0 there, 1 here\)"):
        scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL, seed=1))
