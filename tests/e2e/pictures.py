"""Pictures of every page for the documentation: ``python -m tests.e2e.pictures docs/images [name …]``."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

import headscope
from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.scan.options import ScanOptions
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, served

ROOT = Path(__file__).parents[2]
CORPUS = ("README.md", "CONTRIBUTING.md", "docs/concepts.md", "docs/film.md")
MICROSCOPE = ("[data-share='all']", "[data-kl]")
FOUR_HEADS = ("[data-hit='3']", "text=Every row found >> nth=3")
BESIDE = "My black dog slept at the door. My black dog slept at the".replace(" ", "+")
PHONE = 390
COLOURS = 256  # a third of the bytes, and nobody sees it


class Shot(NamedTuple):
    """An address, and what must stand before the picture is taken."""

    fragment: str
    ready: tuple[str, ...]
    width: int = 1440
    theme: str = "light"


SHOTS = {
    "start": Shot("#start", ("[data-fork][data-ready=true]",)),
    "start-phone": Shot("#start", ("[data-fork][data-ready=true]",), PHONE),
    "tour": Shot("#tour/5", ("[data-fork][data-ready=true]",)),
    "microscope": Shot("#microscope", MICROSCOPE),
    "microscope-dark": Shot("#microscope", MICROSCOPE, theme="dark"),
    "microscope-arcs": Shot("#microscope?view=arcs", MICROSCOPE),
    "microscope-beside": Shot(f"#microscope?text2={BESIDE}", ("[data-share='all'] >> nth=1", "[data-kl] >> nth=1")),
    "microscope-phone": Shot("#microscope", MICROSCOPE, PHONE),
    "four-heads": Shot("#four-heads", FOUR_HEADS),
    "four-heads-dark": Shot("#four-heads?v=1&d=1", ("[data-missed='3']",), theme="dark"),
    "four-heads-phone": Shot("#four-heads", FOUR_HEADS, PHONE),
    "by-hand": Shot("#by-hand", ("text=Whole heads by hand",)),
    "by-hand-phone": Shot("#by-hand", ("text=Whole heads by hand",), PHONE),
    "one-or-many": Shot("#one-or-many", ("[data-cut]",)),
    "one-or-many-phone": Shot("#one-or-many", ("[data-cut]",), PHONE),
    "film": Shot("#film?step=99999999", ("[data-score=induction]",)),
    "film-phone": Shot("#film?step=99999999", ("[data-score=induction]",), PHONE),
    "cards": Shot("#cards", ("[data-card=gpt2]",)),
    "cards-phone": Shot("#cards", ("[data-card=gpt2]",), PHONE),
    "learn": Shot("#learn?lesson=7", ("[data-question='2']",)),
    "learn-phone": Shot("#learn?lesson=7", ("[data-question='2']",), PHONE),
    "census": Shot("#census", ("[data-example] >> nth=0",)),
    "census-phone": Shot("#census", ("[data-example] >> nth=0",), PHONE),
}


def main(folder: Path, names: Collection[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with headscope.load() as scope, TemporaryDirectory() as made, sync_playwright() as playwright:
        texts = [(ROOT / file).read_text(encoding="utf-8")[:4000] for file in CORPUS if (ROOT / file).exists()]
        scope.scan(texts, out=Path(made) / "census", options=ScanOptions(context=256, threads=1))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with served(Session(scope), censuses=Censuses([Path(made) / "census"])) as address:
            for name, shot in SHOTS.items():
                if name in (names or SHOTS):
                    take(browser, address, shot, folder / f"{name}.png")
        browser.close()


def take(browser: Browser, address: str, shot: Shot, file: Path) -> None:
    height = 844 if shot.width == PHONE else 900
    page = browser.new_page(viewport={"width": shot.width, "height": height}, reduced_motion="reduce")
    page.goto(f"{address}?theme={shot.theme}{shot.fragment}")
    for place in shot.ready:
        expect(page.locator(place)).to_be_visible()
    taken = page.screenshot(full_page=shot.width == PHONE or shot.ready != MICROSCOPE)
    page.close()
    fewer = (
        Image.open(io.BytesIO(taken))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    fewer.save(file, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
