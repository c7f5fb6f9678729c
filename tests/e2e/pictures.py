"""Pictures of the page for README and documentation: ``python -m tests.e2e.pictures docs/images [name …]``."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

import headscope
from headscope.app.pages.microscope import Session
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, served

COLOURS = 256  # a third of the bytes, and nobody sees it


class Shot(NamedTuple):
    """An address, what must stand before the picture is taken, and its size."""

    fragment: str
    ready: tuple[str, ...]
    width: int
    height: int


SHOTS = {
    "fork": Shot("#fork/5", ("[data-fork][data-ready=true]",), 1240, 800),
    "microscope": Shot("#microscope", ("[data-share='all']", "[data-kl]"), 1440, 900),
}


def main(folder: Path, names: Collection[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with headscope.load() as scope, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with served(Session(scope)) as address:
            for name in names or SHOTS:
                take(browser, address, SHOTS[name], folder / f"{name}.png")
        browser.close()


def take(browser: Browser, address: str, shot: Shot, file: Path) -> None:
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, reduced_motion="reduce")
    page.goto(f"{address}{shot.fragment}")
    for place in shot.ready:
        expect(page.locator(place)).to_be_visible()
    taken = page.screenshot()
    page.close()
    fewer = (
        Image.open(io.BytesIO(taken))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    fewer.save(file, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
