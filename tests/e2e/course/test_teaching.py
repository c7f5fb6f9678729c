"""What the pages teach is true of what stands on them: examples, the film, places, own sentences, values on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import headscope
from headscope.app.pages.microscope import Session
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import PATIENCE, served

Visit = Callable[[str], Page]


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}{fragment}")
        return page

    return open_at


def test_an_example_that_this_model_does_not_show_says_so(browser: Browser) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    with headscope.load(small_model(), word_tokenizer()) as small, served(Session(small)) as address:
        page.goto(f"{address}#microscope")
        page.get_by_label("Example").select_option("quotation")
        expect(page.locator("[data-not-shown]")).to_contain_text("This example does not work with this model")
        expect(page.locator("[data-not-shown]")).to_contain_text(re.compile("works with this model|None of the"))
        page.get_by_role("textbox", name="Sentence").fill("the old lamp on the landing")
        expect(page.locator("[data-not-shown]")).to_have_count(0)
    page.close()


def test_the_shipped_model_is_not_said_to_fail_its_examples(visit: Visit) -> None:
    page = visit("#microscope")
    choice = page.get_by_label("Example")
    expect(choice).to_be_enabled()
    for key in choice.locator("option").evaluate_all("all => all.map(one => one.value)"):
        choice.select_option(key)
        expect(page.locator("[data-kl]")).to_be_visible()
        expect(page.get_by_text("Working")).to_have_count(0)
        expect(page.locator("[data-not-shown]")).to_have_count(0)


def test_the_film_opens_at_its_beginning(visit: Visit) -> None:
    page = visit("#film")
    expect(page.locator("[data-step]")).to_have_text("0")


def test_without_places_a_repeated_word_is_not_told_apart(visit: Visit) -> None:
    page = visit("#four-heads")
    expect(page.get_by_text("Every row found")).to_have_count(4)
    page.get_by_role("switch", name="knows positions").click()
    expect(page.locator("[data-places]")).to_contain_text("“the” look the same to every head")
    expect(page.locator("[data-missed='3']")).to_contain_text("look alike without positions")
    page.get_by_role("button", name="Edit sentence").click()
    page.get_by_role("textbox", name="Sentence").fill("Birds often sing early")
    page.keyboard.press("Enter")
    expect(page.locator("[data-places]")).to_contain_text("All words of this sentence differ")
    page.get_by_role("button", name="Take a sentence with a repeated word").click()
    expect(page.locator("[data-places]")).to_contain_text("“the” look the same")


def test_a_sentence_of_ones_own_finds_targets_and_offers_to_paint_the_rest(visit: Visit) -> None:
    page = visit("#four-heads")
    expect(page.get_by_text("Every row found")).to_have_count(4)
    page.get_by_role("button", name="Edit sentence").click()
    page.get_by_role("textbox", name="Sentence").fill("My old dog sleeps in the garden")
    page.keyboard.press("Enter")
    page.get_by_role("option", name="sleeps").click()
    verbs = page.get_by_role("application", name="Verb to subject")
    expect(verbs).to_have_attribute("aria-label", re.compile("sleeps attends to dog"))
    idle = page.get_by_role("region", name="Head 3, Pronoun to antecedent")
    expect(idle).to_contain_text("This head has no target in this sentence")
    idle.get_by_role("button", name="Paint what it should find").click()
    expect(page.get_by_role("button", name="Paint", exact=True)).to_have_attribute("aria-pressed", "true")


def test_values_stay_in_sight_on_a_phone_at_twice_the_size_and_on_paper(visit: Visit) -> None:
    page = visit("#by-hand")
    value = page.get_by_label("Value 1 of animal, head 1")
    product = page.get_by_role("region", name="Head 1", exact=True).locator(".product").first
    for width in (390, 720, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        for shown in (value, product):
            expect(shown).to_be_visible()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 900})
    for shown in (value, product):
        expect(shown).to_be_visible()


def test_by_hand_says_why_it_may_read_a_later_word(visit: Visit) -> None:
    page = visit("#by-hand")
    expect(page.get_by_text("a word that comes later: this example is not")).to_be_visible()
    term = page.locator("[data-term=causal]")
    term.focus()
    page.keyboard.press("Enter")
    expect(term).to_have_attribute("aria-expanded", "true")
    note = page.locator(".term-note")
    expect(note).to_contain_text("not to what comes later")
    page.locator("[data-term=encoder]").click()
    expect(note).to_have_count(1)
    expect(note).to_contain_text("reads a whole text at once")
    page.keyboard.press("Escape")
    expect(note).to_have_count(0)
