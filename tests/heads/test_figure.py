"""Figures are written as SVG, PDF and PNG, and every result with numbers per head has a table, a matrix and a map."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import headscope
from headscope.attention import progress
from headscope.errors import InputError
from headscope.heads.figure import STOPS, cell_figure, png, weight_pixels
from headscope.heads.film import Film, TrainingRecorder
from headscope.heads.head_table import HeadTable
from headscope.heads.look.look import Look
from headscope.heads.look.table import HeadStatistics
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scope import Scope
from tests.models import tiny

TEXT = "My white horse drank at the river. My white horse drank at the"
OTHER = "My white horse drank at the river. My white cat drank at the"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def scope() -> Scope:
    return headscope.load()


@pytest.fixture(scope="module")
def look(scope: Scope) -> Look:
    return scope.look(TEXT)


def test_a_pattern_is_one_cell_per_weight_that_can_be_seen_and_its_tokens_are_text(look: Look) -> None:
    drawn = ET.fromstring(look.plot("5.6").svg())
    cells = drawn.findall(f"{SVG}rect")[1:]
    weights = look.pattern("5.6")
    assert len(cells) == int((weights >= 5e-4).sum())
    colours = {cell.get("fill") for cell in cells}
    red, green, blue = weight_pixels(weights.numpy())[-1, 7].tolist()
    assert f"#{red:02X}{green:02X}{blue:02X}" in colours
    texts = [each.text for each in drawn.findall(f"{SVG}text")]
    assert texts.count("river") == 2, "a row and a column"
    assert drawn.find(f"{SVG}title").text == "Head 5.6: from each query (row) to keys"  # type: ignore[union-attr]


def test_a_map_writes_each_value_and_marks_negative_ones_without_colour() -> None:
    values = np.array([[0.5, -1.0], [np.nan, 0.25]])
    drawn = ET.fromstring(cell_figure(values, ["0", "1"], ["0", "1"], "t", signed=True, numbers=True).svg())
    texts = [each.text for each in drawn.findall(f"{SVG}text")]
    assert {"+0.50", "-1.00", "+0.25"} <= set(texts)
    assert len(drawn.findall(f"{SVG}rect")) == 1 + 3
    unlabelled = ET.fromstring(cell_figure(values, ["0", "1"], ["0", "1"], "t", signed=True, numbers=False).svg())
    assert len(unlabelled.findall(f"{SVG}rect")) == 1 + 3 + 1, "a dash"


def test_the_suffix_chooses_the_format(look: Look, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix, start in ((".svg", b"<svg"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")):
        assert look.plot("5.6").save(tmp_path / f"f{suffix}").read_bytes().startswith(start)
    pdf = (tmp_path / "f.pdf").read_bytes()
    assert b"/CIDFontType2" in pdf or b"/TrueType" in pdf, "text that can be searched"
    with pytest.raises(InputError, match=r"f\.gif: a figure is saved as \.svg, \.pdf or \.png"):
        look.plot("5.6").save(tmp_path / "f.gif")
    look.save_html(tmp_path / "l.html")
    assert "headscope-data" in (tmp_path / "l.html").read_text(encoding="utf-8")


def test_a_long_pattern_is_one_image_of_the_pooled_weights(scope: Scope) -> None:
    long = scope.look(TEXT * 6).plot("5.6")
    assert "<image" in long.svg()
    assert long.svg().count("<rect") == 1


def test_every_head_is_an_image_of_its_weights(look: Look) -> None:
    drawn = ET.fromstring(look.plot().svg())
    assert len(drawn.findall(f"{SVG}image")) == 64


def test_png_pixels_are_those_given() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3)).astype(np.uint8)
    assert np.array_equal(np.array(pillow.open(io.BytesIO(png(pixels)))), pixels)
    ends = [list(bytes.fromhex(STOPS[end])) for end in (0, -1)]
    assert weight_pixels(np.array([0.0, 1.0])).tolist() == ends


def film(scope: Scope) -> Film:
    recorder = TrainingRecorder(scope.hf_model)
    recorder.record(0)
    return recorder.film


def comparison(scope: Scope) -> Any:
    options = ScanOptions(context=32, replicates=4, examples=1)
    return compare(scope.scan([TEXT, OTHER], options=options), scope.scan([OTHER, OTHER], options=options))


FEW = headscope.RoleOptions(inputs=16, roles=("induction",), ablate=0)
RESULTS: dict[str, tuple[Callable[[Scope, Look], HeadTable], str | None]] = {
    "statistics": (lambda scope, look: HeadStatistics(look), "induction"),
    "attribution": (lambda scope, look: look.logit_attribution(" river"), None),
    "importance": (lambda scope, look: scope.importance([TEXT], how="gradient"), None),
    "patching": (lambda scope, look: scope.patching(TEXT, OTHER, (" river", " water")), None),
    "roles": (lambda scope, look: scope.heads(FEW), "induction"),
    "where": (lambda scope, look: look.where(), "the previous token"),
    "film": (lambda scope, look: film(scope), "induction"),
    "census": (
        lambda scope, look: scope.scan([TEXT], options=ScanOptions(context=32, replicates=4)),
        "induction",
    ),
    "compare": (lambda scope, look: comparison(scope), "induction"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "name"), RESULTS.values(), ids=RESULTS)
def test_every_result_per_head_has_the_same_forms(
    scope: Scope, look: Look, make: Callable[[Scope, Look], HeadTable], name: str | None
) -> None:
    found = make(scope, look)
    matrix, rows = found.matrix(name), found.table().to_pylist()
    assert matrix.shape == (8, 8)
    assert len(rows) >= int((~matrix.isnan()).sum()) > 0
    row = next(row for row in rows if row["head"] == "5.6" and name in (None, *row.values()))
    numbers = [value for value in row.values() if isinstance(value, float)]
    assert any(value == pytest.approx(float(matrix[5, 6]), abs=1e-6) for value in numbers)
    assert "<svg" in found.plot(name).svg()
    assert "tensor(" not in str(found)
    assert len(str(found).splitlines()) < 100
    if name is not None:
        with pytest.raises(InputError, match="there is nothing called 'zzz' here; there are"):
            found.matrix("zzz")


def test_a_matrix_has_the_sites_in_their_order_and_no_number_where_there_is_no_head() -> None:
    class Two(HeadTable):
        _column = "x"

        def _rows(self) -> list[dict[str, Any]]:
            return [{"head": f"{site}.{head}", "site": site, "index": head, "x": float(head)}
                    for site, head in (("10", 1), ("2", 0), ("2", 2))]  # fmt: skip

    assert torch.equal(Two().matrix().nan_to_num(-1), torch.tensor([[0.0, -1.0, 2.0], [-1.0, 1.0, -1.0]]))
    assert str(Two()).splitlines() == ["x", "  2.2    2.000", "  10.1   1.000", "  2.0    0.000"]


def test_a_look_has_them_too(look: Look) -> None:
    assert look.matrix("entropy").shape == (8, 8)
    assert "Mean over this text, induction" in look.plot("induction").svg()
    pytest.importorskip("pandas")
    assert len(look.to_pandas()) == look.table().num_rows


def test_pairs_and_writers_are_tables_in_the_same_form(scope: Scope, look: Look) -> None:
    pytest.importorskip("pandas")
    for found in (look.why("5.6"), scope.compositions("k")):
        assert found.to_pandas().to_dict("records") == found.table().to_pylist() != []


def test_two_models_are_compared_head_by_head_on_texts(scope: Scope) -> None:
    with headscope.load() as other:
        same = headscope.compare(scope, other, [TEXT, OTHER])
        assert float(same.matrix("induction").nan_to_num(0).abs().max()) == 0
    with pytest.raises(InputError, match="two models are compared on texts; give at least one"):
        headscope.compare(scope, scope)


def test_models_without_a_tokenizer_are_compared_on_ids() -> None:
    ids = [list(range(1, 40)), [5, 6, 7] * 10]
    with headscope.load(tiny.llama()) as before, headscope.load(tiny.gpt2()) as after:
        found = headscope.compare(before, after, [ids[0], torch.tensor(ids[1])])
        for scope, column in ((before, "before"), (after, "after")):
            means = torch.stack([scope.look(each).mean_traits("1")["entropy"] * len(each) for each in ids]).sum(0)
            rows = [row for row in found.table().to_pylist() if (row["site"], row["question"]) == ("1", "entropy")]
            measured = [row[column] for row in sorted(rows, key=lambda row: row["index"])]
            assert torch.allclose(torch.tensor(measured), means.float() / sum(map(len, ids)), atol=2e-3)
        with pytest.raises(InputError, match="token 97 is outside this model's vocabulary of 0–96"):
            headscope.compare(before, after, [[97, 1, 2]])


def test_controls_are_other_heads_of_the_same_layers(scope: Scope) -> None:
    drawn = headscope.random_heads(scope, like=["5.6", "5.3", "4.3"], seed=1)
    assert sorted(head.site for head in drawn) == ["4", "5", "5"]
    assert not {str(head) for head in drawn} & {"5.6", "5.3", "4.3"}
    assert drawn == headscope.random_heads(scope, like=["5.6", "5.3", "4.3"], seed=1)
    with pytest.raises(InputError, match="site 5 has 3 other heads, and 5 were asked for"):
        headscope.random_heads(scope, like=[f"5.{head}" for head in range(5)])


def test_batches_of_ids_are_texts(scope: Scope) -> None:
    ids = scope.tokenizer(TEXT, return_tensors="pt").input_ids
    two = torch.cat((ids, ids.flip(1)))
    for given in (two, list(two), two.tolist()):
        looks = scope.look(given)
        assert [len(each.tokens) for each in looks] == [ids.shape[1]] * 2
        torch.testing.assert_close(looks[0].logits, scope.look(ids).logits, atol=1e-4, rtol=1e-4)


def test_a_recorder_writes_to_the_logger_it_is_given(scope: Scope) -> None:
    class Writer:
        def __init__(self) -> None:
            self.seen: dict[str, tuple[float, int]] = {}

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            self.seen[tag] = scalar_value, global_step

    class Wandb:
        def __init__(self) -> None:
            self.seen: dict[str, Any] = {}

        def log(self, data: dict[str, Any], step: int) -> None:
            self.seen = {name: (value, step) for name, value in data.items()}

    board, wandb = Writer(), Wandb()
    for logger in (board, wandb):
        recorder = TrainingRecorder(scope.hf_model).log_to(logger)
        recorder.record(7)
    assert board.seen == wandb.seen
    assert board.seen["headscope/best induction"] == (recorder.film.best("induction")[0], 7)
    assert "headscope/text_loss" not in board.seen, "no text was given"
    recorder.record(9, force=True)
    listed = str(recorder.film).splitlines()
    assert listed[0].startswith("2 recorded steps")
    assert len({tuple(line.split()) for line in listed}) == len(listed), "the last step alone is listed"


def test_progress_is_shown_after_a_second_and_turned_off(
    scope: Scope, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0

    def later() -> float:
        nonlocal now
        now += 4.0
        return now

    # for this module alone: the event loop of another test's server would sleep for hours
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=later))
    scope.patching(TEXT, OTHER, (" river", " water"))
    assert "Patching: " in capsys.readouterr().err
    calls = {
        "Leaving out heads: ": lambda: scope.importance([TEXT]),
        "Reading the texts: ": lambda: scope.where([TEXT] * 4),
        "Generating: ": lambda: scope.generate(TEXT, 8),
    }
    for said, call in calls.items():
        call()
        assert said in capsys.readouterr().err
    headscope.progress(False)
    try:
        scope.patching(TEXT, OTHER, (" river", " water"))
    finally:
        headscope.progress(True)
    assert capsys.readouterr().err == ""
