"""What a query reads of a picture, for the terminal and for PNG files: equal to a look's weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models import tiny
from tests.models.media import hum, of_size, picture
from typer.testing import CliRunner

from headscope.app.pages.media.shown import default_query, head_map
from headscope.cli import app
from headscope.models.protocol import Token
from headscope.scope import Scope


def pixels(file: Path | str) -> np.ndarray:
    with Image.open(file) as opened:
        return np.asarray(opened.convert("L"))


def test_a_map_is_a_row_of_the_pattern_on_the_grid(vit: Scope) -> None:
    look = vit.look(picture())
    pattern = look.pattern("1.2").numpy()
    drawn = head_map(look, "1.2")
    assert (drawn.query, drawn.chosen) == ("CLS", None)
    np.testing.assert_allclose(drawn.weights, pattern[0, 1:].reshape(4, 4), atol=1e-6)
    assert drawn.outside == pytest.approx(float(pattern[0, 0]), abs=1e-5)
    assert drawn.sink == look.tokens[int(pattern.mean(0).argmax())].text
    for query in ("patch 2,1", "10", 10, -7):
        drawn = head_map(look, "1.2", query)
        assert drawn.chosen == (2, 1)
        np.testing.assert_allclose(drawn.weights, pattern[10, 1:].reshape(4, 4), atol=1e-6)


def test_what_reads_a_picture_unless_told() -> None:
    patch, word, first = Token(-1, "patch 0,0"), Token(7, "horse"), Token(-1, "CLS")
    assert default_query((patch, patch)) is None
    assert default_query((first, patch)) == 0
    assert default_query((patch, word)) == 1


def test_a_png_is_the_picture_under_its_veil(vit: Scope, tmp_path: Path) -> None:
    """The patch that is read most is as bright as the picture itself; one that is read least is nearly paper."""
    pytest.importorskip("matplotlib")
    black = Image.new("RGB", (32, 32), (0, 0, 0))
    look = vit.look(black)
    look.plot("1.2").save(tmp_path / "one.png")
    drawn = pixels(tmp_path / "one.png")
    weights = head_map(look, "1.2").weights
    levels = set(drawn[200:].reshape(-1).tolist())
    for expected in 252 * 0.9 * (1 - np.sqrt(weights / weights.max())).reshape(-1):
        assert min(abs(expected - level) for level in levels) <= 3
    look.plot().save(tmp_path / "all.png")
    assert pixels(tmp_path / "all.png").shape[1] > 500


def test_a_sound_is_drawn_under_its_waveform(whisper: Scope, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    look = whisper.look((hum(0.7), "the horse"))
    for head in ("decoder.1.cross.2", "encoder.0.1", "decoder.0.1"):
        look.plot(head).save(tmp_path / f"{head}.png")
        assert pixels(tmp_path / f"{head}.png").shape[1] > 300


def test_the_command_writes_picture_and_page(tmp_path: Path) -> None:
    """196 patches do not fit a terminal as a pattern; as a map they do."""
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    tiny.vit(image_size=112).save_pretrained(tmp_path / "model")
    of_size(112).save_pretrained(tmp_path / "model")
    picture().save(tmp_path / "cat.png")
    files = [str(tmp_path / name) for name in ("head.png", "page.html")]
    given = [str(tmp_path / "cat.png"), "--model", str(tmp_path / "model"), "--head", "1.2", "--query", "patch 3,4"]
    done = CliRunner().invoke(app, ["look", *given, "--save", files[0], "--save", files[1]])
    assert done.exit_code == 0, done.output
    assert "head 1.2: what patch 3,4 reads of the picture" in done.output
    assert done.output.count("░") > 10
    assert pixels(files[0]).shape[1] > 500
    assert "headscope-data" in Path(files[1]).read_text(encoding="utf-8")
