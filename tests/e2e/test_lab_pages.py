"""The lab's pages under a real hand: paint and retrain, drag a share, invent two heads, run a contest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from headscope.lab.teach.one_or_many import stored_results
from headscope.lab.teach.puzzle import named
from headscope.lab.teach.worked_example import WorkedExample, number, work
from tests.e2e.conftest import fits, serious_violations

READY = {
    "four-heads": "[data-hit='3']:not(:text('–'))",
    "by-hand": "[data-o='1.1']",
    "one-or-many": "[data-arm='2 heads'] >> nth=0",
    "puzzles": "main ol",
}
Show = Callable[..., Page]


@pytest.fixture
def show(context: BrowserContext, address: str) -> Show:
    """Open a page of the lab and wait until it stands."""

    def open_at(fragment: str, query: str = "") -> Page:
        page = context.new_page()
        page.goto(f"{address}{query}#{fragment}")
        expect(page.locator(READY[fragment.split("?")[0]])).to_be_visible()
        return page

    return open_at


def trained(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="Training")).to_have_count(0)
    expect(page.get_by_role("button", name="Open these heads")).to_be_enabled()


def hit(page: Page, head: int) -> float:
    return float(page.locator(f"[data-hit='{head}']").inner_text())


def test_four_heads_reach_their_targets_and_lead_to_the_fork(show: Show):
    page = show("four-heads")
    trained(page)
    for head in range(4):
        assert hit(page, head) >= 0.9
    page.get_by_role("link", name="See both steps with numbers").click()
    page.wait_for_url(re.compile("#fork/4"))


def test_a_painted_cell_is_learned_at_once_by_mouse_and_by_keyboard(show: Show):
    page = show("four-heads")
    trained(page)
    page.get_by_role("button", name="Paint").click()
    pattern = page.get_by_role("application", name="Pronoun to antecedent")
    box = pattern.bounding_box()
    assert box
    cell = box["width"] / 11
    pattern.click(position={"x": 6.5 * cell, "y": 10.5 * cell})  # late should read road
    trained(page)
    assert hit(page, 2) >= 0.9
    page.get_by_role("button", name="Look").click()
    page.get_by_role("listbox", name="Words").get_by_role("option", name="late").click()
    expect(pattern).to_have_attribute("aria-label", re.compile("late attends to road"))
    page.get_by_role("button", name="Paint").click()
    pattern.focus()
    for key in ["ArrowUp"] * 10 + ["ArrowLeft"] * 10 + ["ArrowDown", "Space"]:
        pattern.press(key)
    trained(page)
    expect(pattern).to_have_attribute("aria-label", re.compile("tired to The: painted"))
    assert "1%3E0+8%3E2+10%3E6" in page.url
    page.reload()
    expect(page.locator("[data-hit='2']")).not_to_have_text("–")
    expect(page.get_by_role("listbox", name="Words").get_by_role("option", selected=True)).to_have_text("late")


def test_a_painted_cell_is_dragged_or_keyed_to_a_share_and_the_head_reaches_it(show: Show):
    page = show("four-heads?v=1&w=10")  # late
    trained(page)
    page.get_by_role("button", name="Paint").click()
    pattern = page.get_by_role("application", name="Pronoun to antecedent")
    box = pattern.bounding_box()
    assert box
    cell = box["width"] / 11
    for column in (2, 6):  # late should attend to horse and road
        pattern.click(position={"x": (column + 0.5) * cell, "y": 10.5 * cell})
    told = page.locator("[data-wanted='2']")
    expect(told).to_contain_text("late should attend to horse .50 + road .50 = 1")
    page.mouse.move(box["x"] + 6.5 * cell, box["y"] + 10.5 * cell)
    page.mouse.down()
    page.mouse.move(box["x"] + 6.5 * cell, box["y"] + 10.5 * cell - 24, steps=4)
    expect(told).to_contain_text("late should attend to horse .20 + road .80 = 1")
    page.mouse.up()
    page.mouse.move(0, 0)
    trained(page)
    for shares in ((0.2, 0.8), (0.3, 0.7)):  # dragged, then with two keys less of it
        reached = re.search(r"attends to (\S+) \+ (\S+)", told.inner_text())
        assert reached
        assert [float(share.rstrip(".,")) for share in reached.groups()] == pytest.approx(shares, abs=0.02)
        for key in ("-", "Shift+ArrowDown"):
            pattern.press(key)
            trained(page)
    expect(pattern).to_have_attribute("aria-label", re.compile("late to road: painted, .60 of its row"))
    page.reload()
    expect(told).to_contain_text("late should attend to horse .40 + road .60 = 1")
    page.get_by_role("button", name="Arrows of head 3 as a list").click()
    written = page.get_by_role("textbox", name="Arrows of head 3")
    expect(written).to_have_value(re.compile("late > horse 0.4, late > road 0.6"))


def test_shares_that_do_not_add_up_to_one_are_refused_and_the_last_heads_stay(show: Show):
    page = show("four-heads")
    trained(page)
    page.get_by_role("button", name="Arrows of head 3 as a list").click()
    line = page.get_by_role("textbox", name="Arrows of head 3")
    line.fill("it > horse .8, it > road .4")
    line.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("antecedent: the row of 'it' (8) adds up to 1.2")
    expect(page.locator("[data-wanted='2']")).to_contain_text("it should attend to horse 1; attends to")
    line.fill("it > horse 80%, it > road")
    line.press("Enter")
    expect(page.locator("[data-wanted='2']")).to_contain_text(
        "it should attend to horse .80 + road .20 = 1; attends to ."
    )
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_sentence_that_cannot_be_used_leaves_the_last_picture(show: Show):
    page = show("four-heads")
    trained(page)
    page.get_by_role("button", name="Edit sentence").click()
    line = page.get_by_role("textbox", name="Sentence")
    line.fill("alone")
    line.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(
        "The sentence has one word, 'alone'; attention needs at least two"
    )
    expect(page.get_by_role("listbox", name="Words")).to_contain_text("horse")
    page.get_by_role("button", name="Edit sentence").click()
    line.fill("The tired donkey crossed the narrow road because it was late")
    line.press("Enter")
    trained(page)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("application", name="Pronoun to antecedent")).to_have_attribute(
        "aria-label", re.compile("it attends to donkey")
    )


def test_heads_that_are_too_small_say_which_rows_they_missed(show: Show):
    page = show("four-heads?v=1&d=1")
    expect(page.locator("[data-missed='3']")).to_contain_text("d_head=1 is too small: a head of 32 numbers reaches")


def test_crafted_heads_go_to_the_microscope(show: Show, address: str):
    page = show("four-heads")
    trained(page)
    page.get_by_role("button", name="Open these heads in the microscope").click()
    page.wait_for_url(re.compile(r"#microscope\?.*model=four-heads-"))
    name = re.search(r"model=([\w-]+)", page.url)
    assert name
    assert name[1] in page.request.get(f"{address}api/models").json()["names"]
    assert name[1] not in httpx.get(f"{address}api/models", timeout=60).json()["names"], "others do not see it"


def test_a_dragged_share_moves_every_sum_that_hangs_on_it(show: Show):
    page = show("by-hand")
    for index, value in enumerate(work().heads[0].z, start=1):
        expect(page.locator(f"[data-o='1.{index}']")).to_have_text(number(value))
    typed = page.get_by_role("textbox", name="Share of animal in head 1, typed")
    typed.fill("0.4")
    typed.press("Enter")
    first, second = WorkedExample().heads
    moved = {"animal": 0.4, "road": 0.1, "because": 0.2, "was": 0.1, "tired": 0.2}
    done = work(WorkedExample(heads=[replace(first, scorecard=moved), second]))
    for index, value in enumerate(done.heads[0].z, start=1):
        expect(page.locator(f"[data-o='1.{index}']")).to_have_text(number(value))
    page.locator("[data-o='1.1']").click()
    expect(
        page.get_by_text(f"o₁, number 1 = .4·.8 + .1·.1 + .2·.2 + .1·.1 + .2·.3 = {number(done.heads[0].z[0])}")
    ).to_be_visible()
    for index, value in enumerate(done.mixed, start=1):
        expect(page.locator(f"[data-sum='y.{index}']")).to_have_text(number(value, 4))
    page.reload()
    expect(page.locator("[data-o='1.1']")).to_have_text(number(done.heads[0].z[0]))


def test_typed_numbers_and_dragged_bars_are_one_state(show: Show):
    page = show("by-hand")
    typed = page.get_by_role("textbox", name="Share of tired in head 2, typed")
    page.get_by_role("slider", name="Share of tired, head 2").press("ArrowDown")
    expect(typed).to_have_value(".6")
    typed = page.get_by_role("textbox", name="W_O, row 1, column 1")
    typed.fill("-2")
    typed.press("Enter")
    page.locator("[data-sum='y.1']").click()
    expect(page.locator("[data-fork='5']")).to_contain_text("−1.24")
    page.get_by_role("textbox", name="Value 1 of animal, head 1").fill("0")
    page.get_by_role("textbox", name="Value 1 of animal, head 1").press("Enter")
    expect(page.locator("[data-o='1.1']")).to_have_text(".06")
    expect(page.get_by_role("textbox", name="Value 1 of animal, head 2")).to_have_value("0")
    page.reload()
    expect(page.locator("[data-o='1.1']")).to_have_text(".06")


def test_invented_heads_are_checked_with_words(show: Show):
    page = show("by-hand")
    page.get_by_text("Your turn: invent two heads").click()
    for head, word in ((1, "horse"), (2, "horse")):
        typed = page.get_by_role("textbox", name=f"Your head {head}: {word}, typed")
        typed.fill("1")
        typed.press("Enter")
    page.get_by_role("button", name="Check my heads").click()
    region = page.get_by_role("region", name="Exercise: invent two heads")
    expect(region).to_contain_text("Both heads read horse most: the second tells you nothing new.")
    for word, share in (("horse", ".2"), ("tired", ".8")):
        page.get_by_role("textbox", name=f"Your head 2: {word}, typed").fill(share)
        page.get_by_role("textbox", name=f"Your head 2: {word}, typed").press("Enter")
    page.get_by_role("button", name="Check my heads").click()
    expect(region.locator("[data-checked='right']")).to_be_visible()


def test_a_head_by_hand_goes_to_the_microscope(show: Show):
    page = show("by-hand")
    page.get_by_text("Whole heads by hand").click()
    page.get_by_role("button", name="Open in the microscope: induction").click()
    page.wait_for_url(re.compile(r"#microscope\?.*model=by-hand-induction"))


def test_a_puzzle_is_opened_answered_and_told(show: Show):
    page = show("puzzles")
    for width in (390, 1024, 1440, 1920):
        fits(page, width)
    assert serious_violations(page) == []
    page.get_by_role("button", name="Open level 2").click()
    page.wait_for_url(re.compile("model=puzzle-2-"))
    made = named(re.findall("model=(puzzle-2-[0-9]+)", page.url)[0])
    box = page.get_by_role("region", name="What this head is")
    expect(box.get_by_role("heading", name="Puzzle, level 2")).to_be_visible()
    for head, rule in made.solution.items():
        while f"Head {head}" not in page.get_by_role("heading", name=re.compile("^Head ")).inner_text():
            page.keyboard.press("]")
        box.get_by_role("combobox").select_option(next(job for job in made.choices if job != rule))
        box.get_by_role("button", name="Say it").click()
        expect(box.get_by_role("status")).to_contain_text("it has a job, but another one")
        box.get_by_role("combobox").select_option(rule)
        box.get_by_role("button", name="Say it").click()
        expect(box).to_contain_text(f"attends to {made.choices[rule]}")
        page.get_by_role("application", name="All heads").focus()
    expect(box.get_by_role("status")).to_contain_text("That is all of them.")
    assert serious_violations(page) == []


def test_the_committed_results_are_the_picture_and_a_cut_can_be_run_here(show: Show):
    page, stored = show("one-or-many"), stored_results()
    for outcome in stored.arms[:4]:
        shown = page.locator(f"[data-arm='{outcome.arm}']").first
        assert float((shown.text_content() or "").removesuffix(" %")) == pytest.approx(100 * outcome.mean, abs=0.51)

    def shorter(route: Route) -> None:
        asked = json.loads(route.request.post_data or "{}")
        route.continue_(post_data=json.dumps(asked | {"steps": 20, "seeds": 2}))

    page.route("**/api/lab/one-or-many", lambda route: shorter(route) if route.request.post_data else route.continue_())
    page.get_by_role("button", name="8", exact=True).click()
    page.get_by_role("slider", name="Heads").fill("1")
    expect(page.locator("[data-cut]")).to_have_text("2 × 4")
    assert "width=8&heads=2" in page.url
    expect(page.get_by_role("application", name="A width of 8 cut into heads").locator("circle")).to_have_count(4)
    page.get_by_role("button", name="Run 2 × 4 here").click()
    expect(page.get_by_text("open: run here")).to_be_visible()
    expect(page.get_by_role("button", name="Run 2 × 4 here")).to_be_enabled()
    page.get_by_role("button", name="Run it here").first.click()
    expect(page.locator("[data-here='one head, bigger FFN']")).to_be_visible()


@pytest.mark.parametrize(
    ("fragment", "what", "said"),
    [
        ("four-heads", "Pronoun to antecedent, its pattern", "horse"),
        ("by-hand", "the worked example", "animal"),
        ("one-or-many", "Two keys, two values", "one wide head"),
        ("one-or-many", "the partition", "100%"),
    ],
)
def test_every_picture_can_be_saved(show: Show, fragment: str, what: str, said: str):
    page = show(fragment)
    menu = page.get_by_label(f"Save {what}", exact=True)
    expect(menu).to_be_enabled()
    for kind in ("svg", "csv", "html", "png"):
        with page.expect_download() as saving:
            menu.select_option(kind)
        made = Path(saving.value.path()).read_bytes()
        assert saving.value.suggested_filename.endswith(f".{kind}")
        if kind == "png":
            assert made.startswith(b"\x89PNG")
        if kind == "html":
            assert b"<table>" in made
        if kind == "svg":
            assert said in made.decode()


@pytest.mark.parametrize("fragment", READY)
def test_every_page_fits_every_width(show: Show, fragment: str):
    page = show(fragment)
    for width in (360, 1000, 2560):
        fits(page, width)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("fragment", READY)
def test_no_serious_violation_of_accessibility(show: Show, fragment: str, theme: str):
    page = show(fragment, query=f"?theme={theme}")
    expect(page.get_by_role("status").filter(has_text="Training")).to_have_count(0)
    assert serious_violations(page) == []
