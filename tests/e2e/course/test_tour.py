"""As a student: through the six stops to a switched-off head, by keyboard alone and by touch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

import headscope
from headscope.app.pages.microscope import Session
from headscope.scope import Scope
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import PATIENCE, served, until
from tests.e2e.reading import per_cent

Visit = Callable[[str], Page]
FOCUSED = """() => {
  const at = document.activeElement;
  return at.getAttribute("aria-label") || at.textContent.trim() || at.tagName;
}"""


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}{fragment}")
        return page

    return open_at


@pytest.fixture
def touched(browser: Browser, address: str) -> Iterator[Page]:
    """A phone of 390 pixels."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def strongest_induction(scope: Scope) -> list[str]:
    found = [finding for finding in scope.heads().findings if finding.role == "induction"]
    return [str(one.head) for one in sorted(found, key=lambda one: -one.evidence[0].score)][:3]


def stop(page: Page, number: int, done: bool) -> None:
    """The stop's page has taken the place of the one before."""
    here = f"[data-stop='{number}'][data-open='true'][data-done='{str(done).lower()}']"
    expect(page.locator(here)).to_be_visible()


def tab_to(page: Page, name: str, back: bool = False) -> None:
    """Press Tab until the focus is on what is called so."""
    wanted = re.compile(name)
    for _ in range(120):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if wanted.search(str(page.evaluate(FOCUSED))):
            return
    raise AssertionError(f"Tab never came to {name!r}")


def go_on(page: Page, name: str = "^Next$") -> None:
    tab_to(page, name, back=True)
    page.keyboard.press("Enter")


def test_from_the_first_page_to_a_switched_off_head_by_keyboard_alone(visit: Visit, scope: Scope) -> None:
    page = visit("")
    tab_to(page, "^Share of animal")
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    tab_to(page, "^Share of tired")
    for _ in range(8):
        page.keyboard.press("ArrowDown")
    tab_to(page, "^Give it a second head")
    page.keyboard.press("Enter")
    expect(page.locator("[data-share='2.tired']")).to_be_visible()
    tab_to(page, "^Share of tired, head 2", back=True)
    for _ in range(11):
        page.keyboard.press("ArrowDown")
    tab_to(page, "^Begin the tour")
    page.keyboard.press("Enter")

    stop(page, 1, done=False)
    tab_to(page, "^Share of animal in head 1")
    page.keyboard.press("ArrowLeft")
    stop(page, 1, done=True)
    go_on(page)
    stop(page, 2, done=False)
    tab_to(page, "W_Q of head 1")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    stop(page, 2, done=True)
    go_on(page)
    stop(page, 3, done=False)
    tab_to(page, "^Share of tired in head 2")
    page.keyboard.press("ArrowLeft")
    stop(page, 3, done=True)
    go_on(page)
    stop(page, 4, done=False)
    tab_to(page, "^mixing$")
    page.keyboard.press("Enter")
    stop(page, 4, done=True)
    go_on(page)

    stop(page, 5, done=False)
    expect(page.locator("[data-stop]")).to_contain_text("in the grid")
    said = re.search(r"Find head (\S+) in the grid", page.locator("[data-stop]").inner_text())
    assert said
    assert said[1] in strongest_induction(scope)
    layer, head = said[1].split(".")
    tab_to(page, "^All heads, layer by head")
    for key, times in (("ArrowDown", int(layer)), ("ArrowRight", int(head))):
        for _ in range(times):
            page.keyboard.press(key)
    stop(page, 5, done=True)
    go_on(page)

    stop(page, 6, done=False)
    tab_to(page, f"^Switch {re.escape(said[1])} off")
    page.keyboard.press("Enter")
    stop(page, 6, done=True)
    text = re.search(r"text=([^&]+)", page.url)
    assert text
    look = scope.look(text[1].replace("+", " "))
    best = look.predictions()[0]
    expect(page.locator("[data-stop]")).to_contain_text(
        f"{best.token.text.strip()} falls from {per_cent(best.probability)}%"
    )
    go_on(page, "^Go on in the microscope")
    expect(page).to_have_url(re.compile(rf"#microscope\?.*off={re.escape(said[1])}"))
    expect(page.get_by_role("list", name="Edits")).to_contain_text(f"{said[1]} off")


def tap_at(slider: Locator, along: float) -> None:
    """Tap a slider at a part of its way, as soon as the page stands still."""
    drawn = slider.evaluate("(one) => one instanceof SVGElement")  # between its bar and its handle it has gaps
    if drawn:
        slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    slider.tap(position={"x": box["width"] * along, "y": box["height"] / 2}, force=drawn)


def go_on_by_touch(page: Page, number: int) -> None:
    page.get_by_role("link", name="Next").tap()
    stop(page, number, done=False)


