"""As a student: one figure from the first question to a switched-off head, by mouse, by keyboard and by touch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

import headscope
from headscope.app.pages.microscope import Session
from headscope.lab.teach.worked_example import WorkedExample, vector, work
from headscope.scope import Scope
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import PATIENCE, fits, serious_violations, served, until
from tests.e2e.reading import per_cent

Visit = Callable[[str], Page]
STOPS = ("Ask", "Average", "Two heads", "Join", "Mix", "Many heads", "Switch one off")
HEAD_1, HEAD_2 = (".62 .19 .085 .21", ".355 .41 .12 .275")
Y = ".4875 .3 .1025 .2425 .1325 −.11 −.0175 −.0325"
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


def stop(page: Page, number: int) -> None:
    """The figure shows this stop."""
    expect(page.locator(f"[data-fork='{number}'][data-ready=true]")).to_be_visible()
    expect(page.get_by_role("link", name=f"{number} {STOPS[number - 1]}")).to_have_attribute("aria-current", "step")


def picture(page: Page) -> Locator:
    return page.locator("[data-fork] svg[role=group]")


def shows(page: Page, words: str) -> None:
    """The picture's sentence holds these numbers."""
    expect(picture(page)).to_have_attribute("aria-label", re.compile(re.escape(words)))


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what is called so."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if re.search(name, str(page.evaluate(FOCUSED))):
            return
    raise AssertionError(f"Tab never came to {name!r}")


def test_worked_numbers_of_the_figure_are_those_of_the_formula() -> None:
    worked = work(WorkedExample())
    outputs = [vector(head.z).strip("()") for head in worked.heads]
    assert outputs == [HEAD_1, HEAD_2]
    assert [round(float(number), 10) for number in worked.mixed] == [
        float(number.replace("−", "-")) for number in Y.split()
    ]


def test_figure_is_walked_by_keyboard_and_every_step_equals_the_formula(visit: Visit) -> None:
    page = visit("#tour/1")
    stop(page, 1)
    shows(page, "animal .70, road .05, because .10, was .05, tired .10")
    page.keyboard.press("ArrowRight")
    stop(page, 2)
    shows(page, HEAD_1)
    page.keyboard.press("ArrowRight")
    stop(page, 3)
    shows(page, HEAD_2)
    page.keyboard.press("ArrowRight")
    stop(page, 4)
    shows(page, f"{HEAD_1} {HEAD_2}")
    page.keyboard.press("ArrowRight")
    stop(page, 5)
    shows(page, f"y is {Y}. Number 1 gets .31 from head 1 and .1775 from head 2")
    tab_to(page, "W_O, row 1, column 1")
    page.keyboard.press("0")
    shows(page, "y is .1775 .3")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("+")
    shows(page, "y is .1965 .3")  # .19 × .1 more
    tab_to(page, "^Reset")
    page.keyboard.press("Enter")
    shows(page, f"y is {Y}")
    tab_to(page, "each head through its own rows")
    before = page.locator("[data-s~=y]").evaluate_all(BARS)
    page.keyboard.press("Enter")
    shows(page, f"y is {Y}")
    assert page.locator("[data-s~=y]").evaluate_all(BARS)[:1] == before[:1]
    page.goto(page.url.replace("tour/5", "tour/6"))
    stop(page, 6)
    shows(page, "12 heads with 64 numbers each, 768 end to end")
    page.get_by_role("button", name="32 heads, 8 K/V").press("Enter")
    shows(page, "32 heads with 128 numbers each, 4096 end to end, 8 sets of keys and values")


BARS = "all => all.filter(one => one.tagName === 'rect').map(one => one.getBoundingClientRect().x)"


def test_dragged_share_changes_y_in_the_same_frame(visit: Visit) -> None:
    page = visit("#tour/5")
    stop(page, 5)
    bar = page.get_by_role("slider", name="Share of animal, head 1")
    box = bar.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + 20
    page.mouse.move(x, y)
    page.mouse.down()
    same = page.evaluate(
        """([x, y]) => new Promise((done) => {
          const figure = document.querySelector("[data-fork] svg[role=group]");
          const numbers = () => [...figure.querySelectorAll("text[data-s=y]")].map((one) => one.textContent).join();
          const before = numbers();
          figure.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y - 20, bubbles: true }));
          requestAnimationFrame(() => done(numbers() !== before));
        })""",
        [x, y],
    )
    page.mouse.up()
    assert same
    expect(page.get_by_role("button", name="Reset")).to_be_visible()


