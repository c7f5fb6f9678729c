"""Files of a scan's folder are whole or not there; one process holds it; finished shards are found again."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.scan.corpus.packing import Frame, pack
from headscope.scan.recipe import SCHEMA_VERSION, Recipe
from headscope.scan.shards import FEW, Packed, ScanFolder

RECIPE = Recipe({"schema_version": SCHEMA_VERSION, "context": 16})


def packed(**changed: object) -> Packed:
    words = {"shards": 3, "rows": 9, "documents": 5, "pieces": 7, "tokens": 99, "sha256": "x", "problems": ["p"]}
    return Packed(**(words | changed))  # type: ignore[arg-type]


def kept_rows(folder: ScanFolder) -> Packed:
    """Two shards of rows in the folder, and what to say of them."""
    digest = hashlib.sha256()
    for shard, length in enumerate((9, 5)):
        (rows,) = pack([(shard, list(range(length)))], Frame(16), 4)
        folder.keep_rows(shard, rows)
        digest.update(rows.digest().encode())
    return packed(shards=2, rows=2, documents=2, pieces=2, tokens=14, sha256=digest.hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> ScanFolder:
    scan = ScanFolder(tmp_path / "scan")
    with scan.held():
        scan.start(RECIPE)
    scan.work.mkdir()
    return scan


def test_a_file_is_written_whole_or_the_old_one_stays(folder: ScanFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.work / "a"
    folder.write(path, b"old")

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(InputError, match="a could not be written: input/output error; what is finished is kept"):
        folder.write(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [file.name for file in folder.work.iterdir()] == ["a"]


def test_a_folder_is_held_by_one_process(folder: ScanFolder) -> None:
    code = (
        "from pathlib import Path; import sys\n"
        "from headscope.scan.shards import ScanFolder\n"
        "with ScanFolder(Path(sys.argv[1])).held(): pass\n"
    )
    with folder.held():
        other = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True)
        assert other.returncode != 0
        assert "another scan is writing into" in other.stderr
    free = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True)
    assert free.returncode == 0, free.stderr


def test_the_same_recipe_goes_on_and_another_is_refused(folder: ScanFolder) -> None:
    folder.start(RECIPE)
    with pytest.raises(InputError, match=r"another recipe \(context: 16 there, 32 here\)"):
        folder.start(Recipe(RECIPE.words | {"context": 32}))


def test_many_differences_are_not_all_told(folder: ScanFolder) -> None:
    with pytest.raises(InputError, match=r"; …\)"):
        folder.start(Recipe(RECIPE.words | dict.fromkeys("abcdef", 1)))


def test_a_recipe_half_written_is_not_something_strange(tmp_path: Path) -> None:
    scan = ScanFolder(tmp_path)
    (tmp_path / "recipe.json.part").write_bytes(b"{")
    scan.start(RECIPE)
    assert Recipe.from_json(scan.recipe_file.read_text()) == RECIPE


def test_shards_without_a_tally_are_missing(folder: ScanFolder) -> None:
    assert folder.missing(packed()) == [0, 1, 2]
    folder.write(folder.tally_file(1), b"")
    assert folder.missing(packed()) == [0, 2]


def test_what_packing_came_to_is_kept(folder: ScanFolder) -> None:
    assert folder.packed() is None
    made = kept_rows(folder)
    folder.finish_packing(made)
    assert folder.packed() == made


def test_rows_that_are_not_those_that_were_packed_are_refused(folder: ScanFolder) -> None:
    made = kept_rows(folder)
    folder.finish_packing(made)
    first, second = folder.rows_file(0).read_bytes(), folder.rows_file(1).read_bytes()
    folder.write(folder.rows_file(0), second)
    folder.write(folder.rows_file(1), first)
    with pytest.raises(InputError, match=r"the rows beside it are not those that were packed\); remove .*work"):
        folder.packed()
    folder.rows_file(1).unlink()
    with pytest.raises(InputError, match="it speaks of 2 shards, and there are 1"):
        folder.packed()


def test_a_note_of_packing_that_is_torn_is_refused(folder: ScanFolder) -> None:
    for torn in (b"", b"{", b"[]", b'{"shards": 1}'):
        folder.write(folder.work / "packed.json", torn)
        with pytest.raises(InputError, match=r"packed\.json is broken, or is something else"):
            folder.packed()


def test_packed_rows_come_back_and_torn_ones_are_refused(folder: ScanFolder) -> None:
    kept_rows(folder)
    assert folder.rows(0).ids[0, :9].tolist() == list(range(9))
    folder.write(folder.rows_file(0), folder.rows_file(0).read_bytes()[:-9])
    with pytest.raises(InputError, match=r"000000\.rows\.safetensors is broken"):
        folder.rows(0)


def test_a_tally_that_is_torn_says_which_file_to_remove(folder: ScanFolder) -> None:
    folder.write(folder.tally_file(0), b"torn")
    with pytest.raises(InputError, match=r"000000\.tally\.safetensors: .*remove that file, and the same scan makes it"):
        folder.merged(packed(shards=1))


def test_a_folder_with_something_else_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds thesis\.doc, which is not a scan's; choose an empty folder"):
        ScanFolder(tmp_path).start(RECIPE)


def test_rows_of_a_packing_that_was_not_finished_are_dropped(folder: ScanFolder) -> None:
    (rows,) = pack([(0, list(range(9)))], Frame(16), 4)
    folder.keep_rows(0, rows)
    assert folder.rows_file(0).read_bytes() == rows.to_bytes()
    folder.forget_rows()
    assert list(folder.work.iterdir()) == []


def test_a_scan_is_finished_when_its_census_stands_and_its_work_is_gone(folder: ScanFolder) -> None:
    assert not folder.finished
    folder.write(folder.path / "census.parquet", b"")
    assert not folder.finished
    folder.clear()
    assert folder.finished
    assert not folder.work.exists()
    folder.clear()


def test_what_an_earlier_clearing_left_is_cleared_too(folder: ScanFolder) -> None:
    gone = folder.path / ".gone"
    gone.mkdir()
    (gone / "half").write_bytes(b"")
    folder.clear()
    assert not gone.exists()


def test_few_documents_are_drawn_by_their_pieces() -> None:
    assert packed(documents=FEW - 1).unit == "piece"
    assert packed(documents=FEW).unit == "document"
