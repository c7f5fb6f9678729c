"""A first visit: one head's shares are moved, a second head is given, and the page remembers where a student was."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.e2e.conftest import fits, serious_violations

Visit = Callable[..., Page]


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str = "", query: str = "") -> Page:
        page = context.new_page()
        page.goto(f"{address}{query}{fragment}")
        return page

    return open_at


def share(page: Page, word: str, head: int = 1) -> Locator:
    return page.get_by_role("slider", name=f"Share of {word}, head {head}")


def says(page: Page, words: str) -> None:
    expect(page.locator("[data-voice]")).to_contain_text(words)


def to(slider: Locator, value: float) -> None:
    """Move a focused slider by its keys."""
    slider.focus()
    for _ in range(40):
        now = float(slider.get_attribute("aria-valuenow") or 0)
        if abs(now - value) < 0.03:
            return
        slider.press("ArrowDown" if now < value else "ArrowUp")
    raise AssertionError(f"the slider stayed at {now}")


@pytest.mark.quick
def test_a_first_visit_needs_no_model_and_ends_with_two_heads(context: BrowserContext, address: str) -> None:
    page = context.new_page()
    page.route("**/api/**", _held)
    page.goto(address)
    expect(page).to_have_url(re.compile("#start$"))
    expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
    says(page, "Is that what it means?")
    to(share(page, "because"), 0.55)
    says(page, "because links the two halves of the sentence")
    to(share(page, "animal"), 0.7)
    says(page, "Yes, the animal.")
    expect(page.locator("[data-answer=who]")).to_have_text("the animal")
    expect(page.locator("[data-answer=how]")).to_have_text("not known")
    to(share(page, "tired"), 0.45)
    says(page, "A bit of each, and it lands near road again")
    expect(page.locator("[data-answer=who]")).to_have_text("not known")
    page.get_by_role("button", name="Give it a second head").press("Enter")
    says(page, "Head 1 stays with animal.")
    to(share(page, "tired", head=2), 0.8)
    says(page, "Two heads, two points")
    for answer in ("who", "how"):
        expect(page.locator(f"[data-answer={answer}]")).not_to_have_text("not known")
    expect(page.get_by_role("link", name="Begin the tour")).to_have_attribute("href", "#tour/1")


def _held(route: Route) -> None:
    """A model that never answers: the request stays open."""


def test_shares_add_up_to_one_as_printed(visit: Visit) -> None:
    page = visit()
    for word, value in (("animal", 0.35), ("road", 0.05), ("tired", 0.9)):
        to(share(page, word), value)
        numbers = page.get_by_role("slider").evaluate_all("all => all.map(one => Number(one.ariaValueNow))")
        assert sum(round(100 * number) for number in numbers) == 100


def test_a_bar_is_pulled_with_the_mouse(visit: Visit) -> None:
    page = visit()
    box = share(page, "animal").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 15)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 15 + 0.6 * 132, steps=4)
    page.mouse.up()
    says(page, "Yes, the animal.")


def test_who_comes_back_finds_the_shares_and_who_chose_the_microscope_lands_there(visit: Visit, address: str) -> None:
    page = visit()
    to(share(page, "animal"), 0.7)
    page.goto("about:blank")
    page.goto(address)
    says(page, "Yes, the animal.")
    page.get_by_role("link", name="I know attention: open the microscope").click()
    expect(page.get_by_role("application", name="Pattern of head")).to_be_visible()
    page.goto("about:blank")
    page.goto(address)
    expect(page).to_have_url(re.compile("#microscope"))
    page.get_by_role("link", name="Start", exact=True).click()
    says(page, "Yes, the animal.")


def test_the_skip_link_leads_to_the_page(visit: Visit) -> None:
    for fragment in ("#start", "#microscope", "#tour/1"):
        page = visit(fragment)
        expect(page.locator("main.opening")).to_have_count(0)
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the page")
        expect(skip).to_be_focused()
        assert (skip.bounding_box() or {"y": -1})["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.tagName") == "MAIN"
        page.close()


SMALLEST = """() => [...document.querySelectorAll("body *")].flatMap((element) => {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const box = element.getBoundingClientRect();
  if (!own || !box.width || !box.height || getComputedStyle(element).visibility === "hidden") return [];
  const svg = element.closest("svg");
  const scale = svg && svg.viewBox.baseVal && svg.viewBox.baseVal.width
    ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  const size = parseFloat(getComputedStyle(element).fontSize) * scale;
  return size < 9.99 ? [`${element.tagName} ${size} ${element.textContent.trim().slice(0, 30)}`] : [];
})"""


@pytest.mark.parametrize("fragment", ["#start", "#tour/1", "#microscope", "#four-heads", "#by-hand", "#film", "#cards"])
def test_no_text_is_smaller_than_ten_pixels(visit: Visit, fragment: str) -> None:
    page = visit(fragment)
    expect(page.locator("main h1, main h2").first).to_be_attached()
    for width in (1440, 390):
        fits(page, width)
        assert page.evaluate(SMALLEST) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["#start", "#tour/5"])
def test_no_serious_violation_of_accessibility(visit: Visit, fragment: str, theme: str) -> None:
    page = visit(fragment, query=f"?theme={theme}")
    expect(page.locator("[data-fork][data-ready=true]")).to_be_visible()
    assert serious_violations(page) == []


def test_start_fits_every_width(visit: Visit) -> None:
    page = visit()
    for width in (320, 390, 761, 1000, 1440, 2560):
        fits(page, width)


def test_headings_do_not_skip_a_level(visit: Visit) -> None:
    page = visit()
    expect(page.locator("h1")).to_be_visible()
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
