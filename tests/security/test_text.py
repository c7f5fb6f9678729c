"""Tokens, texts and model names are shown as text in the page, in files and in a terminal, never as markup."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Frame, Page, expect, sync_playwright
from rich.console import Console

import headscope
from headscope.app import terminal
from headscope.app.export.html import page as exported_page
from headscope.app.export.html import save_html
from headscope.app.pages.microscope import Session
from headscope.names import printable
from headscope.scope import Scope
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, served, until
from tests.e2e.test_widget import NOTEBOOK, SCRIPT, Kernel
from tests.security.hostile import NAME, TEXT, TOKENS, hostile_scope

pytestmark = pytest.mark.promise("No script or markup injection")


@pytest.fixture(scope="module")
def hostile() -> Iterator[Scope]:
    with hostile_scope() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


class Elements(HTMLParser):
    """The elements of an HTML text with the names of their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attributes)))


def watch(page: Page) -> list[str]:
    """A list that gets the errors and dialogs of a page."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    return said


def nothing_ran(page: Page | Frame) -> None:
    assert page.evaluate("window.ran") is None
    assert page.locator("#headscope img, #headscope script, #headscope iframe").count() == 0
    assert page.locator("[onmouseover], [onerror], [onload]").count() == 0


@pytest.mark.browser
def test_the_page_shows_it_as_letters(hostile, browser):
    assert hostile.shape.name == NAME
    with served(Session(hostile)) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        said = watch(page)
        page.goto(f"{address}#microscope")
        box = page.get_by_role("textbox").first
        box.fill(TEXT)
        expect(page.get_by_text(TOKENS[1]).first).to_be_visible()
        for view in ("arcs", "matrix"):
            page.evaluate("view => { location.hash = `microscope?view=${view}` }", view)
            page.wait_for_timeout(300)
        page.mouse.move(700, 450)
        nothing_ran(page)
        page.close()
    assert said == []


@pytest.mark.browser
def test_an_exported_file_shows_injections_as_text_and_makes_no_request(hostile, browser, tmp_path):
    save_html(hostile.look(TEXT), tmp_path / "look.html")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    said, asked = watch(page), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "look.html").as_uri())
    expect(page.get_by_text(TOKENS[1]).first).to_be_visible()
    nothing_ran(page)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.evaluate("fetch('http://127.0.0.1:9/leak').catch(() => {})")
    until(page, lambda: said)  # a request from the file is blocked, and the browser says so
    assert all("Content Security Policy" in line for line in said)
    page.close()


@pytest.mark.browser
def test_a_notebook_shows_it_as_letters(hostile, browser):
    page = browser.new_page(viewport={"width": 1440, "height": 950})
    said = watch(page)
    page.expose_function("toKernel", Kernel(hostile.look(TEXT)).hear)
    program = base64.b64encode(SCRIPT.read_bytes()).decode("ascii")
    page.evaluate(NOTEBOOK, f"data:text/javascript;base64,{program}")
    words = page.frame_locator("iframe").get_by_role("listbox", name="Tokens").get_by_role("option")
    expect(words).to_have_count(len(TOKENS))
    words.nth(1).click()
    frame = page.frames[1]
    expect(frame.get_by_role("region", name="Next token")).to_be_visible()
    for text in TOKENS[:3]:
        expect(frame.get_by_text(text).first).to_be_visible()
    nothing_ran(frame)
    assert page.evaluate("window.ran") is None
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", frame.locator("#headscope").inner_text())
    page.close()
    assert said == []


def test_an_exported_file_has_the_same_elements_for_any_text(hostile):
    plain = Elements(exported_page(hostile.look("&lt;b&gt; " * len(TOKENS)))).seen
    assert Elements(exported_page(hostile.look(TEXT))).seen == plain


def test_control_characters_do_not_reach_a_terminal(scope: Scope):
    for control in ("\x1b[2J\x1b]0;title\x07", "\x9b31m", "\x08\x7f", "\u202eevil\u2066"):
        shown = printable(f"a{control}b\n\tc")
        assert shown.startswith("a")
        assert shown.endswith("b\n\tc")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


def test_control_characters_in_tokens_are_shown_in_the_summary(tmp_path: Path):
    with headscope.load() as embedded:
        look = embedded.look("\x1b[31mred\x1b]0;owned\x07 [bold]x[/bold] $\\frac{ $")
        with (tmp_path / "out").open("w", encoding="utf-8") as file:
            Console(file=file, force_terminal=False, width=200).print(terminal.summary(look))
        shown = (tmp_path / "out").read_text(encoding="utf-8")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "bold" in shown, "rich markup is shown as text too"


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_picture_does_not_parse_tokens_as_formulas(hostile, tmp_path):
    with headscope.load() as embedded:
        embedded.look("$x$ $\\frac{$ $$ \\undefined").plot("0.0").save(tmp_path / "a.png")
    hostile.look(TEXT).plot("0.0").save(tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"
