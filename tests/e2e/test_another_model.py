"""`headscope serve --allow-models`: another model is named on the page; one that cannot be shown says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from playwright.sync_api import Browser, Page, expect

import headscope
from headscope.app.pages.microscope import Session
from headscope.scope import Scope
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import served
from tests.e2e.reading import at

SAID = {
    "no-weights": "has a config.json but no safetensors weights; save it with save_pretrained",
    "pickled": "holds its weights as a pickle (pytorch_model.bin), which can run code when it is opened",
    "mamba": "no attention was found: it calls neither PyTorch's attention functions nor softmax and a product",
    "silent": "fails its self-check and is not opened: an edit moves the logits: ablating any one site changes",
    "nowhere": "is not a model; give a model's name on the hub, or its folder",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model that can be shown, and four that cannot."""
    path = tmp_path_factory.mktemp("models")
    model = small_model(1)
    for name in ("lamp-reader", "no-weights", "pickled", "silent"):
        word_tokenizer().save_pretrained(path / name)
        model.config.save_pretrained(path / name)
    model.save_pretrained(path / "lamp-reader")
    torch.save(model.state_dict(), path / "pickled/pytorch_model.bin")
    torch.nn.init.zeros_(model.model.layers[0].self_attn.v_proj.weight)  # heads that deliver nothing
    model.save_pretrained(path / "silent")
    without = transformers.MambaConfig(vocab_size=19, hidden_size=24, state_size=4, num_hidden_layers=1)
    transformers.MambaForCausalLM(without).save_pretrained(path / "mamba")
    return path


@pytest.fixture
def page(browser: Browser, scope: Scope) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    with served(Session(scope), opener=headscope.load) as address:
        opened.goto(f"{address}{at(head='1.2')}")
        expect(opened.get_by_role("application", name="Pattern of head 1.2")).to_be_visible()
        expect(opened.locator("[data-share='all']")).to_be_visible()
        yield opened
        opened.close()


def name(page: Page, model: str) -> None:
    if page.get_by_role("textbox", name="A model's name or folder").count() == 0:
        page.get_by_label("Model", exact=True).select_option(label="another …")
    expect(page.get_by_role("textbox", name="A model's name or folder")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type(model)
    page.keyboard.press("Enter")


def test_a_folder_is_opened_and_stays_among_the_models(page: Page, folder: Path, scope: Scope):
    name(page, str(folder / "lamp-reader"))
    expect(page.get_by_role("textbox", name="A model's name or folder")).to_have_count(0)
    expect(page.get_by_text("1 layer × 6 heads, 3 KV heads")).to_be_visible()
    assert "model=lamp-reader" in page.url
    picker = page.get_by_label("Model", exact=True)
    picker.select_option(scope.shape.name)
    expect(page.get_by_text("8 layers × 8 heads, 4 KV heads")).to_be_visible()
    picker.select_option("lamp-reader")
    expect(page.get_by_text("1 layer × 6 heads, 3 KV heads")).to_be_visible()
    page.reload()
    expect(page.get_by_text("1 layer × 6 heads, 3 KV heads")).to_be_visible()


def test_a_model_that_cannot_be_shown_is_a_sentence_above_the_last_picture(page: Page, folder: Path):
    share = page.locator("[data-share='all']").inner_text()
    address = page.url
    for model, said in SAID.items():
        name(page, str(folder / model))
        expect(page.get_by_role("alert")).to_contain_text(said)
        expect(page.get_by_role("application", name="Pattern of head 1.2")).to_be_visible()
        expect(page.locator("[data-share='all']")).to_have_text(share)
        assert page.url == address
    page.keyboard.press("Escape")
    expect(page.get_by_role("textbox", name="A model's name or folder")).to_have_count(0)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    name(page, str(folder / "lamp-reader"))
    expect(page.get_by_text("1 layer × 6 heads, 3 KV heads")).to_be_visible()


@pytest.mark.quick
def test_a_page_that_may_open_none_offers_none(browser: Browser, scope: Scope):
    page = browser.new_page()
    with served(Session(scope)) as address:
        page.goto(f"{address}#microscope")
        expect(page.get_by_role("application", name="Pattern of head")).to_be_visible()
        expect(page.get_by_label("Model", exact=True)).to_have_count(0)
        page.close()
