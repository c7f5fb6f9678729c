"""A corpus measured while it is read gives the census of one that is read first, stopped at any moment too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.scan.test_resume import StopError, content, stop_after
from tests.scan.test_run import OPTIONS, passes
from tests.scan.tiny import Bytes, TinyModel, open_tiny, texts

from headscope.models.native import NativeModel
from headscope.scan import run
from headscope.scan.corpus import reading
from headscope.scan.corpus.documents import Corpus, FileHashes
from headscope.scan.corpus.packing import RowFormat
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


@pytest.mark.parametrize("count", [3, 19, pytest.param(40, marks=pytest.mark.slow)])
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
@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.param(StopError(), marks=pytest.mark.slow)])
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


def source(fast: bool = False, **options: Any) -> CorpusSource:
    model = NativeModel(TinyModel(), FastBytes() if fast else Bytes(), "tiny")
    return CorpusSource(model, Corpus(["ab", "cd", "e"]), ScanOptions(**options), RowFormat(8))


def reader(
    folder: Path, documents: Any, packing: Packing | None = None, hashes: FileHashes | None = None
) -> CorpusReader:
    """Of rows of eight tokens, two to a shard."""
    options = ScanOptions(batch=2, shard_tokens=16)
    made = CorpusSource(open_tiny(), Corpus(documents), options, RowFormat(8))
    return CorpusReader(ScanFolder(folder), made, hashes or FileHashes(), packing)
