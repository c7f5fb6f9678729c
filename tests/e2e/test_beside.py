"""Other models on the page: chosen, side by side, encoders, two texts at once, and those that papers speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from playwright.sync_api import Browser, Page, expect

from headscope.app.pages.microscope import Session
from headscope.scope import Scope, load
from tests.app.conftest import WORDS, small_model, word_tokenizer
from tests.e2e.conftest import served
from tests.e2e.reading import TEXT, Open, at, cell, short, signed, tokens

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def louder(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Weights large enough for attention to matter."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.25)
    return model.eval()


@contextmanager
def page_on(browser: Browser, *scopes: Scope, fragment: str = "#microscope") -> Iterator[Page]:
    with served(*(Session(scope) for scope in scopes)) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}{fragment}")
        yield page
        page.close()
        assert errors == []


def test_two_texts_are_patched_and_each_cell_selects_its_head(open_page: Open, scope: Scope):
    other = TEXT.replace("lamp", "morning", 1)
    page = open_page(at(head="1.2", text2=other, lens=1))
    page.get_by_role("button", name="Patch heads").click()
    ids = [int(scope.look(text).logits[-1].argmax()) for text in (TEXT, other)]
    lens = page.get_by_role("table", name="Layer by layer").get_by_role("row")
    expect(lens).to_have_count(len(scope.shape.sites) + 1)
    expect(lens.last).to_contain_text(scope.model.processor.text_of(ids[0]).strip())
    button = page.get_by_role("button", name=re.compile("^Head 0.3: [+−]?[0-9]"))
    if ids[0] != ids[1]:
        found = scope.patching(TEXT, other, (ids[0], ids[1]))
        expect(button).to_have_accessible_name(f"Head 0.3: {signed(float(found.effect[0, 3]))}")
    button.click()
    expect(page.get_by_role("application", name="Pattern of head 0.3")).to_have_count(2)
    assert "patch=z" in page.url


def test_two_texts_side_by_side_share_the_head(open_page: Open, scope: Scope):
    other = "the landing on the old stairs and the landing on the"
    page = open_page(at(head="1.2"))
    page.get_by_role("button", name="Compare").click()
    page.get_by_label("Text on the right").fill(other)
    page.wait_for_url(re.compile("text2=the\\+landing"))
    expect(page.get_by_role("application", name="Pattern of head 1.2")).to_have_count(2)
    left, right = scope.look(TEXT), scope.look(other)
    apart = float(right.mean_answers("1")["previous"][2]) - float(left.mean_answers("1")["previous"][2])
    row = page.get_by_role("row", name="Previous token")
    expect(row.locator("td").last).to_have_text(signed(apart))
    page.keyboard.press("Escape")
    page.get_by_role("application", name="All heads").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("application", name="Pattern of head 1.3")).to_have_count(2)
    again = open_page(page.url[page.url.index("#") :])
    expect(again.get_by_label("Text on the right")).to_have_value(other)
    expect(again.get_by_role("application", name="Pattern of head 1.3")).to_have_count(2)
    again.get_by_role("button", name="Close").click()
    again.wait_for_url(lambda url: "text2" not in url)


def test_a_model_is_chosen_on_the_page_and_named_in_the_address(browser: Browser, scope: Scope):
    with load(small_model(), word_tokenizer(), name="small") as small, page_on(browser, scope, small) as page:
        expect(page.get_by_label("Model")).to_have_value(scope.shape.name)
        page.get_by_label("Model").select_option("small")
        page.wait_for_url(re.compile("model=small"))
        page.get_by_role("textbox", name="Sentence").fill(TEXT)
        page.wait_for_url(re.compile("text=the\\+old"))
        best = float(small.look(TEXT).pattern("0.0")[-1].max())
        page.get_by_role("application", name="All heads").focus()
        while "Head 0.0" not in page.get_by_role("heading", name=re.compile("^Head ")).inner_text():
            page.keyboard.press("[")
        expect(page.locator(".inspector .number").first).to_have_text(short(best, 3))
        page.get_by_role("button", name="Compare").click()
        page.get_by_label("Model on the right").select_option(scope.shape.name)
        page.wait_for_url(lambda url: "text2" in url and "model2" not in url)
        expect(page.get_by_text("their grids cannot be compared")).to_be_visible()
        page.reload()
        expect(page.get_by_role("application", name="Pattern of head 0.0")).to_have_count(2)


def test_an_encoder_reads_both_ways_and_its_output_moves(browser: Browser):
    config = transformers.BertConfig(vocab_size=len(WORDS) + 1, **SIZES)
    with (
        load(louder(transformers.BertModel(config)), word_tokenizer(), name="tiny-bert") as scope,
        page_on(browser, scope, fragment=at(head="1.2", token=3)) as page,
    ):
        look = scope.look(TEXT)
        expect(page.get_by_text(re.compile(r"The output changes by [\d.]+% of its largest number"))).to_be_visible()
        page.mouse.move(*cell(page, "1.2", 3, 11, len(look.tokens)))  # a later token: above the diagonal
        expect(page.locator("[data-tip]")).to_contain_text(short(float(look.weights("1.2")[3, 11]), 3))
        best = look.pattern("1.2")[3].sort(descending=True).values
        expect(page.locator(".inspector .number").first).to_have_text(short(float(best[0]), 3))


def test_cross_attention_looks_from_one_text_at_another(browser: Browser):
    config = transformers.T5Config(
        vocab_size=len(WORDS) + 1, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    model = louder(transformers.T5ForConditionalGeneration(config))
    with (
        load(model, word_tokenizer(), name="tiny-t5") as scope,
        page_on(browser, scope, fragment=at(head="decoder.1.cross.2")) as page,
    ):
        look = scope.look(TEXT)
        best = look.pattern("decoder.1.cross.2")[-1].sort(descending=True).values
        expect(page.get_by_role("application", name="Pattern of head decoder.1.cross.2")).to_be_visible()
        expect(page.locator(".inspector .number").first).to_have_text(short(float(best[0]), 3))
        expect(tokens(page).get_by_role("option")).to_have_count(len(look.written))
        page.keyboard.press("[")
        expect(page.get_by_role("heading", name="decoder.1.cross.1")).to_be_visible()


def test_published_heads_are_shown_next_to_what_these_weights_show(browser: Browser):
    with load(small_model(), word_tokenizer(), name="gpt2") as scope, page_on(browser, scope, fragment=at()) as page:
        claims = page.locator("details").filter(has_text="Papers describe these heads")
        claims.get_by_role("button", name="Head 0.1, duplicate token, not tested yet").click()
        expect(page.get_by_role("heading", name="Head 0.1")).to_be_visible()
        page.get_by_text("Heads like it").click()
        expect(page.get_by_text("calls it duplicate token; these weights have not been tested for it")).to_be_visible()
