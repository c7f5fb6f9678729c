"""The census table, its comparison with another, and its page."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import InputError
from headscope.models.native import NativeModel
from headscope.scan.census import Census
from headscope.scan.census_archive import FILES, archive_of, read_census
from headscope.scan.census_page import _data, _short, census_page
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.recipe import Recipe
from headscope.scan.run import scan
from headscope.scan.shards import ScanFolder
from headscope.scan.tally.examples import BEFORE, NO_TOKEN
from headscope.scan.tally.tally import Tally, TallyLayout
from tests.scan.test_scan import patterns
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


def test_a_missing_row_is_reported(folder: Path) -> None:
    census = Census.load(folder)
    assert census.top("first", 1)[0].mean == max(row.mean for row in census.rows if row.question == "first")
    with pytest.raises(InputError, match=r"no row for 0.0 and 'coreference'; questions are entropy, distance"):
        census.row("0.0", "coreference")


def test_a_folder_without_a_census_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"holds no census \(tally.safetensors is missing\); give the folder that a scan"
    ):
        Census.load(tmp_path)
    (tmp_path / "work").mkdir()
    with pytest.raises(InputError, match="its scan is not finished: run it again"):
        Census.load(tmp_path)


def test_every_program_unpacks_an_archive_unless_it_is_to_be_the_smallest(folder: Path, tmp_path: Path) -> None:
    files = Census.load(folder).files()
    for smallest, packing in ((False, zipfile.ZIP_DEFLATED), (True, zipfile.ZIP_LZMA)):
        (file := tmp_path / f"{packing}.zip").write_bytes(archive_of(files, smallest=smallest))
        with zipfile.ZipFile(file) as archive:
            assert {each.compress_type for each in archive.infolist()} == {packing}
        assert Census.load(file).files() == files


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
    assert moved.to_arrow().num_rows == len(moved.changes)
    assert "tiny on 31 texts → tiny on 31 texts" in repr(moved)


def test_censuses_of_models_with_other_heads_are_not_compared(folder: Path) -> None:
    small = TinyModel()
    del small.layers[1]
    other = scan(NativeModel(small, Bytes(), name="one layer"), texts(5), options=ScanOptions(**OPTIONS))
    said = r"one census is of tiny \(4 heads in 2 sites\), the other of one layer \(2 heads in 1 sites\): their heads"
    with pytest.raises(InputError, match=said):
        compare(folder, other)


def test_the_page_is_small_needs_no_network_and_shows_text_as_text(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    assert len(page) < 120_000
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "<script>alert" not in page
    assert "{{" not in page.split("<script>")[0]
    assert "induction" in page
    assert "weights_sha256" in page


def test_with_few_documents_the_bootstrap_draws_pieces_and_the_recipe_says_so() -> None:
    long = " ".join(texts(20))
    census = scan(open_tiny(), [long], options=ScanOptions(**OPTIONS))
    assert census.recipe.data["result"]["interval_over"] == "piece"
    row = census.row("0.0", "previous")
    assert row.low < row.mean < row.high
    many = scan(open_tiny(), texts(25), options=ScanOptions(**OPTIONS))
    assert many.recipe.data["result"]["interval_over"] == "document"


def test_the_interval_of_one_piece_is_its_mean() -> None:
    row = scan(open_tiny(), ["one short text"], options=ScanOptions(**OPTIONS)).row("0.0", "previous")
    assert row.low == pytest.approx(row.mean)
    assert math.isclose(row.low, row.high)


def test_the_key_of_an_example_is_its_strongest_key(folder: Path) -> None:
    """Each example's key, compared with the dense pattern of its text."""
    model, documents = open_tiny(), [*texts(30), "<script>alert(1)</script> & <b>"]
    rows = Census.load(folder).examples().to_pylist()
    for row in rows[::5]:
        begins = row["position"] // 64 * 64  # a piece sees itself only
        ids = model.processor.token_ids(documents[row["document"]])[begins : begins + 64]
        site, head = row["head"].split(".")
        weights = patterns(model, ids)[site][int(head), row["position"] - begins]
        assert float(weights[row["key"] - begins]) == pytest.approx(float(weights.max()), abs=1e-4)
        assert begins <= row["key"] <= row["position"]
    assert len(rows) > 60


