"""A scan's folder is written atomically by one process, and finished shards are found again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import InputError
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.recipe import SCHEMA_VERSION, Recipe
from headscope.scan.shards import MIN_DOCUMENTS, Packing, ScanFolder
from headscope.scan.tally.tally import Tally, TallyLayout

RECIPE = Recipe({"schema_version": SCHEMA_VERSION, "context": 16})


def packed(**changed: object) -> Packing:
    words = {"shards": 3, "rows": 9, "documents": 5, "pieces": 7, "tokens": 99, "sha256": "x", "problems": ["p"]}
    return Packing(**(words | changed))  # type: ignore[arg-type]


def saved_rows(folder: ScanFolder) -> Packing:
    """Save two shards of rows in the folder."""
    digest = hashlib.sha256()
    for shard, length in enumerate((9, 5)):
        (rows,) = pack([(shard, list(range(length)))], RowFormat(16), 4)
        folder.save_rows(shard, rows)
        digest.update(rows.digest().encode())
    return packed(shards=2, rows=2, documents=2, pieces=2, tokens=14, sha256=digest.hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> ScanFolder:
    scan = ScanFolder(tmp_path / "scan")
    with scan.lock():
        scan.start(RECIPE)
    scan.work.mkdir()
    return scan


def test_a_file_is_written_completely_or_the_old_one_stays(folder: ScanFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.work / "a"
    folder.write(path, b"old")

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(InputError, match="a could not be written: input/output error; finished shards are kept"):
        folder.write(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [file.name for file in folder.work.iterdir()] == ["a"]


def test_a_folder_is_locked_by_one_process(folder: ScanFolder) -> None:
    code = (
        "from pathlib import Path; import sys\n"
        "from headscope.scan.shards import ScanFolder\n"
        "with ScanFolder(Path(sys.argv[1])).lock(): pass\n"
    )
    with folder.lock():
        other = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True)
        assert other.returncode != 0
        assert "another scan is writing into" in other.stderr
    free = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True)
    assert free.returncode == 0, free.stderr


def test_the_same_recipe_resumes_and_another_is_refused(folder: ScanFolder) -> None:
    folder.start(RECIPE)
    with pytest.raises(InputError, match=r"another recipe \(context: 16 there, 32 here\)"):
        folder.start(Recipe(RECIPE.data | {"context": 32}))


def test_a_long_list_of_differences_is_shortened(folder: ScanFolder) -> None:
    with pytest.raises(InputError, match=r"; …\)"):
        folder.start(Recipe(RECIPE.data | dict.fromkeys("abcdef", 1)))


def test_four_differences_are_named_and_more_are_not(folder: ScanFolder) -> None:
    for names, said in (("abcd", r"d: nothing there, 1 here\); use"), ("abcde", r"d: nothing there, 1 here; …\); use")):
        with pytest.raises(InputError, match=said):
            folder.start(Recipe(RECIPE.data | dict.fromkeys(names, 1)))


def test_an_unfinished_recipe_file_does_not_block_a_scan(tmp_path: Path) -> None:
    scan = ScanFolder(tmp_path)
    (tmp_path / "recipe.json.headscope.part").write_bytes(b"{")
    scan.start(RECIPE)
    assert Recipe.from_json(scan.recipe_file.read_text()) == RECIPE


def test_shards_without_a_tally_are_missing(folder: ScanFolder) -> None:
    assert folder.missing_shards(packed()) == [0, 1, 2]
    folder.write(folder.tally_file(1), b"")
    assert folder.missing_shards(packed()) == [0, 2]


def test_the_packing_is_restored(folder: ScanFolder) -> None:
    assert folder.packing() is None
    made = saved_rows(folder)
    folder.save_packing(made)
    assert folder.packing() == made


def test_rows_other_than_those_that_were_packed_are_refused(folder: ScanFolder) -> None:
    made = saved_rows(folder)
    folder.save_packing(made)
    first, second = folder.rows_file(0).read_bytes(), folder.rows_file(1).read_bytes()
    folder.write(folder.rows_file(0), second)
    folder.write(folder.rows_file(1), first)
    with pytest.raises(InputError, match=r"the rows beside it are not those that were packed\); remove .*work"):
        folder.packing()
    folder.rows_file(1).unlink()
    with pytest.raises(InputError, match="it lists 2 shards, and there are 1"):
        folder.packing()


def test_a_damaged_packing_file_is_refused(folder: ScanFolder) -> None:
    for damaged in (b"", b"{", b"[]", b'{"shards": 1}'):
        folder.write(folder.work / "packed.json", damaged)
        with pytest.raises(InputError, match=r"packed\.json is damaged, or is of another format"):
            folder.packing()


def test_rows_are_restored_and_damaged_ones_refused(folder: ScanFolder) -> None:
    saved_rows(folder)
    assert folder.rows(0).ids[0, :9].tolist() == list(range(9))
    folder.write(folder.rows_file(0), folder.rows_file(0).read_bytes()[:-9])
    with pytest.raises(InputError, match=r"000000\.rows\.safetensors is damaged"):
        folder.rows(0)


def test_a_damaged_tally_names_the_file_to_remove(folder: ScanFolder) -> None:
    folder.write(folder.tally_file(0), b"torn")
    with pytest.raises(
        InputError, match=r"000000\.tally\.safetensors is damaged.*remove that file, and the same scan makes it again"
    ):
        folder.merged_tally(packed(shards=1))


def test_a_folder_with_something_else_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds thesis\.doc, which is not a scan's; choose an empty folder"):
        ScanFolder(tmp_path).start(RECIPE)


def test_rows_without_a_recipe_are_those_of_a_scan_that_was_stopped(tmp_path: Path) -> None:
    folder = ScanFolder(tmp_path)
    (rows,) = pack([(0, list(range(9)))], RowFormat(16), 4)
    folder.work.mkdir()
    folder.save_rows(0, rows)
    folder.check_free()
    (folder.work / "thesis.doc").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds work, which is not a scan's; choose an empty folder"):
        folder.check_free()


def test_rows_of_an_unfinished_packing_are_removed(folder: ScanFolder) -> None:
    (rows,) = pack([(0, list(range(9)))], RowFormat(16), 4)
    folder.save_rows(0, rows)
    assert folder.rows_file(0).read_bytes() == rows.to_bytes()
    folder.remove_rows()
    assert list(folder.work.iterdir()) == []


def test_a_scan_is_finished_when_its_census_is_there_and_its_work_folder_is_not(folder: ScanFolder) -> None:
    assert not folder.finished
    folder.write(folder.path / "census.parquet", b"")
    assert not folder.finished
    folder.remove_work()
    assert folder.finished
    assert not folder.work.exists()
    folder.remove_work()


def test_what_a_kill_left_of_a_work_folder_is_removed(folder: ScanFolder) -> None:
    gone = folder.path / ".gone"
    gone.mkdir()
    (gone / "half").write_bytes(b"")
    folder.remove_work()
    assert not gone.exists()


def test_with_few_documents_the_bootstrap_draws_pieces() -> None:
    assert packed(documents=MIN_DOCUMENTS - 1).unit == "piece"
    assert packed(documents=MIN_DOCUMENTS).unit == "document"


def test_a_packing_is_not_changed_after_it_was_written() -> None:
    with pytest.raises(FrozenInstanceError):
        packed().tokens = 5  # type: ignore[misc]


def test_one_folder_is_locked_once_and_free_again_afterwards(tmp_path: Path) -> None:
    folder = ScanFolder(tmp_path / "deep" / "er")
    for _ in range(2):
        with folder.lock(), pytest.raises(InputError, match=r"another scan is writing into .*er; wait for it"):
            folder.lock().__enter__()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"file/out cannot be written \(Not a directory\); choose another folder"):
        ScanFolder(tmp_path / "file" / "out").lock().__enter__()


def test_the_hash_of_the_rows_is_that_of_the_packing_or_of_the_result_or_nothing(tmp_path: Path) -> None:
    folder = ScanFolder(tmp_path)
    assert folder.packed_sha256() == ""
    folder.start(RECIPE)
    assert folder.packed_sha256() == "", "nothing is packed yet"
    folder.write(folder.recipe_file, RECIPE.with_result(sha256="of the result").to_json().encode())
    assert folder.packed_sha256() == "of the result"
    folder.work.mkdir()
    made = saved_rows(folder)
    folder.save_packing(made)
    assert folder.packed_sha256() == made.sha256


def test_a_measured_shard_is_kept_as_long_as_its_rows_are_the_same(folder: ScanFolder) -> None:
    one, other = (next(pack([(0, list(range(length)))], RowFormat(16), 4)) for length in (9, 8))
    digest = folder.save_rows(0, one)
    assert digest == hashlib.sha256(one.to_bytes()).hexdigest()
    folder.write(folder.tally_file(0), b"of the first rows")
    written = folder.rows_file(0).stat().st_ino
    assert folder.save_rows(0, one) == digest
    assert folder.tally_file(0).exists()
    assert folder.rows_file(0).stat().st_ino == written, "not written again"
    assert folder.save_rows(0, other) != digest
    assert not folder.tally_file(0).exists()
    assert folder.rows_file(0).read_bytes() == other.to_bytes()


@pytest.mark.parametrize(("after", "left"), [(0, []), (1, [0]), (2, [0, 1]), (9, [0, 1, 2])])
def test_rows_and_tallies_are_removed_from_a_shard_on(folder: ScanFolder, after: int, left: list[int]) -> None:
    for shard in range(3):
        for file in (folder.rows_file(shard), folder.tally_file(shard)):
            folder.write(file, b"")
    folder.write(folder.work / "packed.json", b"{}")
    folder.remove_rows(after)
    assert sorted(folder.work.iterdir()) == sorted(
        file(shard) for shard in left for file in (folder.rows_file, folder.tally_file)
    )


def test_rows_are_removed_where_no_work_folder_is_yet(tmp_path: Path) -> None:
    folder = ScanFolder(tmp_path)
    for _ in range(2):
        folder.remove_rows()
        assert folder.work.is_dir()


def test_a_folder_without_text_is_reset_to_an_empty_one(folder: ScanFolder) -> None:
    saved_rows(folder)
    for _ in range(2):
        folder.reset()
        assert [file.name for file in folder.path.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "wrong", [{"rows": True}, {"tokens": "14"}, {"documents": 2.0}, {"problems": "p"}, {"shards": 3}, {"pieces": None}]
)
def test_a_packing_with_odd_numbers_is_refused(folder: ScanFolder, wrong: dict[str, Any]) -> None:
    folder.write(folder.work / "packed.json", json.dumps(asdict(saved_rows(folder)) | wrong).encode())
    with pytest.raises(InputError, match=r"packed\.json is damaged, or is of another format \(.*\); remove .*work and"):
        folder.packing()


def test_measured_shards_are_counted(folder: ScanFolder) -> None:
    assert folder.n_tallies() == 0
    for shard in (0, 7):
        folder.write(folder.tally_file(shard), b"")
    assert folder.n_tallies() == 2


def test_tallies_are_merged_in_the_order_of_the_shards(folder: ScanFolder) -> None:
    layout = TallyLayout(sites=(("0", 1),), questions=(), replicates=2, examples=1)
    tallies = [Tally.zero(layout) for _ in range(3)]
    for number, tally in enumerate(tallies):
        tally.sums += (1e16, 1.0, -1e16)[number]
        folder.write(folder.tally_file(number), tally.to_bytes())
    merged = folder.merged_tally(packed(shards=3))
    assert float(merged.sums[0, 0]) == (1e16 + 1.0) - 1e16
    assert float(folder.merged_tally(packed(shards=2)).sums[0, 0]) == 1e16 + 1.0
