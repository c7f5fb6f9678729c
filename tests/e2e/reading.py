"""What the tests of the microscope share: addresses, and numbers as the page writes them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from playwright.sync_api import FrameLocator, Locator, Page

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
Open = Callable[..., Page]


def at(**fields: str | int) -> str:
    return "#microscope?" + "&".join(f"{name}={quote(str(value))}" for name, value in {"text": TEXT, **fields}.items())


def tokens(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Tokens").first


def short(value: float, digits: int = 2) -> str:
    text = f"{abs(value):.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def signed(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else ("+" if value > 0 else "−") + text


def per_cent(probability: float) -> str:
    value = probability * 100
    return "<.01" if 0 < value < 0.005 else f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def cell(page: Page | FrameLocator, head: str, row: int, column: int, span: int) -> tuple[float, float]:
    """Where a cell of the pattern stands on the screen."""
    box = page.get_by_role("application", name=f"Pattern of head {head}").first.bounding_box()
    assert box is not None
    side = box["width"] / span
    above = box["height"] - box["width"]  # names on top, or the bars below
    top = box["y"] + (58 if above > 50 else 0)
    return box["x"] + (column + 0.5) * side, top + (row + 0.5) * side
