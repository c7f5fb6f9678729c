"""A corpus measured while it is read gives the census of one that is read first, stopped at any moment too."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from tests.scan.test_pool import worker_setup
from tests.scan.test_resume import StopError, content, stop_after
from tests.scan.test_run import OPTIONS, passes
from tests.scan.tiny import Bytes, TinyModel, open_tiny, texts

from headscope.errors import InputError
from headscope.models.native import NativeModel
from headscope.scan import pool, run
from headscope.scan.corpus import reading
from headscope.scan.corpus.documents import Corpus
from headscope.scan.corpus.file_hashes import FileHashes
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.corpus.reading import CorpusReader, CorpusSource
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import Packing, ScanFolder


class FastBytes(Bytes):
    """Encodes several texts at once, as tokenizers in Rust do."""

    is_fast = True

    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True, **_: Any) -> dict[str, Any]:
        if isinstance(text, str):
            return super().__call__(text, add_special_tokens)
        return {"input_ids": [super(FastBytes, self).__call__(each)["input_ids"] for each in text]}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As beside a GPU."""
    monkeypatch.setattr(run, "_reads_ahead", lambda source: not source.corpus.known_by_reading)
    monkeypatch.setattr(reading, "AT_ONCE", 300)


@pytest.mark.parametrize("count", [3, 19, 40])
@pytest.mark.parametrize("fast", [False, True])
def test_a_census_is_the_same_read_ahead_or_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, fast: bool
) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 300)
    model = NativeModel(TinyModel(), FastBytes(), "tiny") if fast else open_tiny()
    scan(model, texts(40)[:count], out=tmp_path / "before", options=ScanOptions(**OPTIONS))
    monkeypatch.setattr(run, "_reads_ahead", lambda _: True)
    scan(model, texts(40)[:count], out=tmp_path / "ahead", options=ScanOptions(**OPTIONS))
    assert content(tmp_path / "ahead") == content(tmp_path / "before")


@pytest.mark.usefixtures("ahead")
def test_a_shard_is_measured_before_the_last_text_is_read(tmp_path: Path) -> None:
    model, read = open_tiny(), []
    counted = passes(model)

    class Texts(list[str]):
        def __iter__(self) -> Any:
            for text in super().__iter__():
                read.append(len(counted))
                yield text

    scan(model, Texts(texts(40)), options=ScanOptions(**OPTIONS))
    assert read[-1] > read[0] + 2


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopError()])
def test_a_scan_stopped_while_it_reads_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    documents, options, model = texts(30), ScanOptions(**OPTIONS), open_tiny()
    counted = passes(model)
    scan(model, documents, out=tmp_path / "whole", options=options)
    everything = len(counted)
    for writes in (0, 2, 5, 12):
        with monkeypatch.context() as patch:
            stop_after(patch, writes, error)
            with pytest.raises(type(error)):
                scan(model, documents, out=tmp_path / "stopped", options=options)
    kept = ScanFolder(tmp_path / "stopped").n_tallies()
    counted.clear()
    scan(model, documents, out=tmp_path / "stopped", options=options)
    assert kept > 2
    assert len(counted) == everything - kept
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


@pytest.mark.usefixtures("ahead")
def test_a_tally_of_other_rows_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, options = texts(30), ScanOptions(**OPTIONS)
    scan(open_tiny(), documents, out=tmp_path / "whole", options=options)
    with monkeypatch.context() as patch:
        stop_after(patch, 30, StopError())
        with pytest.raises(StopError):
            scan(open_tiny(), documents, out=tmp_path / "out", options=options)
    folder = ScanFolder(tmp_path / "out")
    assert folder.n_tallies() > 1
    folder.rows_file(0).write_bytes(folder.rows_file(1).read_bytes())
    folder.tally_file(0).write_bytes(folder.tally_file(1).read_bytes())
    scan(open_tiny(), documents, out=tmp_path / "out", options=options)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.usefixtures("ahead")
def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the corpus is empty"):
        scan(open_tiny(), ["", " "], out=tmp_path, options=ScanOptions(**OPTIONS))


