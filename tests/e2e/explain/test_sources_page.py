"""Which document an answer came from, on the page: its numbers and sentences are Python's."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import application
from tests.e2e.conftest import fits, running, serious_violations

HOMES = [
    "Anna has a red hat and a small dog. Anna lives in the tower.",
    "Peter has a cold house. Peter lives in the forest.",
    "Maria has two brothers. Maria lives in the valley.",
]


@pytest.mark.browser
def test_page_shows_what_python_measures_hides_a_document_and_names_its_heads(browser: Browser) -> None:
    with headscope.load() as scope, running(application(ModelRegistry(Session(scope)))) as address:
        found = scope.sources(HOMES, "Anna lives in the", expected=" tower")
        carried = found.heads(1)  # before the page asks: it changes the model while it computes
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}#sources")
        expect(page.locator(".verdict")).to_have_text(" ".join(found.sentences()), timeout=60_000)
        assert page.locator("li .says b").all_text_contents() == [found.verdict(number) for number in found.documents]
        page.get_by_text("Hide document 2").click()
        assert float(found.hidden[1, 0].exp()) < 0.01
        expect(page.locator(".verdict")).to_contain_text(f"forest under 1% instead of {found.whole[0].exp():.0%}")
        page.get_by_role("button", name="Which heads carry it?").first.click()
        first = carried.heads[0]
        expect(page.locator(".carriers a").first).to_have_text(str(first))
        assert serious_violations(page) == []
        query, key = carried.arrows[0]
        page.locator(".carriers a").first.click()
        expect(page.get_by_role("heading", name=f"Head {first}", exact=True)).to_be_visible(timeout=60_000)
        expect(page.get_by_text(f"(position {query}), head {first} gives")).to_contain_text(f"(position {key})")
        page.goto(f"{address}#sources")
        page.get_by_role("button", name="Which sentence?").first.click()
        expect(page.locator(".t")).to_have_text(["Anna has a red hat and a small dog.", "Anna lives in the tower."])
        page.get_by_role("button", name="Hide two at a time").click()
        expect(page.locator(".verdict").locator("visible=true")).to_contain_text("No two of them together")
        page.goto(f"{address}#sources")
        fits(page, 390)
        page.close()
