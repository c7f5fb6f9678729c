"""No unexplained word: every word of the glossary that stands on a page has a button there that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from headscope.lab.teach.lessons import contents
from tests.e2e.conftest import until

GLOSSARY = Path(__file__).parents[3] / "web/src/words/en/glossary.ts"
TERMS = {
    key: re.findall(r'"([^"]+)"', forms)
    for key, forms in re.findall(
        r"^  (\w+): \{\n    name: .*\n    forms: \[(.*)\],", GLOSSARY.read_text("utf-8"), re.MULTILINE
    )
}
TEXT = """() => {
  const main = document.querySelector("main");
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement.closest(".term-note, pre, code, textarea") ? 2 : 1);
  const pieces = [];
  while (walker.nextNode()) pieces.push(walker.currentNode.nodeValue);
  return pieces.join("\\n");
}"""
PAGES = ["#microscope", "#four-heads", "#by-hand", "#one-or-many", "#film", "#cards", "#census"]
Visit = Callable[[str], Page]


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}{fragment}")
        expect(page.locator("main.opening")).to_have_count(0)
        expect(page.locator("main h1, main h2").first).to_be_visible()
        return page

    return open_at


def used(text: str) -> set[str]:
    def stands(form: str) -> bool:
        flags = 0 if re.search("[A-Z]", form) else re.IGNORECASE
        return re.search(rf"(?<![\w]){re.escape(form)}(?![\w])", text, flags) is not None

    return {key for key, forms in TERMS.items() if any(stands(form) for form in forms)}


def missing(page: Page) -> set[str]:
    explained = page.locator("[data-term]").evaluate_all("all => all.map(one => one.dataset.term)")
    return used(str(page.evaluate(TEXT))) - set(explained)


def explained_within(page: Page) -> None:
    # "logit attribution" holds "logit": where the longer form is explained, the shorter one inside it need not be
    until(page, lambda: missing(page) <= {"logit", "zeroAblation"})


def test_the_glossary_is_read() -> None:
    assert len(TERMS) >= 20
    assert {"token", "query", "key", "value", "logit", "softmax", "entropy", "kl", "residual"} <= TERMS.keys()
    assert {"zeroAblation", "meanAblation", "causal", "encoder"} <= TERMS.keys()


@pytest.mark.parametrize("fragment", PAGES)
def test_no_page_has_an_unexplained_word(visit: Visit, fragment: str) -> None:
    explained_within(visit(fragment))


def test_no_lesson_has_an_unexplained_word(visit: Visit) -> None:
    page = visit("#learn")
    for number, _, title in contents():
        page.evaluate("number => { location.hash = `learn?lesson=${number}` }", number)
        expect(page.get_by_role("heading", level=1)).to_contain_text(title.replace("_", ""))
        explained_within(page)


def test_the_microscope_explains_its_words_where_they_stand(visit: Visit) -> None:
    page = visit("#microscope")
    expect(page.locator("[data-kl]")).to_be_visible()
    for term in ("token", "attribution", "outputMatrix", "kl", "nats", "zeroAblation", "causal", "pattern", "layer"):
        button = page.locator(f"main [data-term={term}]").first
        button.click()
        expect(page.locator(".term-note")).to_have_count(1)
        expect(page.locator(".term-note svg")).to_be_visible()
        button.press("Enter")
        expect(page.locator(".term-note")).to_have_count(0)
    page.get_by_role("button", name="mean", exact=True).click()
    expect(page.locator("main [data-term=meanAblation]")).to_be_visible()