class Later:
    """A recipe that is not ready until it is asked for the last time."""

    def __init__(self, folder: ScanFolder) -> None:
        self.folder, self.ready, self.called = folder, False, []

    def __call__(self) -> None:
        self.called.append(self.folder.n_tallies())


@pytest.mark.parametrize(("held", "called"), [(2**28, 1), (0, 3)])
def test_tallies_wait_in_memory_for_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, called: int
) -> None:
    monkeypatch.setattr(pool, "HELD", held)
    folder = ScanFolder(tmp_path)
    folder.work.mkdir()
    for number, rows in enumerate(pack([(n, list(b"a cat sat") * 4) for n in range(6)], RowFormat(36), 2)):
        folder.save_rows(number, rows)
    later = Later(folder)
    pool.run_here(worker_setup(open_tiny).open(), folder, [0, 1, 2], lambda _: None, later)
    assert folder.n_tallies() == 3
    assert later.called == list(range(called))


def source(fast: bool = False, **options: Any) -> CorpusSource:
    model = NativeModel(TinyModel(), FastBytes() if fast else Bytes(), "tiny")
    return CorpusSource(model, Corpus(["ab", "cd", "e"]), ScanOptions(**options), RowFormat(8))


@pytest.mark.parametrize(
    ("characters", "groups"),
    [(0, [["ab"], ["cd"], ["e"]]), (2, [["ab"], ["cd"], ["e"]]), (3, [["ab", "cd"], ["e"]]), (99, [["ab", "cd", "e"]])],
)
def test_passages_are_tokenised_together_up_to_so_many_characters(characters: int, groups: list[list[str]]) -> None:
    found = [[passage.text for passage in held] for held in source()._passages(characters)]
    assert found == groups


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("most", "read"), [(None, 3), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_reading_ends_with_the_document_that_reaches_max_tokens(most: int | None, read: int, fast: bool) -> None:
    counted: list[int] = []
    found = list(source(fast, max_tokens=most)._tokenised(counted.append))
    assert found == [(0, [*b"ab"]), (1, [*b"cd"]), (2, [*b"e"])][:read]
    assert counted == [2, 2, 1][:read]


@pytest.mark.parametrize(("most", "read"), [(1, 2), (20, 20), (29, 29), (30, 60), (61, 122)])
def test_a_passage_of_far_more_than_max_tokens_is_cut(most: int, read: int) -> None:
    """Up to twice as many a passage is read to its end; a single token would be no piece."""
    counted: list[int] = []
    reader = replace(source(max_tokens=most), corpus=Corpus(["a" * 60, "b" * 62, "c" * 99]))
    assert sum(len(ids) for _, ids in reader._tokenised(counted.append)) == sum(counted) == read


@pytest.mark.parametrize(("ahead", "read"), [(0, 1), (1, 2), (2, 3)])
def test_a_fast_tokenizer_works_so_far_ahead(monkeypatch: pytest.MonkeyPatch, ahead: int, read: int) -> None:
    monkeypatch.setattr(reading, "AHEAD", ahead)
    monkeypatch.setattr(reading, "AT_ONCE", 1)
    reader = source(fast=True)
    encoded = reader._encoded()
    assert [passage.text for passage in next(encoded)[0]] == ["ab"]
    assert reader.corpus.n_documents == read
    assert [passages[0].text for passages, _ in encoded] == ["cd", "e"]


def test_where_reading_may_end_passages_are_tokenised_one_by_one() -> None:
    for fast in (False, True):
        bounded = source(fast, max_tokens=99)._encoded()
        assert [[passage.text for passage in passages] for passages, _ in bounded] == [["ab"], ["cd"], ["e"]]
        assert threads_of_tokenizers() == 0
        whole = source(fast)._encoded()
        assert [[passage.text for passage in passages] for passages, _ in whole] == [["ab", "cd", "e"]]


def threads_of_tokenizers() -> int:
    return sum(thread.name.startswith("tokenizer") for thread in threading.enumerate())


def test_the_thread_of_a_fast_tokenizer_ends_with_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 1)
    monkeypatch.setattr(reading, "AHEAD", 1)
    encoded = source(fast=True)._encoded()
    next(encoded)
    assert threads_of_tokenizers() == 1, "one at a time: the tokenizer has threads of its own"
    encoded.close()
    assert threads_of_tokenizers() == 0