def test_from_the_first_page_to_a_switched_off_head_by_touch_on_a_phone(touched: Page, address: str) -> None:
    page = touched
    page.goto(address)
    tap_at(page.locator("[data-share='1.animal']"), 0.8)
    expect(page.locator("[data-answer=who]")).to_have_text("the animal")
    tap_at(page.locator("[data-share='1.tired']"), 0.5)
    page.get_by_role("button", name="Give it a second head").tap()
    tap_at(page.locator("[data-share='2.tired']"), 0.9)
    expect(page.locator("[data-answer=how]")).not_to_have_text("not known")
    page.get_by_role("link", name="Begin the tour").tap()

    stop(page, 1, done=False)
    tap_at(page.get_by_role("slider", name="Share of animal in head 1"), 0.3)
    stop(page, 1, done=True)
    go_on_by_touch(page, 2)
    cell = page.get_by_role("group", name="W_Q of head 1").get_by_role("textbox").first
    cell.tap()
    cell.fill("3")
    page.locator("[data-stop]").tap()  # beside the field, so that it is left
    stop(page, 2, done=True)
    go_on_by_touch(page, 3)
    tap_at(page.get_by_role("slider", name="Share of tired in head 2"), 0.3)
    stop(page, 3, done=True)
    go_on_by_touch(page, 4)
    mixing = page.get_by_role("button", name="mixing", exact=True)
    expect(mixing).to_be_in_viewport()
    mixing.tap()
    stop(page, 4, done=True)
    go_on_by_touch(page, 5)
    go_on_by_touch(page, 6)
    page.get_by_role("button", name=re.compile("^Switch .* off$")).tap()
    stop(page, 6, done=True)
    page.get_by_role("link", name="Go on in the microscope").tap()
    expect(page.get_by_role("list", name="Edits")).to_contain_text("off")


def test_only_the_lit_region_can_be_used(visit: Visit) -> None:
    page = visit("#tour/3")
    expect(page.locator("[data-region=heads]")).to_be_visible()
    focusable = "a, button, input, select, summary, [tabindex='0']"
    loose = f"""() => [...document.querySelectorAll("main :is({focusable})")]
      .filter((one) => !one.closest("[data-region=heads]") && !one.closest("[inert]")).length"""
    assert page.evaluate(loose) == 0
    assert page.locator("[data-region=heads] [inert]").count() == 0


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_what_is_lit_begins_below_the_bar_and_is_in_sight(visit: Visit, size: tuple[int, int]) -> None:
    page = visit("#tour/1")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for number, lit in enumerate(("head-1", "scores-1", "heads", "mix", "grid", "guesses"), start=1):
        page.evaluate("number => { location.hash = `tour/${number}` }", number)
        stop(page, number, done=False)
        region = page.locator(f"[data-region={lit}]").first
        expect(region).to_be_in_viewport()
        until(page, lambda region=region: _top(region) >= _bottom(page.locator("section.line")))


def _top(region: Locator) -> float:
    box = region.bounding_box()
    return box["y"] if box else -1.0


def _bottom(bar: Locator) -> float:
    box = bar.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def test_back_returns_to_a_stop_as_it_was_left(visit: Visit) -> None:
    page = visit("#tour/1")
    stop(page, 1, done=False)
    page.get_by_role("slider", name="Share of animal in head 1").press("ArrowLeft")
    stop(page, 1, done=True)
    changed = page.locator("[data-o='1.1']").inner_text()
    page.get_by_role("link", name="Next").click()
    stop(page, 2, done=False)
    expect(
        page.get_by_role("region", name="Head 2 from the start").locator("xpath=ancestor-or-self::*[@inert]")
    ).not_to_have_count(0)
    page.get_by_role("link", name="Back").click()
    stop(page, 1, done=True)
    expect(page.locator("[data-o='1.1']")).to_have_text(changed)


def test_what_the_heads_bring_home_is_what_is_laid_end_to_end(visit: Visit) -> None:
    page = visit("#tour/3")
    page.get_by_role("slider", name="Share of tired in head 2").press("ArrowLeft")
    stop(page, 3, done=True)
    changed = page.locator("[data-o='2.1']").inner_text()
    page.get_by_role("link", name="Next").click()
    stop(page, 4, done=False)
    expect(page.locator("[data-region=mix]")).to_contain_text(re.compile(rf"o₂, number 1\s*{re.escape(changed)}\s*×"))


def test_start_the_tour_and_the_grid_count_named_heads_alike(visit: Visit, scope: Scope) -> None:
    report = scope.heads()
    named, resting = len(report.named), report.n_resting
    jobs = named - resting
    counted = f"passed a test for a role: {jobs} for something specific, {resting} only for attending to the first "
    counted += "token of random words"
    page = visit("#start")
    expect(page.get_by_text(f"{named} of them {counted}.")).to_be_visible()
    page.evaluate("location.hash = 'tour/5'")
    stop(page, 5, done=False)
    expect(page.locator("[data-stop]")).to_contain_text(f"{named} of them {counted}.")
    note = page.locator("[data-region=grid]")
    expect(note).to_contain_text(
        f"{named} of {len(list(scope.shape.heads()))} heads passed a test for a role: {jobs} for something specific, "
    )


def test_who_comes_back_lands_at_the_stop_with_what_was_changed(visit: Visit, address: str) -> None:
    page = visit("#tour/4")
    page.get_by_role("button", name="mixing", exact=True).click()
    stop(page, 4, done=True)
    page.goto("about:blank")
    page.goto(address)
    stop(page, 4, done=True)
    page.get_by_role("link", name="Leave the tour").click()
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("link", name="Go on with stop 4")).to_be_visible()
    page.get_by_role("link", name="Go on with stop 4").click()
    stop(page, 4, done=True)


def test_a_model_without_induction_heads_says_what_it_has(browser: Browser) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    with headscope.load(small_model(), word_tokenizer()) as small, served(Session(small)) as address:
        page.goto(f"{address}#tour/5")
        stop(page, 5, done=False)
        expect(page.locator("[data-stop]")).to_contain_text(
            re.compile("None has been tested for a role|None of them looks for what followed")
        )
        page.goto(f"{address}#tour/6")
        page.get_by_role("button", name=re.compile("^Switch .* off$")).click()
        stop(page, 6, done=True)
    page.close()
