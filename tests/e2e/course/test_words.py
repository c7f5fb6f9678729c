"""No unexplained word: every word of the glossary in a page's prose has a button there that explains it.

Words in figures, tables and controls, where no button can be, are explained at the end of the page; those in a list of
other pages, on these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from headscope.lab.teach.lessons import contents
from tests.e2e.conftest import until

GLOSSARY = Path(__file__).parents[3] / "web/src/words/en/glossary.ts"
TERM = re.compile(r"^  (\w+): \{\n    name: [^\n]*\n    forms: \[([^\]]*)\],", re.MULTILINE)
TERMS = {key: re.findall(r'"([^"]+)"', forms) for key, forms in TERM.findall(GLOSSARY.read_text("utf-8"))}
# the text of a page, or of its prose: what is seen, without notes that are open, controls and drawings
TEXT = """(prose) => {
  const controls = "svg, button:not([data-term]), a, label, option, table";
  const left = ".term-note, pre, code, textarea, nav" + (prose ? `, ${controls}` : "");
  const pieces = [];
  for (const root of document.querySelectorAll("section.line, main")) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) => {
      const element = node.parentElement;
      if (element.closest(left) || (prose && !element.getClientRects().length)) return 2;
      return !prose || element.closest("p, li, figcaption, h1, h2, h3") ? 1 : 3;
    });
    while (walker.nextNode()) pieces.push(walker.currentNode.nodeValue);
  }
  return pieces.join("\\n");
}"""
EXPLAINED = "all => all.map(one => one.dataset.term)"
PAGES = ["#start", "#microscope", "#four-heads", "#by-hand", "#one-or-many", "#film", "#cards", "#census", "#worksheet"]
STOPS = [f"#tour/{stop}" for stop in range(1, 8)]
Visit = Callable[..., Page]


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Visit:
    def open_at(fragment: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}{fragment}")
        expect(page.locator("main.opening")).to_have_count(0)
        expect(page.locator("main h1, main h2").first).to_be_visible()
        page.wait_for_load_state("networkidle")  # the page's words follow its figures
        return page

    return open_at


def used(text: str) -> set[str]:
    """The terms of a text; in "logit attribution" there is no "logit"."""
    forms = {form: key for key, all_forms in TERMS.items() for form in all_forms}
    longest = sorted(forms, key=len, reverse=True)
    found = set()
    for match in re.finditer(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)", text, re.IGNORECASE):
        same = (form for form in longest if form == match[0] or (form.islower() and form == match[0].lower()))
        found |= {forms[form] for form in list(same)[:1]}
    return found


def missing(page: Page) -> set[str]:
    """Terms in the prose that are not explained within it, and terms anywhere that the page does not explain."""
    within = set(page.locator("main [data-term]").evaluate_all(EXPLAINED))
    prose, whole = (used(str(page.evaluate(TEXT, of_prose))) for of_prose in (True, False))
    if "#tour" in page.url:  # what is dimmed there is explained where it can be used
        whole = prose
    return (prose - within) | (whole - set(page.locator("[data-term]").evaluate_all(EXPLAINED)))


def explained_within(page: Page) -> None:
    with suppress(AssertionError):
        until(page, lambda: not missing(page))
        return
    assert missing(page) == set()


def test_the_glossary_is_read() -> None:
    assert len(TERMS) >= 20
    assert {"token", "query", "key", "value", "logit", "softmax", "entropy", "kl", "residual"} <= TERMS.keys()
    assert {"zeroAblation", "meanAblation", "causal", "encoder"} <= TERMS.keys()
    assert used("Logit attribution of a token") == {"attribution", "token"}


@pytest.mark.parametrize("fragment", [*PAGES, *STOPS])
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
        button.press("Enter")
        expect(page.locator(".term-note")).to_have_count(0)
    page.get_by_role("button", name="mean", exact=True).click()
    expect(page.locator("main [data-term=meanAblation]")).to_be_visible()