def test_two_heads_of_many_are_chosen_for_the_colours_by_press_and_by_keyboard(visit: Visit) -> None:
    page = visit("#tour/6")
    stop(page, 6)
    first = page.get_by_role("slider", name="Head with the first colour")
    expect(first).to_have_attribute("aria-valuetext", "1")
    page.locator("[data-press='head:4']").last.click()
    expect(first).to_have_attribute("aria-valuetext", "5")
    page.get_by_role("slider", name="Head with the second colour").press("ArrowRight")
    expect(page.get_by_role("slider", name="Head with the second colour")).to_have_attribute("aria-valuetext", "3")
    parts = picture(page).locator("rect[height='22'][fill^=var]")
    fills = parts.evaluate_all("all => all.map((one) => one.getAttribute('fill'))")
    assert [fills.index("var(--h1)"), fills.index("var(--h2)")] == [4, 2], fills
    expect(page.locator("[data-symbol=head1]")).to_have_text("head5")


def test_query_is_turned_by_mouse_and_the_shares_follow(visit: Visit) -> None:
    page = visit("#tour/1")
    stop(page, 1)
    tip = page.get_by_role("slider", name="Query of it").first
    box = tip.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 60, box["y"] + 40, steps=3)
    page.mouse.up()
    shares = page.get_by_role("slider", name=re.compile("^Share of")).evaluate_all(
        "all => all.map((one) => Number(one.getAttribute('aria-valuenow')))"
    )
    assert abs(sum(shares) - 1) < 0.03
    assert max(shares) < 0.7


def test_symbols_light_their_parts_and_are_lit_by_them(visit: Visit) -> None:
    page = visit("#tour/5")
    stop(page, 5)
    symbol = page.locator("[data-symbol=head2]")
    symbol.press("Enter")
    expect(symbol).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-fork]")).to_contain_text("Another head: it keeps this colour from here on.")
    lit = picture(page).locator(".lit")
    assert lit.count() > 20
    assert all("head2" in str(one.get_attribute("data-s")) for one in lit.all())
    page.keyboard.press("Escape")
    expect(symbol).to_have_attribute("aria-pressed", "false")
    page.get_by_role("slider", name="Share of tired, head 2").hover()
    expect(page.locator("[data-symbol=softmax]")).to_have_class(re.compile("sym"))


def test_phone_walks_from_start_to_a_switched_off_head_by_touch(touched: Page, address: str) -> None:
    page = touched
    page.goto(address)
    for word, along, head in (("animal", 0.8, 1), ("tired", 0.5, 1)):
        tap_at(page.get_by_role("slider", name=f"Share of {word}, head {head}"), along)
    page.get_by_role("button", name="Give it a second head").tap()
    tap_at(page.get_by_role("slider", name="Share of tired, head 2"), 0.9)
    page.get_by_role("link", name="Begin the tour").tap()
    stop(page, 1)
    expect(page.get_by_role("button", name="Reset")).to_be_visible()  # the shares of Start are carried over
    page.get_by_role("button", name="Reset").tap()
    for number in range(2, 8):
        page.get_by_role("link", name="Next").tap()
        stop(page, number)
        fits(page, 390)
        page.set_viewport_size({"width": 390, "height": 844})
        for part in MOVED[number]:
            assert in_sight(page.locator(part).first), (number, part)
        if number == 2:
            tap_at(page.get_by_role("slider", name="Share of tired, head 1"), 0.75)
            expect(page.get_by_role("button", name="Reset")).to_be_visible()
            page.get_by_role("button", name="Reset").tap()
            shows(page, HEAD_1)
        if number == 5:
            shows(page, Y)
    page.get_by_role("switch", name=re.compile("^head ")).tap()
    expect(picture(page)).to_have_attribute("aria-label", re.compile("is off"))
    page.get_by_role("link", name="Open the microscope", exact=True).tap()
    expect(page.get_by_role("list", name="Edits")).to_contain_text("off")


MOVED = {  # what is moved at a stop, and what follows it
    2: ("[data-drag='share:0:0']", "[data-drag='share:0:4']", "svg text[data-s~=head1]:has-text('.62')"),
    3: ("[data-drag='share:1:4']", "svg text[data-s~=head2]:has-text('.275')"),
    4: ("[data-drag='share:1:4']", "svg text[data-s~=concat]:has-text('.275')"),
    5: ("[data-drag='w:0:0']", "[data-drag='w:7:7']", "svg text[data-s=y]:has-text('.4875')"),
    6: ("[role=radio]:has-text('8 K/V'), button:has-text('8 K/V')", "[data-drag='head:1']", "svg rect[data-s=y]"),
    7: ("[role=switch]", "svg text:has-text('river')", "svg text:has-text('44.6%')"),
}


