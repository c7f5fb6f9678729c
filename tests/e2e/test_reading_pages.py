"""What a person does on the film, card, lesson and census pages, and that the numbers they read are the library's."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.heads.film import Film
from headscope.heads.questions.standard_questions import STANDARD
from headscope.lab.cards.card import card
from headscope.lab.cards.card_text import size
from headscope.lab.teach.lessons import lesson
from headscope.scan.census import Census
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scope import EMBEDDED, Scope
from tests.e2e.conftest import fits, serious_violations, served

NOVEL = (
    "It was late when the carriage stopped before the old house, and nobody came to the door. The carriage waited, the "
    "horses stamped, and at last the old door opened. A lamp was carried out, and behind the lamp came the old man."
)
LETTER = (
    "My dear sister, the rain has not stopped since Monday. The rain is on the roof, the rain is in the garden, and on "
    "Monday next, if it has not stopped, we shall come home. Write to me, my dear sister, and write to me soon."
)
READY = {
    "film": "[data-score=induction]",
    "cards": "[data-fact=total]",
    "real": "[data-card=successor]",
    "learn": "[data-question='2']",
    "census": "[data-example] >> nth=0",
}
Show = Callable[..., Page]


@pytest.fixture(scope="module")
def folders(scope: Scope, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for name, text in (("novel", NOVEL), ("letter", LETTER)):
        out = tmp_path_factory.mktemp("census") / name
        scope.scan([text, text[40:], text[80:]], out=out, options=ScanOptions(context=64, replicates=40, threads=1))
        made.append(out)
    return made


@pytest.fixture(scope="module")
def address(session: Session, folders: list[Path]) -> Iterator[str]:
    with served(session, censuses=Censuses(folders)) as opened:
        yield opened


@pytest.fixture
def show(context: BrowserContext, address: str) -> Show:
    """Open a page and wait until it stands."""

    def open_at(fragment: str, query: str = "") -> Page:
        page = context.new_page()
        page.goto(f"{address}{query}#{fragment}")
        expect(page.locator(READY[fragment.split("?")[0]])).to_be_visible()
        return page

    return open_at


def short(value: float, digits: int = 2) -> str:
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + (text[1:] if text.startswith("0.") else text)


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name)


@pytest.mark.quick
def test_the_film_is_scrubbed_by_keyboard_and_says_each_heads_scores(show: Show):
    page, film = show("film?head=5.6&step=680"), Film.load(EMBEDDED / "film.safetensors")
    for key, moment in (("End", -1), ("ArrowLeft", -2), ("Home", 0)):
        slider(page, "Moment of training").press(key)
        expect(page.locator("[data-step]")).to_have_text(f"{film.points[moment].step:,}")
        scores = film.repeats[moment][film.heads.index("5.6")]
        for question, score in zip(STANDARD, scores.tolist(), strict=True):
            expect(page.locator(f"[data-score={question}]")).to_have_text(short(score))


def test_another_head_is_chosen_and_the_address_brings_it_back(show: Show):
    page, film = show("film?head=4.2&step=680"), Film.load(EMBEDDED / "film.safetensors")
    page.get_by_role("application", name="All heads").press("ArrowRight")
    expect(page.get_by_role("heading", name="Head 4.3 now")).to_be_visible()
    slider(page, "Moment of training").press("End")
    expect(page.locator("[data-score=previous]")).to_have_text(
        short(float(film.repeats[-1][film.heads.index("4.3")][0]))
    )
    page.goto("about:blank")
    page.go_back()
    expect(page.get_by_role("heading", name="Head 4.3 now")).to_be_visible()
    expect(page.locator("[data-step]")).to_have_text("13,600")


def test_the_film_moves_by_frames_where_motion_is_unwanted(show: Show):
    page, film = show("film?step=733"), Film.load(EMBEDDED / "film.safetensors")
    page.get_by_role("button", name="Next frame").click()
    after = film.pattern_steps[film.pattern_steps.index(680) + 1]
    first = next(point.step for point in film.points if point.step >= after)
    expect(page.locator("[data-step]")).to_have_text(f"{first:,}")


def test_the_film_plays_and_pauses(browser: Browser, address: str):
    page = browser.new_page(reduced_motion="no-preference")
    page.goto(f"{address}#film?step=0")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-step]")).not_to_have_text("0")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.close()


def test_a_curve_is_saved_with_every_heads_numbers(show: Show, tmp_path: Path):
    page, film = show("film"), Film.load(EMBEDDED / "film.safetensors")
    for kind in ("csv", "svg", "png", "html"):
        with page.expect_download() as saved:
            page.get_by_label("Save the heads' curves").select_option(kind)
        saved.value.save_as(tmp_path / f"curves.{kind}")
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(film.points)
    assert float(rows[-1]["5.6 induction"]) == pytest.approx(film.best("induction")[-1])
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").count("<path") == len(film.heads)
    assert "<table>" in (tmp_path / "curves.html").read_text(encoding="utf-8")


def test_a_card_is_picked_and_its_heads_slid(show: Show):
    page = show("cards?card=llama-3.1-8b")
    page.get_by_label("Model", exact=True).select_option("phi-4-mini")
    own = card("phi-4-mini")
    expect(page.locator("[data-fact=heads]")).to_have_text("24")
    expect(page.locator("[data-fact=kv]")).to_have_text("8")
    expect(page.locator("[data-fact=token]")).to_have_text(size(own.kv_bytes(1)))
    slider(page, "KV heads").press("End")
    expect(page.locator("[data-fact=kv]")).to_have_text("1")
    expect(page.locator("[data-cache=own]")).to_have_text(size(own.change(n_kv_heads=1).kv_bytes(own.length)))
    slider(page, "Context length").press("Home")
    page.get_by_role("button", name="fp8").click()
    expect(page.locator("[data-cache=own]")).to_have_text(size(own.change(n_kv_heads=1).kv_bytes(1024, "fp8")))
    page.reload()
    expect(page.locator("[data-fact=kv]")).to_have_text("1")
    expect(page.locator("[data-cache=own]")).to_have_text(size(own.change(n_kv_heads=1).kv_bytes(1024, "fp8")))


def test_a_config_is_pasted_and_a_bad_one_leaves_the_last_card(show: Show):
    page = show("cards")
    page.get_by_role("button", name="config.json").click()
    box = page.get_by_label("config.json", exact=True).last
    box.fill('{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "x": "<b>"}')
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("[data-fact=heads]")).to_have_text("4")
    expect(page.locator("[data-config]")).to_contain_text('"<b>"')
    box.fill('{"model_type": "mamba"}')
    page.get_by_role("button", name="Read it").click()
    expect(page.get_by_role("alert")).to_contain_text("names no attention heads")
    expect(page.locator("[data-fact=heads]")).to_have_text("4")


def test_sizes_are_typed(show: Show):
    page = show("cards")
    page.get_by_role("button", name="sizes").click()
    page.get_by_label("n_kv_heads").fill("4")
    page.get_by_label("n_kv_heads").press("Tab")
    expect(page.locator("[data-fact=kv]")).to_have_text("4")
    expect(page.locator("[data-fact=heads]")).to_have_text("12")


def test_a_lesson_is_read_answered_and_remembered(show: Show):
    page, own = show("learn?lesson=1"), lesson(1)
    expect(page.locator("[data-output]")).to_have_text(own.output)
    first = page.locator("[data-question='1']")
    first.get_by_role("textbox").fill("many")
    first.get_by_role("button", name="Answer").click()
    expect(first.get_by_role("status")).to_contain_text("Could not read 'many' as a number")
    first.get_by_role("textbox").fill("0.3")
    first.get_by_role("button", name="Answer").click()
    expect(first.get_by_role("status")).to_contain_text("Right.")
    page.reload()
    expect(page.get_by_label(f"1 of {len(own.questions)} questions right")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", name="Split, attend, concatenate, mix")).to_be_visible()
    assert "lesson=2" in page.url


def test_every_lesson_leads_to_a_page(show: Show):
    page = show("learn?lesson=7")
    page.get_by_role("link", name="Llama-2-70B").click()
    expect(page.locator("[data-fact=heads]")).to_have_text("64")
    expect(page.locator("[data-fact=kv]")).to_have_text("8")


def test_the_census_ranks_its_heads_and_shows_their_examples(show: Show, folders: list[Path]):
    page, own = show("census?question=previous"), Census.load(folders[0])
    best = own.top("previous", 2)
    rows = page.get_by_role("rowheader")
    expect(rows.nth(0)).to_have_text(str(best[0].head))
    expect(rows.nth(1)).to_have_text(str(best[1].head))
    expect(page.locator("tbody tr").first.locator(".value")).to_have_text(short(best[0].mean, 3))
    rows.nth(1).get_by_role("button").click()
    stored = [row for row in own.examples().to_pylist() if row["head"] == str(best[1].head)]
    shown = [row for row in stored if row["question"] == "previous"]
    expect(page.locator("[data-example]")).to_have_count(len(shown))
    expect(page.locator("[data-example] b").first).to_have_text(shown[0]["tokens"][shown[0]["at"]].strip())
    page.get_by_role("application", name="Model map").press("ArrowLeft")
    page.get_by_label("Question").select_option("entropy")
    expect(page.locator("tbody tr").first.locator(".value")).to_have_text(short(own.top("entropy", 1)[0].mean))


def test_all_questions_stand_in_one_table_and_sort(show: Show, folders: list[Path]):
    page, own = show("census"), Census.load(folders[0])
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_role("button", name="First token").click()
    expect(page.get_by_role("rowheader").first).to_have_text(str(own.top("first", 1)[0].head))
    page.get_by_role("button", name="First token").click()
    expect(page.get_by_role("rowheader").first).not_to_have_text(str(own.top("first", 1)[0].head))
    page.reload()
    expect(page.get_by_role("columnheader", name="First token ↑")).to_be_visible()


def test_two_censuses_are_compared(show: Show, folders: list[Path]):
    page = show("census?question=induction")
    page.get_by_label("Compared with").select_option("2")
    changes = compare(*folders).of("induction")
    expect(page.get_by_role("rowheader").first).to_have_text(str(changes[0].head))
    clear = sum(change.clear for change in changes)
    expect(page.locator("[data-moved]")).to_contain_text(f"{clear} of {len(changes)} changed clearly")
    assert "against=2" in page.url


def test_without_a_census_the_page_shows_the_embedded_models(session: Session, browser: Browser):
    with served(session) as bare:
        page = browser.new_page()
        page.goto(f"{bare}#census")
        expect(page.get_by_role("heading", name="embedded on stories, a licence and code")).to_be_visible()
        page.close()


@pytest.mark.parametrize("fragment", ["film", "cards", "learn?lesson=4", "census", "census?against=2"])
def test_pages_are_accessible_and_fit_every_width(show: Show, fragment: str):
    page = show(fragment, query="?theme=dark" if fragment in ("cards", "census") else "")
    for width in (360, 1440, 2560):
        fits(page, width)
    page.set_viewport_size({"width": 1440, "height": 900})
    assert serious_violations(page) == []


def test_real_heads_are_seen_lost_and_compared(show: Show) -> None:
    """A card, its head switched off, another head by the map, the wall, and no serious violation on a phone either."""
    page = show("real")
    expect(page.locator("[data-card]")).to_have_count(15)
    page.locator("[data-card=successor]").click()
    expect(page).to_have_url(re.compile(r"#real\?v=1&card=successor$"))
    expect(page.locator("h1")).to_have_text("23.3 Rules out what was listed")
    expect(page.locator("main")).to_contain_text("Without it, May falls from 56% to 7%.")
    page.get_by_role("switch").click()
    expect(page.locator("main")).to_contain_text("its output is zero")
    page.get_by_role("application", name="All heads").press("ArrowRight")
    expect(page.locator("h1")).to_have_text("23.4 A head for facts")  # elsewhere it has a card
    expect(page.locator("main")).to_contain_text("It is shown in another sentence")
    expect(page).to_have_url(re.compile(r"card=successor&head=23\.4$"))
    page.get_by_label("this head on").select_option("capital")
    expect(page.locator("main")).to_contain_text("Without it, Berlin falls from 80% to 15%.")
    assert not serious_violations(page)
    page.keyboard.press("Escape")
    expect(page.locator("[data-card]")).to_have_count(15)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("[data-card=mover]").click()
    expect(page.get_by_role("button", name="Next")).to_be_visible()
    fits(page, 390)
    assert not serious_violations(page)
