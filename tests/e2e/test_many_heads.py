"""A model of 32 × 32 heads: one shade a head and a loupe, a census of a thousand rows; and eight pages on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from playwright.sync_api import Browser, Page, expect

import headscope
from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.scan.options import ScanOptions
from tests.app.conftest import WORDS, word_tokenizer
from tests.e2e.conftest import served
from tests.e2e.reading import TEXT, at, short

SIDE = 32


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, str]]:
    """A model of a thousand heads with random weights, and a scan of it, behind the page."""
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 1, hidden_size=SIDE * 2, intermediate_size=16, num_hidden_layers=SIDE,
        num_attention_heads=SIDE, num_key_value_heads=8, bos_token_id=None, eos_token_id=None, initializer_range=0.4,
    )  # fmt: skip
    transformers.set_seed(0)
    out: Path = tmp_path_factory.mktemp("many") / "census"
    with headscope.load(transformers.LlamaForCausalLM(config).eval(), word_tokenizer()) as scope:
        scope.scan([TEXT, TEXT[::-1]], out=out, options=ScanOptions(context=16, threads=1))
        session = Session(scope)
        with served(session, censuses=Censuses([out])) as address:
            yield session, address


@pytest.fixture(params=[1440, 390])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": request.param, "height": 900}, reduced_motion="reduce")
    yield opened
    over = opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    opened.close()
    assert over <= 0


def test_a_thousand_heads_are_shades_under_a_loupe(page: Page, many: tuple[Session, str]):
    session, address = many
    page.goto(f"{address}{at(head='7.5', show='previous')}")
    grid = page.get_by_role("application", name="All heads")
    expect(grid).to_be_visible()
    expect(page.get_by_text("32 layers × 32 heads, 8 KV heads")).to_be_visible()
    answers = session.scope.look(TEXT).mean_answers("7")["previous"]
    expect(page.locator("[aria-live=polite]").filter(has_text="Head 7.5")).to_have_text(
        f"Head 7.5, {short(float(answers[5]))}"
    )
    grid.press("ArrowRight")
    lying = page.viewport_size == {"width": 390, "height": 900}
    expect(page.get_by_role("application", name=f"Pattern of head {'8.5' if lying else '7.6'}")).to_be_visible()
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    last = session.scope.look(TEXT).mean_answers("31")["previous"][31]
    expect(page.get_by_text(f"31.31 {short(float(last))}")).to_be_visible()


def test_shades_say_what_they_stand_for(page: Page, many: tuple[Session, str]):
    _, address = many
    page.goto(f"{address}{at(head='7.5')}")
    expect(page.get_by_text("The darker, the more a head raises")).to_be_visible()


def test_a_census_of_a_thousand_heads_begins_with_a_screenful(page: Page, many: tuple[Session, str]):
    _, address = many
    page.goto(f"{address}#census")
    expect(page.get_by_text("of 1,024 heads score clearly above chance")).to_be_visible()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(26)
    page.get_by_role("button", name="999 more heads").click()
    expect(rows).to_have_count(101)
    page.get_by_role("application", name="Model map").press("ArrowDown")
    head = rows.nth(1).get_by_role("button").inner_text()
    rows.nth(1).get_by_role("button").click()
    expect(page.get_by_role("heading", name=f"Head {head}")).to_be_visible()


def test_the_page_that_is_open_is_in_sight_in_the_bar(page: Page, many: tuple[Session, str]):
    _, address = many
    page.goto(f"{address}#census")
    for name in ("Census", "Microscope"):
        link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)
        link.click()
        expect(link).to_have_attribute("aria-current", "page")
        expect(link).to_be_in_viewport(ratio=1)
