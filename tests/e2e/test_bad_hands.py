"""Bad input and bad luck: a sentence on the page, and the last good picture still there."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from headscope.app.pages.microscope import Session
from headscope.scope import Scope
from tests.e2e.conftest import served, until
from tests.e2e.reading import TEXT, Open, at, tokens

PASTE = "(text) => { const box = document.querySelector('#sentence'); box.value = text.repeat(%d); %s }"
TYPED = "box.dispatchEvent(new Event('input', { bubbles: true }));"


def test_ten_megabytes_are_refused_with_their_number_and_the_picture_stays(open_page: Open):
    page = open_page(at(head="0.0"))
    page.evaluate(PASTE % (10 * 2**20 // 8, TYPED), "old lamp")
    expect(page.get_by_role("alert")).to_contain_text("A request holds at most 8 MiB; send a shorter text.")
    expect(page.get_by_role("application", name="Pattern of head 0.0")).to_be_visible()
    page.get_by_role("textbox", name="Sentence").fill(TEXT)
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize(
    "text", ["the \x00 old \x07 lamp \x1b[31m", "שלום עולם, مرحبا بالعالم", "🐎👩‍👩‍👧‍👦 lamp", "a\u202eb\u2066c"]
)
def test_strange_text_is_shown_or_rejected_with_a_clear_message(open_page: Open, scope: Scope, text: str):
    page = open_page(at(head="0.0"))
    page.get_by_role("textbox", name="Sentence").fill(text)
    page.get_by_role("textbox", name="Sentence").press("Enter")
    expect(tokens(page).get_by_role("option")).to_have_count(len(scope.look(text).tokens))
    expect(page.get_by_role("application", name="Pattern of head 0.0")).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1440


def test_a_server_that_stops_leaves_the_picture_and_one_that_comes_back_goes_on(browser: Browser, scope: Scope):
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    with served(Session(scope)) as address:
        page.goto(f"{address}{at(head='1.2')}")
        expect(page.locator("[data-share='all']")).to_be_visible()
    page.keyboard.press("]")
    expect(page.get_by_role("alert")).to_contain_text("The program on this machine has stopped")
    expect(page.get_by_role("application", name="Pattern of head")).to_be_visible()
    with served(Session(scope), port=urlsplit(address).port):
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("application", name="Pattern of head 1.3")).to_be_visible()
        page.keyboard.press("]")
        expect(page.get_by_role("application", name="Pattern of head 1.4")).to_be_visible()
        expect(page.locator("[data-share='1.4']")).to_be_visible()
    page.close()


def test_moving_on_while_a_text_is_read_keeps_the_new_page(open_page: Open):
    page = open_page(at(head="1.2", token=9))
    held: list[Route] = []
    let_go = False

    def hold(route: Route) -> None:
        if let_go:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/weights*", hold)
    page.get_by_role("textbox", name="Sentence").fill(f"{TEXT} stairs")
    until(page, lambda: held)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("]")
    tokens(page).get_by_role("option").nth(4).click()
    let_go = True
    for route in held:
        route.continue_()
    expect(tokens(page).get_by_role("option").last).to_contain_text("stairs")
    expect(page.get_by_role("application", name="Pattern of head 1.3")).to_be_visible()
    expect(tokens(page).get_by_role("option").nth(4)).to_have_attribute("aria-selected", "true")


def test_a_model_that_runs_out_of_memory_says_so(open_page: Open, scope: Scope, monkeypatch: pytest.MonkeyPatch):
    page = open_page(at(head="0.0"))

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(scope), "observe", full)
    page.get_by_role("textbox", name="Sentence").fill("another lamp")
    expect(page.get_by_role("alert")).to_contain_text("There is not enough memory for this; try a shorter text")
    expect(page.get_by_role("application", name="Pattern of head 0.0")).to_be_visible()
    monkeypatch.undo()
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