def in_sight(part: Locator) -> bool:
    """Whether nothing lies over the middle of this part, and no scrolling is needed to see it."""
    return bool(
        part.evaluate(
            """one => {
              const { x, y, width, height } = one.getBoundingClientRect();
              const bar = document.querySelector(".turn").getBoundingClientRect().top;
              return scrollY === 0 && x >= 0 && x + width <= innerWidth && y >= 0 && y + height <= bar;
            }"""
        )
    )


def tap_at(slider: Locator, along: float) -> None:
    """Tap a slider at a part of its way."""
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    slider.tap(position={"x": box["width"] * along, "y": box["height"] / 2}, force=True)


def test_last_stop_measures_the_model_and_leads_on(visit: Visit, scope: Scope) -> None:
    page = visit("#tour/7")
    stop(page, 7)
    switch = page.get_by_role("switch", name=re.compile("^head "))
    head = switch.inner_text().removeprefix("head ").strip()
    shown = page.get_by_role("link", name="Open the microscope", exact=True).get_attribute("href")
    found = re.search(r"text=([^&]+)", str(shown))
    assert found
    look = scope.look(found[1].replace("+", " "))
    best = look.predictions()[0]
    shows(page, f"{best.token.text.strip()} {per_cent(best.probability)} percent")
    switch.press("Enter")
    expect(page.locator("[data-stop]")).to_contain_text(f"goes from {per_cent(best.probability)}% to")
    for name in ("The course", "Heads of a larger model"):
        expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_role("link", name="Open the microscope", exact=True).click()
    expect(page).to_have_url(re.compile(rf"#microscope\?.*off={re.escape(head)}"))


def test_numbers_are_one_press_away_and_complete(visit: Visit) -> None:
    page = visit("#tour/1")
    said = ("÷ √2", "share × value", "share × value", "output of head 2", "from head 2")
    for number, word in enumerate(said, start=1):
        page.evaluate("number => { location.hash = `tour/${number}` }", number)
        stop(page, number)
        if number == 1:
            expect(page.locator("[data-fork] table")).to_have_count(0)
            page.get_by_role("button", name="Show the numbers").press("Enter")
        expect(page.locator("[data-fork]")).to_contain_text(word)
    expect(page.locator("tr").filter(has_text="y").last).to_contain_text(".4875")


def test_address_keeps_what_was_changed_and_who_comes_back_finds_it(visit: Visit, address: str) -> None:
    page = visit("#tour/2")
    stop(page, 2)
    page.get_by_role("slider", name="Share of animal, head 1").press("ArrowUp")
    until(page, lambda: "e=" in page.url)
    changed = picture(page).get_attribute("aria-label")
    page.goto("about:blank")
    page.goto(address)
    stop(page, 2)
    expect(picture(page)).to_have_attribute("aria-label", str(changed))
    page.get_by_role("link", name="Leave the tour").click()
    page.goto("about:blank")
    page.goto(address)
    page.get_by_role("link", name="Go on with stop 2").click()
    stop(page, 2)


def test_stops_fit_their_width_and_have_no_serious_axe_findings(visit: Visit) -> None:
    page = visit("#tour/1")
    for number in range(1, 8):
        page.evaluate("number => { location.hash = `tour/${number}` }", number)
        stop(page, number)
        for width in (1920, 1440, 1024, 390):
            fits(page, width)
        assert serious_violations(page) == []
    loaded = page.evaluate("[...document.fonts].filter(font => font.status === 'loaded').map(font => font.family)")
    assert any("STIX Two Math" in family for family in loaded)


def test_figure_stands_in_another_page_without_a_bar(visit: Visit) -> None:
    page = visit("#fork/4")
    expect(page.locator("[data-fork='4'][data-ready=true]")).to_be_visible()
    expect(page.get_by_role("banner")).to_have_count(0)
    expect(page.get_by_role("link", name="Leave the tour")).to_have_count(0)


def test_model_without_induction_heads_shows_what_it_has(browser: Browser) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    with headscope.load(small_model(), word_tokenizer()) as small, served(Session(small)) as address:
        page.goto(f"{address}#tour/7")
        stop(page, 7)
        page.get_by_role("switch", name=re.compile("^head ")).click()
        expect(page.locator("[data-stop]")).to_contain_text("Without it,")
    page.close()
