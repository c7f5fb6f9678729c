"""What a student does in the lessons: changes every figure and sees the text follow, answers wrongly and rightly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from headscope.lab.teach.lessons import contents, lesson
from tests.e2e.conftest import fits, serious_violations, until

NUMBERS = [number for number, _, _ in contents()]
Open = Callable[..., Page]


@pytest.fixture
def read(context: BrowserContext, address: str) -> Open:
    def open_at(number: int) -> Page:
        page = context.new_page()
        page.goto(f"{address}#learn?lesson={number}")
        expect(page.locator("[data-question='1']")).to_be_visible()
        return page

    return open_at


def _slide(figure: Locator) -> None:
    slider = figure.get_by_role("slider").first
    before = slider.input_value()
    slider.press("ArrowLeft")
    if slider.input_value() == before:
        slider.press("ArrowRight")


def _fork(figure: Locator) -> None:
    slider = figure.locator("input[type=range], [role=slider]:not([data-drag^=head])").first
    slider.press("ArrowRight" if slider.evaluate("one => one.tagName") != "INPUT" else "ArrowLeft")


def _drop(figure: Locator) -> None:
    slider = figure.get_by_role("slider").first
    for _ in range(9):
        slider.press("ArrowLeft")


def _pick(figure: Locator) -> None:
    figure.locator("[role=radio][aria-checked=false]").first.click()


def _choose(figure: Locator) -> None:
    figure.get_by_label("noun").select_option(index=3)


def _nudge(figure: Locator) -> None:
    figure.locator("[role=slider]").first.press("ArrowUp")


CHANGES: dict[str, Callable[[Locator], None]] = {
    "one-head": _pick,
    "one-head-vector": _nudge,
    "one-head-scores": _nudge,
    "one-head-average": _nudge,
    "fork": _fork,
    "kept": _slide,
    "bar-choice": _pick,
    "curve-slider": _slide,
    "split-heads": lambda figure: figure.get_by_role("switch").click(),
    "threshold": _drop,
    "film": lambda figure: figure.get_by_role("slider").last.press("End"),
    "partition": _slide,
    "cross": _choose,
    "sampling": _slide,
}
NO_NUMBERS = {"one-head-scale", "one-head-softmax", "one-head-triangle", "invent", "real"}


def numbers(page: Page) -> list[str]:
    return page.locator("article [data-number]").all_inner_texts()


@pytest.mark.parametrize("number", NUMBERS)
def test_every_figure_changes_numbers_of_the_text_that_began_as_computed(read: Open, number: int):
    page, own = read(number), lesson(number)
    figures = page.locator("[data-figure]")
    expect(figures).to_have_count(len(own.figures))
    page.locator("details.more").evaluate_all("all => all.forEach((one) => (one.open = true))")
    changed = 0
    for at, figure in enumerate(own.figures):
        if figure.kind in NO_NUMBERS:
            continue
        shown = figures.nth(at)
        expect(shown.locator("[role=slider], [role=radio], input, select, button").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        if changed == 0:
            live = page.locator("[data-computed]")
            assert live.all_inner_texts() == live.evaluate_all("all => all.map((each) => each.dataset.computed)")
        before = numbers(page)
        CHANGES[figure.kind](shown)
        until(page, lambda before=before: numbers(page) != before)
        changed += 1
    assert changed


@pytest.mark.parametrize("number", NUMBERS)
def test_wrong_answers_get_a_hint_then_a_reason_and_the_right_one_is_right(read: Open, number: int):
    page, own = read(number), lesson(number)
    for at, question in enumerate(own.questions, start=1):
        shown = page.locator(f"[data-question='{at}']")
        wrong = [k for k, option in enumerate(question.options) if not option.right]
        right = next(k for k, option in enumerate(question.options) if option.right)

        def answer(k: int, shown: Locator = shown, question=question) -> None:
            if question.numeric:
                shown.get_by_role("textbox").fill(question.options[k].text)
                shown.get_by_role("textbox").press("Enter")
            else:
                shown.get_by_role("group").get_by_role("button").nth(k).click()

        said = shown.get_by_role("status")
        answer(wrong[0])
        expect(said).to_have_text(re.compile(r"^\s*A hint\."))
        answer(wrong[-1])
        expect(said).to_contain_text(re.split(r"[*_`{]", question.options[wrong[-1]].says)[0].strip())
        answer(right)
        expect(said).to_have_text(re.compile(r"^\s*Right\. (?!Yes|Right)"))


def test_a_look_at_another_option_takes_no_right_answer_away(read: Open):
    page = read(0)
    question = page.locator("[data-question='1']").get_by_role("group").get_by_role("button")
    right = next(k for k, option in enumerate(lesson(0).questions[0].options) if option.right)
    dots = page.get_by_role("navigation", name="Lessons").locator("a[aria-current] .full")
    question.nth(right).click()
    expect(dots).to_have_count(1)
    question.nth(right - 1).click()
    expect(question.nth(right - 1)).to_have_attribute("aria-pressed", "true")
    expect(dots).to_have_count(1)


def test_answers_are_kept_by_the_name_of_the_lesson(read: Open):
    page = read(3)
    question = page.locator("[data-question='1']")
    right = next(at for at, option in enumerate(lesson(3).questions[0].options) if option.right)
    question.get_by_role("group").get_by_role("button").nth(right).click()
    expect(question.get_by_role("status")).to_contain_text("Right")
    kept = json.loads(str(page.evaluate("localStorage.getItem('headscope.lessons')")))
    assert [*kept] == [f"{lesson(3).name}.1"]
    page.reload()
    expect(page.locator("[data-question='1']").get_by_role("status")).to_contain_text("Right")
    page.get_by_role("button", name="Forget my answers").click()
    page.get_by_role("button", name="Keep them").click()
    page.get_by_role("button", name="Forget my answers").click()
    page.get_by_role("button", name="Forget them").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    page.get_by_role("button", name="Forget my answers").click()
    page.get_by_role("button", name="Forget them").click()
    assert page.evaluate("localStorage.getItem('headscope.lessons')") == "{}"


def test_a_printed_lesson_has_the_width_of_the_paper_and_nothing_to_press(read: Open):
    page = read(0)
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    for gone in (".skip", ".page > header", "nav[aria-label=Lessons]", "[data-code] .bar", "article > footer"):
        expect(page.locator(gone)).to_be_hidden()
    page_width, article = (page.locator(each).bounding_box()["width"] for each in (".page", "article"))
    assert article > 0.95 * page_width
    assert page.locator("html").evaluate("each => getComputedStyle(each).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_three_tenths_in_five_ways(read: Open):
    page = read(1)
    first = page.locator("[data-question='1']")
    for typed in ("0,3", "30%", "30 %", "3/10", ".3"):
        first.get_by_role("textbox").fill(".7")
        first.get_by_role("textbox").press("Enter")
        expect(first.get_by_role("status")).to_have_text(re.compile(r"^\s*(?!Right\.)\S"))  # it has been answered
        first.get_by_role("textbox").fill(typed)
        first.get_by_role("textbox").press("Enter")
        expect(first.get_by_role("status")).to_contain_text("Right.")


def test_one_number_is_dragged_in_prose_formula_figure_and_code(read: Open):
    page = read(0)
    number = page.locator("p [data-number=q1]").first
    box = number.bounding_box()
    assert box is not None
    assert number.inner_text() == "2.0"
    page.mouse.move(box["x"] + 4, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] - 36, box["y"] + 8, steps=4)
    page.mouse.up()
    expect(number).to_have_text("1.0")
    code = page.get_by_label("Code that you can change")
    assert "q = np.array([1.0, 0.6])" in code.input_value()
    share = page.locator("p [data-number=share]").first.inner_text()
    expect(page.get_by_role("radiogroup", name="Who asks").get_by_role("radio").first).to_contain_text(share)
    code.fill("print(1)")
    number.press("ArrowUp")
    assert code.input_value() == "print(1)", "edited code stays"


def test_a_touched_symbol_lights_its_numbers_until_escape(read: Open):
    page = read(0)
    assert page.locator("math").first.evaluate("each => each.namespaceURI") == "http://www.w3.org/1998/Math/MathML"
    page.locator("[data-sym=k]").first.press("Enter")
    expect(page.get_by_text("k, the keys: what each word is found by.").first).to_be_visible()
    lit = page.locator("[data-s=k].lit")
    assert lit.count() >= 8
    assert page.locator("[data-s=q].lit").count() == 0
    page.keyboard.press("Escape")
    expect(lit).to_have_count(0)


def test_hint_solution_and_back_to_one_s_own_code(read: Open):
    page = read(1)
    code = page.get_by_label("Code that you can change")
    code.fill("print('mine')")
    page.get_by_role("button", name="Hint").click()
    expect(page.locator("[data-code]")).to_contain_text("A second head has its own shares.")
    page.get_by_role("button", name="Solution").click()
    assert "np.concatenate" in code.input_value()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("[data-ran=done]")).to_contain_text("red left [1. 0. 0. 1.]")
    page.get_by_role("button", name="Back to mine").click()
    assert code.input_value() == "print('mine')"


def test_a_sum_of_an_invented_head_is_checked_on_its_own(read: Open):
    page = read(2)
    figure = page.locator("[data-figure=invent]")
    page.locator("details.step", has=figure).locator("> summary").click()
    for head, word in ((1, "horse"), (2, "tired")):
        figure.get_by_label(f"Your head {head}: {word}, typed").fill("30 %" if head == 1 else "1")
        figure.get_by_label(f"Your head {head}: {word}, typed").press("Tab")
    expect(figure.get_by_label("Your head 1: horse, typed")).to_have_value(".3")
    figure.get_by_label("Your head 1: road, typed").fill("7/10")
    figure.get_by_label("Your head 1: road, typed").press("Tab")
    figure.get_by_role("textbox", name="o1", exact=True).fill("9 9 9 9")
    figure.get_by_role("button", name="Check my heads").click()
    expect(figure.locator("[data-checked=wrong]")).to_contain_text("Number 1 is not 9. Take number 1 of every value")
    figure.get_by_role("button", name="Check my heads").click()
    expect(figure.locator("[data-checked=wrong]")).to_contain_text("= .31, not 9")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_fits_a_phone_and_is_accessible(read: Open, number: int):
    page = read(number)
    page.wait_for_load_state("networkidle")
    fits(page, 390)
    figures = "all => all.map((one) => [one.dataset.figure, one.getBoundingClientRect().height])"
    heights = page.locator("figure:visible").evaluate_all(figures)
    assert [(kind, height) for kind, height in heights if height > 844 and kind != "film"] == []  # seen whole
    if number == 0:  # the words with their shares stay in sight
        page.locator("[data-figure=one-head-triangle]").scroll_into_view_if_needed()
        expect(page.locator("[data-figure=one-head]")).to_be_in_viewport(ratio=1)
    fits(page, 1440)
    assert serious_violations(page) == []
