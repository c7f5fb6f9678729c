"""What a person changes on the microscope page: an arrow cut, a draw narrowed, a token chosen."""

from __future__ import annotations

import re

import torch
from playwright.sync_api import expect

from headscope import knock_out
from headscope.scope import Scope
from tests.e2e.reading import TEXT, Open, at, cell, per_cent, short, signed, tokens


def test_a_click_on_a_cell_cuts_its_arrow_as_the_edit_says(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4", token=9, compare=0))
    look = scope.look(TEXT)
    key = int(look.pattern("1.4")[9].argmax())
    before = look.logits[9].double().softmax(-1)
    with scope.edit(knock_out("1.4", 9, key)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    page.get_by_role("button", name="Cut arrows", exact=True).click()
    page.mouse.click(*cell(page, "1.4", 9, key, len(look.tokens)))
    expect(page.locator("[data-kl]")).to_have_text(short(float((before * (before / after).log()).sum()), 3))
    expect(page.locator("[data-without]").first).to_have_text(per_cent(float(after[before.argmax()])))
    page.wait_for_url(re.compile(f"cut=1.4%3A9%3A{key}"))
    again = open_page(page.url[page.url.index("#") :])
    edits = again.get_by_role("list", name="Edits")
    expect(edits).to_contain_text("cut")
    edits.get_by_role("button", name=f"Restore 1.4 9 to {key}").click()
    expect(again.locator("[data-kl]")).to_have_count(0)
    assert "cut=" not in again.url


def test_cells_are_cut_by_keyboard(open_page: Open):
    page = open_page(at(head="1.4", token=3, compare=0))
    page.get_by_role("button", name="Cut arrows", exact=True).click()
    page.get_by_role("application", name="Pattern of head 1.4").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("cut=1.4%3A3%3A2"))


def test_any_guess_can_be_asked_who_pushes_it_and_be_gone_on_with(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4"))
    look = scope.look(TEXT)
    second = look.predictions(-1, 2)[1].token
    page.get_by_role("region", name="Next token").get_by_role("button", name=second.text.strip(), exact=True).click()
    shares = look.logit_attribution(second.id).heads
    total = sum(share for head, share in shares.items() if head.site == "1")
    expect(page.locator("[data-share='all']")).to_have_text(signed(total))
    assert f"toward={second.id}" in page.url
    page.get_by_role("button", name=f"Continue with {second.text.strip()}").click()
    longer = scope.look(TEXT + second.text)
    expect(tokens(page).get_by_role("option")).to_have_count(len(longer.tokens))
    assert torch.equal(
        torch.tensor([token.id for token in longer.tokens])[:-1], torch.tensor([t.id for t in look.tokens])
    )