def test_the_table_of_examples_is_the_tally_s_in_the_order_of_heads_questions_and_ranks(folder: Path) -> None:
    census, model = Census.load(folder), open_tiny()
    best, rows = census.tally.examples, iter(census.examples().to_pylist())
    for column, head in enumerate(census.heads()):
        for number, question in enumerate(census.questions):
            for rank, example in enumerate(best.of(number, column)):
                row = next(rows)
                assert (row["head"], row["question"], row["rank"]) == (str(head), question, rank)
                assert (row["document"], row["position"], row["key"]) == example[1:4]
                real = [token for token in example.tokens if token != NO_TOKEN]
                assert row["tokens"] == [token.text for token in model.processor.tokens_of(torch.tensor(real))]
                assert example.tokens[BEFORE] == real[row["at"]]
    assert next(rows, None) is None


def test_the_table_is_in_the_order_of_the_heads(folder: Path) -> None:
    census = Census.load(folder)
    rows = census.to_arrow().to_pylist()
    assert [row["head"] for row in rows[::9]] == [str(head) for head in census.heads()]
    assert all(row["head"] == f"{row['site']}.{row['index']}" for row in rows)
    for row in rows:
        same = census.row(row["head"], row["question"])
        assert (row["count"], row["mean"], row["null_high"]) == (same.count, same.mean, same.null_high)
        assert (row["histogram"] is not None) == (row["question"] in ("entropy", "distance"))


def test_the_top_heads_are_in_decreasing_order(folder: Path) -> None:
    census = Census.load(folder)
    means = [row.mean for row in census.top("induction", 3)]
    assert means == sorted((row.mean for row in census.rows if row.question == "induction"), reverse=True)[:3]
    assert census.top("nothing of the kind") == []


@pytest.mark.parametrize("name", ["tally.safetensors", "examples.parquet", "recipe.json"])
def test_a_census_with_a_damaged_file_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_bytes((folder / name).read_bytes()[:-40])
    with pytest.raises(InputError, match="is damaged, or is of another format"):
        Census.load(tmp_path)


def test_an_example_with_an_unknown_token_is_reported(folder: Path) -> None:
    census = Census.load(folder)

    def none(ids: Any) -> Any:
        raise ValueError(f"there is no token {ids}")

    with pytest.raises(InputError, match=r"an example holds token \d+, which this model does not have; a shard is"):
        Census(census.tally, census.recipe, none)


def test_an_old_census_loads_with_the_numbers_it_was_written_with() -> None:
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


def test_the_command_compares_an_old_census_with_a_new_one(tmp_path: Path) -> None:
    scan(open_tiny(seed=1), texts(3), out=tmp_path / "new", options=ScanOptions(context=32, replicates=3, threads=1))
    printed = CliRunner().invoke(app, ["compare", str(OLD), str(tmp_path / "new"), "--json"])
    assert printed.exit_code == 0, printed.output
    old, new = Census.load(OLD), Census.load(tmp_path / "new")
    changes = json.loads(printed.output)
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


def test_files_are_read_from_a_folder_of_any_name_and_from_an_archive(tmp_path: Path) -> None:
    (folder := tmp_path / "folder.zip").mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    (file := tmp_path / "file.zip").write_bytes(archive_of(CONTENT | {"more.txt": b"not of a census"}))
    assert read_census(folder) == read_census(file) == CONTENT


def test_an_archive_without_its_suffix_is_not_opened(tmp_path: Path) -> None:
    (file := tmp_path / "census.dat").write_bytes(archive_of(CONTENT))
    with pytest.raises(
        InputError, match=r"census\.dat holds no census \(tally\.safetensors is missing\); give the folder"
    ):
        read_census(file)


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


def test_equal_files_make_equal_bytes_at_any_time() -> None:
    with zipfile.ZipFile(io.BytesIO(archive_of(CONTENT, comment="a census"))) as archive:
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.comment == b"a census"
        assert archive.namelist() == list(FILES)


@pytest.mark.parametrize(
    ("packed", "size", "said"),
    [
        (1, 2**26, None),
        (1, 2**26 + 1, r"unpacks from 1 to 67,108,865 bytes; no census does"),
        (67_108, 2**26 + 1, r"unpacks from 67,108 to 67,108,865 bytes; no census does"),
        (67_109, 2**26 + 1, None),
        (100_000, 10**8, None),
        (100_000, 10**8 + 1, r"unpacks from 100,000 to 100,000,001 bytes; no census does"),
        (2**31, 2**31, None),
        (2**31, 2**31 + 1, r"has 2,147,483,649 bytes; a census's files have at most 2,147,483,648"),
    ],
)
def test_a_file_that_says_it_unpacks_a_thousandfold_or_to_more_than_2_gib_is_refused(
    tmp_path: Path, packed: int, size: int, said: str | None
) -> None:
    """The archive lies about its last file; one that is not refused for its sizes is then found to be damaged."""
    data = bytearray(archive_of(CONTENT))
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<II", data, entry + 20, packed, size)
    local = data.rindex(b"PK\x03\x04")
    data[local + 30] ^= 1  # another name than in the directory, so that nothing is unpacked
    (file := tmp_path / "census.zip").write_bytes(data)
    with pytest.raises(InputError, match=said or "is damaged, or is of another format"):
        read_census(file)