def reader(
    folder: Path, documents: Any, packing: Packing | None = None, hashes: FileHashes | None = None
) -> CorpusReader:
    """Of rows of eight tokens, two to a shard."""
    options = ScanOptions(batch=2, shard_tokens=16, progress=False)
    made = CorpusSource(open_tiny(), Corpus(documents), options, RowFormat(8))
    return CorpusReader(ScanFolder(folder), made, hashes or FileHashes(), packing)


def test_what_was_read_is_counted(tmp_path: Path) -> None:
    for name in ("000000.tally.safetensors", "000009.rows.safetensors", "packed.json"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).write_bytes(b"of an earlier reading")
    made = reader(tmp_path, ["a" * 20, "b" * 7, "c", "d" * 5, "", "e" * 6])
    assert made.tokens_missing() is None
    made.read_all()
    found = made.packing
    assert found is not None
    assert replace(found, sha256="") == Packing(3, 6, 5, 6, 38, "", [])
    assert made.folder.packing() == found, "it is read again with the same hash"
    assert sorted(file.name for file in made.folder.work.iterdir()) == [
        "000000.rows.safetensors", "000001.rows.safetensors", "000002.rows.safetensors", "packed.json",
    ]  # fmt: skip
    assert sum(made.folder.rows(shard).n_tokens for shard in range(3)) == 38


@pytest.mark.parametrize(("measured", "left"), [((), 400), ((2,), 300), ((0, 1, 3), 100)])
def test_the_bar_s_total_is_that_of_the_shards_that_are_missing(
    tmp_path: Path, measured: tuple[int, ...], left
) -> None:
    made = reader(tmp_path, ["ab"], Packing(4, 8, 9, 9, 400, "x", []))
    made.folder.work.mkdir()
    for shard in measured:
        made.folder.write(made.folder.tally_file(shard), b"")
    unit, shards = made.missing()
    assert (unit, list(shards)) == ("piece", [shard for shard in range(4) if shard not in measured])
    assert made.tokens_missing() == left


@pytest.mark.parametrize(("count", "unit", "read"), [(19, "piece", 19), (20, "document", 20), (60, "document", 20)])
def test_no_more_is_read_ahead_than_tells_what_the_bootstrap_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, unit: str, read: int
) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 1)
    made = reader(tmp_path, ["x" * 8] * count)
    assert made.missing()[0] == unit
    assert made.source.corpus.n_documents == read, "a shard has two of them"


def test_shards_are_read_ahead_once_and_those_with_a_tally_are_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 1)
    made = reader(tmp_path, ["x" * 8] * 50)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/000099.rows.safetensors").write_bytes(b"of an earlier, longer reading")
    _, shards = made.missing()
    made.folder.write(made.folder.tally_file(3), b"")
    assert list(shards) == [shard for shard in range(25) if shard != 3]
    assert made.packing is not None
    assert not made.folder.rows_file(99).exists()


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "corpus.txt").write_text("a cat sat")
    hashes = FileHashes()
    hashes.sha256([file], lambda _: None)
    made = reader(tmp_path / "out", file, hashes=hashes)
    made.folder.path.mkdir()
    file.write_text("a cat sat, and more")
    with pytest.raises(InputError, match=r"corpus\.txt changed while it was read"):
        made.read_all()
    assert made.packing is None


@pytest.mark.parametrize(("documents", "said"), [([""], "the corpus is empty: it has no text"), ([3], "item 0: int")])
def test_of_a_corpus_without_text_nothing_is_left(tmp_path: Path, documents: list[Any], said: str) -> None:
    made = reader(tmp_path, documents)
    made.folder.recipe_file.write_bytes(b"{}")
    with pytest.raises(InputError, match=said):
        made.read_all()
    assert list(tmp_path.iterdir()) == []


def test_a_source_is_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        source().row_format = RowFormat(9)  # type: ignore[misc]
