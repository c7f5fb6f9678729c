"""The steps of a denoiser on the page: patches over the latents, who reads a word, and a classifier's classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import headscope
from headscope.app.pages.microscope import Session
from headscope.app.show import session_of
from headscope.heads.step_looks import StepLooks
from headscope.scope import Scope
from tests.e2e.conftest import PATIENCE, fits, served
from tests.e2e.media.test_media import choose, drawn
from tests.models.any_torch.modules import Denoiser, denoise
from tests.models.media import classifier, picture

__all__ = ["classifier"]

WORDS = ("a", "red", "horse", "runs", ".")


@pytest.fixture(scope="module")
def steps() -> Iterator[StepLooks]:
    torch.manual_seed(0)
    with headscope.load(Denoiser().eval(), inputs=denoise) as scope:
        yield scope.steps(denoise, headscope.StepOptions(words=WORDS))


@pytest.fixture(scope="module")
def address(steps: StepLooks, classifier: Scope) -> Iterator[str]:
    with served(session_of(steps), Session(classifier)) as opened:
        yield opened


def test_each_step_shows_what_a_patch_reads(page: Page, address: str, steps: StepLooks) -> None:
    page.goto(f"{address}#microscope?head=coarse.0.2")
    expect(page.locator("[data-step]")).to_have_text("step 0, timestep 200")
    over = page.locator("[data-picture='coarse.0.2']")
    box = over.bounding_box()
    assert box is not None
    over.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.5})  # row 1, column 2
    expect(page.locator("[data-selected]")).to_have_text("patch 1,2")
    np.testing.assert_allclose(drawn(page, "picture", "coarse.0.2"), steps[0].pattern("coarse.0.2")[6], atol=1e-5)
    page.get_by_role("button", name="The next step").click()
    expect(page.locator("[data-step]")).to_have_text("step 1, timestep 100")
    expect(page.locator("[data-selected]")).to_have_text("patch 1,2")
    np.testing.assert_allclose(drawn(page, "picture", "coarse.0.2"), steps[1].pattern("coarse.0.2")[6], atol=1e-5)


def test_a_word_shows_who_reads_it(page: Page, address: str, steps: StepLooks) -> None:
    page.goto(f"{address}#microscope?head=fine.1.3")
    page.get_by_role("option", name="horse", exact=True).click()
    expect(page.locator("[data-picture]")).to_have_attribute("aria-label", re.compile("horse"))
    pattern = steps[0].pattern("fine.1.3").numpy()
    np.testing.assert_allclose(drawn(page, "picture", "fine.1.3"), pattern[:, 2], atol=1e-5)
    page.locator("[data-picture]").click(position={"x": 4, "y": 4})
    expect(page.locator("[data-selected]")).to_have_text("patch 0,0")
    page.mouse.move(4, 4)
    expect(page.get_by_text("patch 0,0 attends to words, not patches")).to_be_visible()
    fits(page, 390)


def test_an_edit_says_how_far_the_output_moves(page: Page, address: str) -> None:
    page.goto(f"{address}#microscope?head=fine.0.0")
    expect(page.get_by_text(re.compile(r"The output changes by [\d.]+% of its largest number"))).to_be_visible()


def test_a_classifier_names_its_classes(page: Page, address: str, files: Path, classifier: Scope) -> None:
    page.goto(f"{address}#microscope?model={classifier.shape.name}")
    choose(page, files / "scene.png")
    likeliest = classifier.look(picture()).classes(1)[0]
    shown = page.locator(f"[data-guess='{likeliest.name}']")
    expect(shown).to_be_visible()
    assert float(shown.inner_text()) == pytest.approx(100 * likeliest.probability, abs=0.6)
    expect(page.locator("[data-kl]")).to_be_visible()


def test_two_fingers_enlarge_a_picture(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}#microscope?head=coarse.0.2")
    over = page.locator("[data-picture='coarse.0.2']")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    fingers = context.new_cdp_session(page)
    for kind, apart in (("touchStart", 30), ("touchMove", 60), ("touchMove", 90), ("touchEnd", None)):
        points = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    expect(over).to_have_class(re.compile("zoomed"))
    context.close()
