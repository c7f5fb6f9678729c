"""A scan from beginning to end: its recipe, its forward passes, its files."""

from __future__ import annotations

import math
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headscope.attention.progress import progress_callback
from headscope.errors import InputError
from headscope.heads.questions.label_rules import token_class
from headscope.models.native import NativeModel
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus
from headscope.scan.corpus.packing import RowFormat
from headscope.scan.corpus.reading import CorpusSource
from headscope.scan.options import ScanOptions
from headscope.scan.progress import progress_bar
from headscope.scan.recipe import describe_machine
from headscope.scan.run import _reads_ahead, _threads, scan
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


def test_the_result_counts_documents_pieces_and_tokens() -> None:
    model, documents = open_tiny(), texts(30)
    result = scan(model, documents, options=ScanOptions(**OPTIONS)).recipe.data["result"]
    lengths = [len(model.processor.token_ids(document)) for document in documents]
    whole = [length for length in lengths if length >= 2]
    assert result["documents"] == len(documents)
    assert sum(whole) - 2 * len(whole) <= result["tokens"] <= sum(lengths), "a last piece of one token is left out"
    assert result["pieces"] >= sum(-(-length // 64) for length in whole) - len(whole)
    assert result["shards"] == -(-result["rows"] // 2)
    assert (result["problems"], result["notes"]) == ([], list(model.notes))


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


@pytest.mark.parametrize(("given", "here", "used"), [(2, 1, 2), (None, 1, 1)])
def test_threads_are_those_given_or_torch_s_and_are_restored(given: int | None, here: int, used: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(here)
    try:
        census = scan(open_tiny(), texts(3), options=ScanOptions(**(OPTIONS | {"threads": given})))
        assert census.recipe.data["machine"]["threads"] == used
        assert torch.get_num_threads() == here
    finally:
        torch.set_num_threads(before)


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
    with pytest.raises(InputError, match=r"scanning on Ray needs one more package; pip install headscope\[ray\]"):
        scan(open_tiny(), texts(3), out=tmp_path, options=options, opener=open_tiny)
    assert (tmp_path / "work/packed.json").exists(), "the packed rows are kept for when it is installed"


@pytest.mark.parametrize("more", [{"workers": 2}, {"ray": "local"}])
def test_workers_need_a_model_that_they_can_open(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"they need its name or folder; this model is an object: scan with workers=1"):
        scan(open_tiny(), texts(3), out=tmp_path / "out", options=ScanOptions(**OPTIONS, **more))
    assert not (tmp_path / "out").exists()


def test_the_bar_says_how_far_a_scan_is_how_fast_and_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, total = [100.0], [None, 2_000]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("Measuring", lambda: total[0], True) as advance:
        clock[0] += 2
        advance(500)
        assert total.pop(0) is None, "how much there is becomes known later"
        clock[0] += 2
        advance(1_500)
    shown = capsys.readouterr().err
    assert re.search(r"Measuring \S+ 2,000 of 2,000 tokens, 500 tokens per second 00:04\s", shown), shown


def test_without_a_total_the_bar_says_what_is_done(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("Checking", None, True, unit="bytes") as advance:
        clock[0] += 4
        advance(1_200)
    assert re.search(r"Checking .* 1,200 bytes, 300 bytes per second", capsys.readouterr().err)


@pytest.mark.parametrize(("here", "workers", "each"), [(8, 2, 4), (8, 3, 2), (1, 4, 1)])
def test_workers_share_the_threads_of_the_machine(monkeypatch, here: int, workers: int, each: int) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: here)
    assert _threads(open_tiny(), workers) == each


@pytest.mark.parametrize(
    ("total", "told"), [(10, [("scanning", 6, 10), ("scanning", 10, 10), ("scanning", 10, 10)]), (None, [])]
)
def test_who_listens_is_told_of_tokens_done_and_no_more_than_there_are(total: int | None, told: list[Any]) -> None:
    heard: list[tuple[str, int, int]] = []
    with progress_callback(lambda *said: heard.append(said)), progress_bar("Scanning", total, True) as advance:
        for tokens in (6, 4, 2):
            advance(tokens)
    assert heard == told


@pytest.mark.parametrize(
    ("shown", "terminal", "drawn"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_a_bar_is_drawn_in_a_terminal_unless_said(capsys, monkeypatch, shown, terminal: bool, drawn: bool) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress_bar("Scanning", 2, shown) as advance:
        advance(2)
    assert bool(capsys.readouterr().err) is drawn


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


def test_with_every_shard_measured_no_worker_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, "examples.parquet")
        with pytest.raises(StopError):
            scan(open_tiny(), texts(3), out=tmp_path, options=ScanOptions(**SMALL))
    options = ScanOptions(**SMALL, workers=2)
    assert scan(open_tiny(), texts(3), out=tmp_path, options=options, opener=never).recipe.data["result"]["shards"] > 1
    assert ScanFolder(tmp_path).finished


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL, workers=1), opener=never)
    assert ScanFolder(tmp_path).finished


@pytest.mark.parametrize("finished", [False, True])
def test_a_text_that_only_reading_tells_apart_is_compared_by_its_rows(tmp_path, monkeypatch, finished: bool) -> None:
    options = ScanOptions(**SMALL)
    if finished:
        scan(open_tiny(), iter(texts(2)), out=tmp_path, options=options)
    else:
        with monkeypatch.context() as patch:
            stop_at(patch, "000001.tally.safetensors")
            with pytest.raises(StopError):
                scan(open_tiny(), iter(texts(2)), out=tmp_path, options=options)
    with pytest.raises(InputError, match=r"holds a scan of another text; give the same text, or choose another folder"):
        scan(open_tiny(), iter(texts(2, seed=1)), out=tmp_path, options=options)
    assert scan(open_tiny(), iter(texts(2)), out=tmp_path, options=options).recipe.data["result"]["documents"] == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_finished_scan_reads_only_a_text_that_it_cannot_tell_apart(tmp_path, capsys, known: bool) -> None:
    def given() -> Any:
        return texts(2) if known else iter(texts(2))

    scan(open_tiny(), given(), out=tmp_path, options=ScanOptions(**SMALL))
    scan(open_tiny(), given(), out=tmp_path, options=ScanOptions(**SMALL, progress=True))
    assert ("Comparing the text" in capsys.readouterr().err) is not known


def test_what_a_kill_left_of_the_work_folder_is_removed_from_a_finished_scan(tmp_path: Path) -> None:
    scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL))
    before = content(tmp_path)
    (tmp_path / ".gone").mkdir()
    scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL))
    assert content(tmp_path) == before


