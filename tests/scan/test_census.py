"""The census table, its comparison with another, and its page."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import InputError
from headscope.models.native import NativeModel
from headscope.scan.census import FILES, Census, archive_of, read_census
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from tests.scan.tiny import Bytes, TinyModel, open_tiny, texts

OPTIONS: dict[str, Any] = {"threads": 1, "replicates": 50}
OLD = Path(__file__).parents[1] / "data" / "census-0.1.0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("census") / "out"
    scan(open_tiny(), [*texts(30), "<script>alert(1)</script> & <b>"], out=out, options=ScanOptions(**OPTIONS))
    return out


def test_the_table_has_one_row_per_head_and_question(folder: Path) -> None:
    table = pq.read_table(folder / "census.parquet")
    assert table.num_rows == 4 * 9
    rows = table.to_pylist()
    assert {row["kind"] for row in rows if row["question"] in ("entropy", "distance", "spread", "strongest")} == {
        "trait"
    }
    for row in rows:
        assert row["minimum"] <= row["mean"] <= row["maximum"]
        assert row["low"] <= row["mean"] <= row["high"]
        assert (row["null_mean"] is None) == (row["kind"] == "trait")
    assert b"weights_sha256" in table.schema.metadata[b"recipe"]


def test_a_folder_without_a_census_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"holds no census \(tally.safetensors is missing\); give the folder that a scan"
    ):
        Census.load(tmp_path)
    (tmp_path / "work").mkdir()
    with pytest.raises(InputError, match="its scan is not finished: run it again"):
        Census.load(tmp_path)


def test_a_census_does_not_differ_from_itself_and_does_from_other_weights(folder: Path, tmp_path: Path) -> None:
    same = compare(folder, Census.load(folder))
    assert all(change.difference == 0 and not change.clear for change in same.changes)
    other = scan(open_tiny(seed=1), [*texts(30), "<script>alert(1)</script> & <b>"], options=ScanOptions(**OPTIONS))
    moved = compare(folder, other)
    assert len(moved.changes) == 4 * 9
    sizes = [abs(change.difference) for change in moved.changes if change.question in other.questions]
    assert sizes == sorted(sizes, reverse=True)
    largest = moved.changes[0]
    assert largest.clear
    assert largest.after == pytest.approx(other.row(largest.head, largest.question).mean)
    assert moved.table().num_rows == len(moved.changes)
    assert "tiny on 31 texts → tiny on 31 texts" in repr(moved)


def test_censuses_of_models_with_other_heads_are_not_compared(folder: Path) -> None:
    small = TinyModel()
    del small.layers[1]
    other = scan(NativeModel(small, Bytes(), name="one layer"), texts(5), options=ScanOptions(**OPTIONS))
    said = r"one census is of tiny \(4 heads in 2 sites\), the other of one layer \(2 heads in 1 sites\): their heads"
    with pytest.raises(InputError, match=said):
        compare(folder, other)


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("tally.safetensors", b""),
        ("examples.parquet", b""),
        ("census.parquet", b""),
        ("recipe.json", b'"seed": '),
        ("recipe.json", b'"examples'),
    ],
)
def test_census_with_one_flipped_bit_is_rejected(folder: Path, tmp_path: Path, name: str, before: bytes) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data = bytearray((folder / name).read_bytes())
    data[data.rindex(before) + len(before) if before else -9] ^= 4  # else among the last numbers
    (tmp_path / name).write_bytes(bytes(data))
    with pytest.raises(InputError, match="scan again"):
        Census.load(tmp_path)


@pytest.mark.parametrize("name", ["tally.safetensors", "examples.parquet", "recipe.json"])
def test_a_census_with_a_damaged_file_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_bytes((folder / name).read_bytes()[:-40])
    with pytest.raises(InputError, match="is damaged or in a different format"):
        Census.load(tmp_path)


@pytest.mark.filterwarnings("ignore:.*without digests of its data")
def test_an_old_census_loads_with_the_numbers_it_was_written_with() -> None:
    with pytest.warns(UserWarning, match="without digests of its data: not verified"):
        census = Census.load(OLD)
    assert repr(census) == "Census(tiny: 4 heads, 5 questions, 479 tokens in 3 documents)"
    stored = pq.read_table(OLD / "census.parquet")
    made = census.to_arrow()
    assert (made.schema.names, made.schema.metadata) == (stored.schema.names, stored.schema.metadata)
    for row, written in zip(made.to_pylist(), stored.to_pylist(), strict=True):
        for name, value in written.items():
            same_sums = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            assert row[name] == same_sums, name
    assert census.examples().equals(pq.read_table(OLD / "examples.parquet"))


@pytest.mark.filterwarnings("ignore:.*without digests of its data")
def test_the_command_compares_an_old_census_with_a_new_one(tmp_path: Path) -> None:
    scan(open_tiny(seed=1), texts(3), out=tmp_path / "new", options=ScanOptions(context=32, replicates=3, threads=1))
    printed = CliRunner().invoke(app, ["compare", str(OLD), str(tmp_path / "new"), "-n", "99", "--json"])
    assert printed.exit_code == 0, printed.output
    old, new = Census.load(OLD), Census.load(tmp_path / "new")
    changes = json.loads(printed.output)["changes"]
    assert len(changes) == len(old.rows) == len(new.rows)
    for change in changes:
        assert change["before"] == old.row(change["head"], change["question"]).mean
        assert change["after"] == new.row(change["head"], change["question"]).mean


def test_the_folder_of_an_old_census_counts_as_finished() -> None:
    folder = ScanFolder(OLD)
    assert folder.finished
    recipe = folder.recipe()
    assert recipe is not None
    folder.start(recipe)
    assert (recipe.threads, recipe.device[:3]) == (1, "cpu")


CONTENT = {name: name.encode() * 9 for name in FILES}


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    rest = {name: data for name, data in CONTENT.items() if name != missing}
    for name, data in rest.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(
        InputError, match=rf"holds no census \({missing} is missing\); give the folder that a scan wrote"
    ):
        read_census(tmp_path)
    (file := tmp_path / "census.zip").write_bytes(archive_of(rest))
    with pytest.raises(
        InputError, match=rf"holds no census \({missing} is missing\); give an archive that the page made"
    ):
        read_census(file)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (2**31, None),
        (2**31 + 1, r"has 2,147,483,649 bytes; a census's files have at most 2,147,483,648"),
    ],
)
def test_a_file_that_says_it_unpacks_to_more_than_2_gib_is_refused(tmp_path: Path, size: int, said: str | None) -> None:
    """The archive lies about its last file; one that is not refused for its sizes is then found to be damaged."""
    data = bytearray(archive_of(CONTENT))
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<II", data, entry + 20, size, size)
    local = data.rindex(b"PK\x03\x04")
    data[local + 30] ^= 1  # another name than in the directory, so that nothing is unpacked
    (file := tmp_path / "census.zip").write_bytes(data)
    with pytest.raises(InputError, match=said or "is damaged or in a different format"):
        read_census(file)