@pytest.mark.parametrize(
    ("at", "tokens", "fits"),
    [
        (0, ["a"], True),
        (1, ["a", "b"], True),
        (-1, ["a"], False),
        (1, ["a"], False),
        (None, ["a"], False),
        (0, [], False),
        (0, None, False),
    ],
)
def test_the_query_of_an_example_is_one_of_its_tokens(
    folder: Path, tmp_path: Path, at: int | None, tokens: list[str] | None, fits: bool
) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    table = pq.read_table(folder / "examples.parquet")
    row = table.slice(0, 1).to_pylist()[0] | {"at": at, "tokens": tokens}
    changed = pa.concat_tables([table, pa.Table.from_pylist([row], table.schema)])
    pq.write_table(changed, tmp_path / "examples.parquet")
    if fits:
        assert len(Census.load(tmp_path).examples()) == len(table) + 1
    else:
        with pytest.raises(InputError, match="an example's query is outside its tokens; it is damaged: scan again"):
            Census.load(tmp_path)


@pytest.fixture
def made_by_hand() -> Census:
    """Seven heads in one site and two in another, which no text reached; no examples."""
    layout = TallyLayout(
        sites=(("0", 7), ("1", 2)), questions=("first",), nulls=("first (shuffled)",), replicates=3, examples=1
    )
    tally = Tally.zero(layout)
    tally.count[:, 0] = 4
    tally.drawn_count[:, :, 0] = 4
    tally.sums[:, :7] = torch.arange(7) * torch.arange(1, 7)[:, None]
    tally.squares[:, :7] = 100.0
    recipe = Recipe({"schema_version": 1, "model": {"name": "m"}, "corpus": [{"texts": 1}]})
    return Census(tally, recipe, open_tiny().processor.tokens_of)


def test_five_heads_are_the_top_ones_unless_said(made_by_hand: Census) -> None:
    assert [str(row.head) for row in made_by_hand.top("first")] == ["0.6", "0.5", "0.4", "0.3", "0.2"]
    assert [str(row.head) for row in made_by_hand.top("first", 1)] == ["0.6"]


def test_a_row_is_made_of_its_own_sums(made_by_hand: Census) -> None:
    row = made_by_hand.row("0.2", "first")
    assert (row.kind, row.count, row.mean, row.null_mean) == ("question", 4, 2 * 5 / 4, 2 * 6 / 4)
    assert row.variance == 100 / 4 - 2.5**2
    assert made_by_hand.row("0.3", "entropy").mean == 3 * 1 / 4
    assert made_by_hand.row("0.3", "entropy").null_mean is None
    assert {row.head.site for row in made_by_hand.rows} == {"0"}, "no text reached the other"
    with pytest.raises(FrozenInstanceError):
        row.mean = 0.0  # type: ignore[misc]


def test_a_census_without_a_result_says_so(made_by_hand: Census) -> None:
    assert repr(made_by_hand) == "Census(m: 9 heads, 1 questions, 0 tokens in 0 documents)"
    assert made_by_hand.problems == []
    page = census_page(made_by_hand)
    assert "9 heads in 2 sites · 0 tokens in 0 documents · rows of 1,024 tokens" in page
    assert re.findall(r"<h4>(\S+) ", page) == ["0.6", "0.5", "0.4"], "the three strongest heads"


@pytest.mark.parametrize(("value", "shown"), [(None, None), (math.nan, None), (0.123456, 0.1235), (12345.6, 12350.0)])
def test_numbers_of_the_page_have_four_digits(value: float | None, shown: float | None) -> None:
    assert _short(value) == shown


def test_heads_that_no_text_reached_are_empty_on_the_page(made_by_hand: Census) -> None:
    first = next(each for each in _data(made_by_hand)["maps"] if each["name"] == "first")
    assert first["rows"][7:] == [None, None]
    assert [row[0] for row in first["rows"][:7]] == [pytest.approx(5 * head / 4, rel=1e-3) for head in range(7)]