def test_a_folder_of_something_else_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds thesis\.doc, which is not a scan's"):
        scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["thesis.doc"]


def test_another_recipe_is_refused_though_the_scan_is_finished(tmp_path: Path) -> None:
    scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL))
    with pytest.raises(InputError, match=r"another recipe \(seed: 0 there, 1 here\)"):
        scan(open_tiny(), texts(2), out=tmp_path, options=ScanOptions(**SMALL, seed=1))


def beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> NativeModel:
    """A model whose weights say that they are on a GPU."""
    model = open_tiny()
    weight = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)
    monkeypatch.setattr(model.model, "parameters", lambda: iter([weight]))
    return model


def test_a_corpus_is_measured_while_it_is_read_only_beside_a_gpu_and_if_it_is_known(monkeypatch) -> None:
    for model, ahead in ((open_tiny(), False), (beside_a_gpu(monkeypatch), True)):
        for corpus, known in ((["ab"], True), (iter(["ab"]), False)):
            source = CorpusSource(model, Corpus(corpus), ScanOptions(), RowFormat(8))
            assert _reads_ahead(source) is (ahead and known)


def test_beside_a_gpu_every_worker_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert _threads(beside_a_gpu(monkeypatch), 2) == 1


def test_a_recipe_says_that_sites_were_summed_together_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "H200")
    machine = describe_machine(beside_a_gpu(monkeypatch), 1)
    assert (machine["device"], machine["sites"]) == ("H200", "observed and summed together")


def test_on_a_cpu_it_is_known_from_the_start_how_much_there_is_to_measure() -> None:
    told: list[tuple[str, int, int]] = []
    with progress_callback(lambda *report: told.append(report)):
        made = scan(open_tiny(), texts(30), options=ScanOptions(**OPTIONS))
    assert {total for what, _, total in told if what == "scanning"} == {made.recipe.data["result"]["tokens"]}
