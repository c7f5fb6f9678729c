"""The page in German: chosen by a switch and remembered, fitting every width, as accessible as in English."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import fits, serious_violations

PAGES = [
    "#start", "#tour/1", "#tour/5", "#microscope", "#four-heads", "#by-hand", "#one-or-many", "#film", "#cards",
    "#census", "#worksheet", *(f"#learn?lesson={number}" for number in (1, 2, 7, 13)),
]  # fmt: skip
Visit = Callable[[str], Page]


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}?lang=de{fragment}")
        expect(page.locator("main.opening")).to_have_count(0)
        expect(page.locator("main :is(h1, h2)").first).to_be_attached()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        return page

    return open_at


def test_the_language_is_switched_and_remembered(context: BrowserContext, address: str) -> None:
    page = context.new_page()
    page.goto(f"{address}#learn?lesson=9")
    expect(page.get_by_role("heading", level=1)).to_have_text("From distribution to token")
    page.get_by_label("Language").select_option("de")
    expect(page.get_by_role("heading", level=1)).to_have_text("Von der Verteilung zum Token")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page).to_have_url(re.compile("lesson=9"))
    question = page.locator("[data-question='1']")
    question.get_by_role("textbox").fill("viel")
    question.get_by_role("textbox").press("Enter")
    expect(question.get_by_role("status")).to_contain_text("lässt sich nicht als Zahl lesen")
    question.get_by_role("textbox").fill("2,72")
    question.get_by_role("textbox").press("Enter")
    expect(question.get_by_role("status")).to_contain_text("Was wird aus einer Differenz von 1")
    page.goto("about:blank")
    page.goto(f"{address}#start")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Was bedeutet")
    page.goto(f"{address}?lang=en#start")  # an address that names a language is read in it
    expect(page.get_by_role("heading", level=1)).to_contain_text("What does")
    page.get_by_label("Language").select_option("de")
    expect(page).to_have_url(re.compile("lang=de"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("Was bedeutet")


def test_numbers_have_a_comma_in_sentences_and_figures_and_a_point_in_code(visit: Visit) -> None:
    page = visit("#learn?lesson=0")
    expect(page.locator("p [data-number=share]").first).to_have_text(re.compile(r"^0,\d\d$"))
    expect(page.get_by_role("radiogroup").get_by_role("radio").first).to_contain_text(re.compile(r"(?<!\d),\d\d"))
    assert "np.array([2.0, 0.6])" in page.get_by_label("Code, den du").input_value()
    expect(page.locator("[data-output]")).to_contain_text("nimmt heim [0.64, 0.25]")
    page.goto(page.url.replace("lesson=0", "lesson=4"))
    expect(page.locator("[data-number=best_head]").first).to_have_text(re.compile(r"^\d+\.\d+$"))  # the name of a head


@pytest.mark.parametrize("fragment", PAGES)
def test_german_words_fit(visit: Visit, fragment: str) -> None:
    page = visit(fragment)
    for width in (1440, 720, 390):  # 720: what is left of 1440 with text of twice the size
        fits(page, width)


@pytest.mark.parametrize("fragment", ["#start", "#microscope", "#by-hand", "#learn?lesson=1"])
def test_no_serious_violation_of_accessibility_in_german(visit: Visit, fragment: str) -> None:
    page = visit(fragment)
    assert serious_violations(page) == []
