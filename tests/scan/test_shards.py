"""A scan's folder is written atomically by one process, and finished shards are found again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.shards import SCHEMA_VERSION, Packing, Recipe, ScanFolder
from headscope.scan.tally import Tally, TallyLayout

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


@pytest.mark.slow
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


def test_rows_other_than_those_that_were_packed_are_refused(folder: ScanFolder) -> None:
    made = saved_rows(folder)
    folder.save_packing(made)
    first, second = folder.rows_file(0).read_bytes(), folder.rows_file(1).read_bytes()
    folder.write(folder.rows_file(0), second)
    folder.write(folder.rows_file(1), first)
    with pytest.raises(InputError, match=r"the rows stored with it are not those that were packed\); remove .*work"):
        folder.packing()
    folder.rows_file(1).unlink()
    with pytest.raises(InputError, match="it lists 2 shards, and there are 1"):
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


def test_tallies_are_merged_in_the_order_of_the_shards(folder: ScanFolder) -> None:
    layout = TallyLayout(sites=(("0", 1),), questions=(), replicates=2, examples=1)
    tallies = [Tally.zero(layout) for _ in range(3)]
    for number, tally in enumerate(tallies):
        tally.sums += (1e16, 1.0, -1e16)[number]
        folder.write(folder.tally_file(number), tally.to_bytes())
    merged = folder.merged_tally(packed(shards=3))
    assert float(merged.sums[0, 0]) == (1e16 + 1.0) - 1e16
    assert float(folder.merged_tally(packed(shards=2)).sums[0, 0]) == 1e16 + 1.0
