"""A picture and a sound on the page: weights equal to a look in Python, by mouse and keyboard, on a phone too."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from headscope.app.export.html import save_html
from headscope.app.pages.microscope import Session
from headscope.scope import Scope
from tests.e2e.conftest import fits, served
from tests.models.media import as_sixteen_bits, hum, picture


@pytest.fixture(scope="module")
def address(vit: Scope, whisper: Scope, clip: Scope, llava: Scope) -> Iterator[str]:
    with served(*map(Session, (vit, whisper, clip, llava))) as opened:
        yield opened


def choose(page: Page, file: Path) -> None:
    page.locator("input[type=file]").set_input_files(file)


def walk(page: Page, *keys: str) -> None:
    """Go from head to head on the grid of all heads."""
    for key in keys:
        page.get_by_role("application", name=re.compile("^All heads")).press(key)


def drawn(page: Page, kind: str, head: str) -> np.ndarray:
    """The weights that are drawn over a picture or under a sound."""
    found = page.locator(f"[data-{kind}='{head}']")
    expect(found).to_be_visible()
    return np.array([float(each) for each in (found.get_attribute("data-weights") or "").split()])


def test_a_picture_shows_what_the_class_token_and_a_patch_read(
    page: Page, address: str, files: Path, vit: Scope
) -> None:
    page.goto(f"{address}#microscope")
    expect(page.get_by_text("This model reads a picture. Drop one here, or choose a file.")).to_be_visible()
    choose(page, files / "scene.png")
    expected = vit.look(picture()).weights("0.0").numpy()
    np.testing.assert_allclose(drawn(page, "picture", "0.0"), expected[0, 1:], atol=1e-5)
    over = page.locator("[data-picture]")
    box = over.bounding_box()
    assert box is not None
    over.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.3})  # row 1, column 2
    expect(page.locator("[data-selected]")).to_have_text("patch 1,2")
    expect(over).to_have_attribute("aria-label", re.compile("patch 1,2"))
    np.testing.assert_allclose(drawn(page, "picture", "0.0"), expected[1 + 4 + 2, 1:], atol=1e-5)
    over.press("ArrowDown")
    expect(page.locator("[data-selected]")).to_have_text("patch 2,2")
    over.press("]")
    expect(page.locator("[data-picture='0.1']")).to_be_visible()


def test_the_sink_is_named_and_set_aside_and_the_weights_are_saved(
    page: Page, address: str, files: Path, vit: Scope
) -> None:
    page.goto(f"{address}#microscope?head=1.2")
    choose(page, files / "scene.png")
    weights = vit.look(picture()).weights("1.2").numpy()
    page.get_by_role("option", name="CLS").click()
    sink = int(weights.mean(0).argmax())
    expect(page.locator("[data-sink]")).to_have_attribute("data-sink", str(sink))
    page.get_by_role("switch", name="hide").click()
    expect(page.get_by_text("is hidden; the rest is not rescaled.")).to_be_visible()
    expected = np.where(np.arange(17) == sink, 0, weights[0])[1:]
    np.testing.assert_allclose(drawn(page, "picture", "1.2"), expected, atol=1e-5)
    with page.expect_download() as saved:
        page.get_by_label("Save this picture").select_option("csv")
    rows = list(csv.reader(io.StringIO(Path(saved.value.path()).read_text(encoding="utf-8"))))
    assert rows[1][0].strip() == "patch 0,0"
    np.testing.assert_allclose([float(row[1]) for row in rows[1:]], expected, atol=1e-5)


def test_a_sound_lies_over_what_each_word_reads_of_it(page: Page, address: str, files: Path, whisper: Scope) -> None:
    page.goto(f"{address}#microscope?model=WhisperForConditionalGeneration")
    expect(page.get_by_text("This model reads a .wav file.")).to_be_visible()
    choose(page, files / "hum.wav")
    expect(page.locator("[data-sound]")).to_be_visible()
    page.get_by_placeholder("What the decoder has written").fill("the horse")
    expect(page.get_by_role("option", name="horse")).to_be_visible()
    page.get_by_role("option", name="horse").click()
    samples = as_sixteen_bits(hum(0.7))
    expected = whisper.look((samples, "the horse")).weights("decoder.0.cross.0").numpy()
    expect(page.locator("[data-sound]")).to_have_attribute("aria-label", re.compile("attends to from horse"))
    np.testing.assert_allclose(drawn(page, "sound", "decoder.0.cross.0"), expected[2], atol=1e-5)
    expect(page.get_by_text("The sound is 0.7 s long; this model always reads 1.0 s")).to_be_visible()
    page.locator("[data-sound]").press("ArrowUp")
    expect(page.locator("[data-sound]")).to_have_attribute("aria-label", re.compile("attends to from the"))
    np.testing.assert_allclose(drawn(page, "sound", "decoder.0.cross.0"), expected[1], atol=1e-5)


def test_the_two_towers_of_clip_are_shown_side_by_side(page: Page, address: str, files: Path, clip: Scope) -> None:
    page.goto(f"{address}#microscope?model=CLIPModel")
    choose(page, files / "scene.png")
    page.get_by_placeholder("Text with it").fill("the horse crossed")
    look = clip.look((picture(), "the horse crossed"))
    np.testing.assert_allclose(drawn(page, "picture", "vision.0.0"), look.weights("vision.0.0")[0, 1:], atol=1e-5)
    walk(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    expect(page.get_by_role("heading", name="text.1.1")).to_be_visible()
    expect(page.locator("[data-picture]")).to_have_count(0)
    expect(page.get_by_role("option", name="crossed")).to_be_visible()


def test_words_of_a_vision_language_model_read_patches(page: Page, address: str, files: Path, llava: Scope) -> None:
    """The vision tower is not known before the first picture: its heads appear with it, and a text alone has none.

    The first request for them is still under way as the text is typed, and is given up without an error.
    """
    page.goto(f"{address}#microscope?model=LlavaForConditionalGeneration&head=1.2")
    expect(page.get_by_role("heading", name="1.2")).to_be_visible()
    waiting: list[Route] = []
    page.route("**/api/model?*", lambda route: route.fallback() if waiting else waiting.append(route))
    with page.expect_request("**/api/model?*"):
        choose(page, files / "scene.png")
    page.get_by_placeholder("Text with it").fill("the horse crossed")
    expect(page.get_by_role("option", name="crossed")).to_be_visible()
    expected = llava.look((picture(), "the horse crossed")).weights("1.2").numpy()
    page.get_by_role("option", name="crossed").click()
    expect(page.locator("[data-picture]")).to_have_attribute("aria-label", re.compile("attends to from crossed"))
    np.testing.assert_allclose(drawn(page, "picture", "1.2"), expected[18, :16], atol=1e-5)
    walk(page, "ArrowUp", "ArrowUp")
    expect(page.locator("[data-picture='vision.1.2']")).to_be_visible()
    page.get_by_role("button", name="Remove scene.png").click()
    expect(page.locator("[data-picture]")).to_have_count(0)
    expect(page.get_by_role("option", name="horse")).to_be_visible()


def test_a_bad_file_gives_a_sentence_and_the_last_picture_stays(page: Page, address: str, files: Path) -> None:
    page.goto(f"{address}#microscope")
    choose(page, files / "scene.png")
    expect(page.locator("[data-picture]")).to_be_visible()
    choose(page, files / "letters.png")
    expect(page.get_by_role("alert")).to_contain_text("The file is neither a picture that Pillow reads nor a .wav file")
    expect(page.locator("[data-picture]")).to_be_visible()


@pytest.mark.parametrize("name", ["scene.png", "hum.wav"])
def test_both_fit_a_phone(page: Page, address: str, files: Path, name: str) -> None:
    model = "" if name == "scene.png" else "?model=WhisperForConditionalGeneration"
    page.goto(f"{address}#microscope{model}")
    choose(page, files / name)
    expect(page.locator("[data-picture], [data-sound]")).to_be_visible()
    fits(page, 390)
    expect(page.locator("[data-picture], [data-sound]")).to_be_visible()


def test_a_saved_page_holds_its_picture(page: Page, vit: Scope, tmp_path: Path) -> None:
    save_html(vit.look(picture()), tmp_path / "scene.html")
    page.goto((tmp_path / "scene.html").as_uri())
    expected = vit.look(picture()).weights("0.0").numpy()
    np.testing.assert_allclose(drawn(page, "picture", "0.0"), expected[0, 1:], atol=1e-5)
    expect(page.locator("[data-sink]")).to_have_attribute("data-sink", str(int(expected.mean(0).argmax())))
