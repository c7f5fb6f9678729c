"""Pictures of every page for the documentation: ``python -m tests.e2e.pictures docs/images``."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

import headscope
from headscope.app.session import Session
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, served

SHOTS = {
    "microscope": ("", 1440, 900, "light"),
    "microscope-dark": ("", 1440, 900, "dark"),
    "microscope-arcs": ("#microscope?view=arcs", 1440, 900, "light"),
    "microscope-phone": ("", 390, 844, "light"),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with headscope.load() as scope, served(Session(scope)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for name, (fragment, width, height, theme) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
            page.goto(f"{address}?theme={theme}{fragment}")
            expect(page.locator("[data-share='all']")).to_be_visible(timeout=60_000)
            expect(page.locator("[data-kl]")).to_be_visible()
            page.screenshot(path=folder / f"{name}.png", full_page=width < 760)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
