"""Why a head looks there and where a prediction comes from, on the page: its numbers are Python's."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from playwright.sync_api import Browser, BrowserContext, Page, expect

import headscope
from headscope.app.export.html import save_html
from headscope.heads.explain.path_effect import path_effect
from headscope.heads.explain.why import by_size
from headscope.scope import Scope
from tests.e2e.reading import TEXT, Open, at, cell, per_cent, short, signed

HEAD, QUERY = "1.4", 9


def plain(value: float) -> str:
    return f"{'−' if value < 0 else ''}{abs(value):.2f}"


def strongest(scope: Scope) -> int:
    return int(scope.look(TEXT).pattern(HEAD)[QUERY][1:].argmax()) + 1


def writers(page: Page, side: str) -> list[str]:
    return page.locator(f"[data-writer^='{side} '] [data-value]").all_text_contents()


def saved_texts(page: Page, what: str) -> list[str]:
    """The texts of the picture that is saved, which shows what the page shows."""
    with page.expect_download() as saved:
        page.get_by_label(f"Save {what}").select_option("svg")
    drawn = ElementTree.parse(saved.value.path())
    return [text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_a_pressed_cell_is_split_as_python_splits_it(open_page: Open, scope: Scope):
    page = open_page(at(head=HEAD, token=QUERY))
    look, key = scope.look(TEXT), strongest(scope)
    page.mouse.click(*cell(page, HEAD, QUERY, key, len(look.tokens)))
    why = look.why(HEAD, QUERY, key)
    expect(page.locator("[data-total]")).to_have_text(plain(why.total))
    expect(page.locator("[data-sum='q']")).to_have_text(plain(why.total))
    shown = page.locator("[data-writer^='k ']").count()
    assert writers(page, "q")[:shown] == [signed(share.value) for share in by_size(why.asked)][:shown]
    assert writers(page, "k") == [signed(share.value) for share in by_size(why.answered)][:shown]
    page.wait_for_url(re.compile(f"why={QUERY}%3A{key}"))
    page.get_by_role("button", name="the others", exact=True).click()
    expect(page.locator("[data-total]")).to_have_text(plain(look.why(HEAD, QUERY, key, minus="others").total))
    again = open_page(page.url[page.url.index("#") :])
    expect(again.locator("[data-total]")).to_have_text(plain(look.why(HEAD, QUERY, key, minus="others").total))
    again.keyboard.press("Escape")
    expect(again.locator("[data-total]")).to_have_count(0)
    assert "why=" not in again.url


def test_a_cut_path_shows_the_predicted_and_the_true_effect_side_by_side(open_page: Open, scope: Scope):
    key = strongest(scope)
    look = scope.look(TEXT)
    writer = next(share.name for share in by_size(look.why(HEAD, QUERY, key).answered) if share.kind == "head")
    page = open_page(at(head=HEAD, token=QUERY, why=f"{QUERY}:{key}", writer=f"k:{writer}"))
    cut = headscope.path(writer, HEAD, into="k", query=QUERY, key=key)
    found = path_effect(look, cut, position=QUERY)
    with scope.edit(headscope.ablate(cut)):
        true = scope.look(TEXT).logits[QUERY]
    expect(page.locator("[data-true='logit']")).to_have_text(plain(float(true[found.token])))
    expect(page.locator("[data-predicted='logit']")).to_have_text(plain(found.logit.predicted))
    chance = float(true.double().softmax(-1)[found.token])
    expect(page.locator("[data-true='chance']")).to_have_text(f"{per_cent(chance)} %")
    assert found.weight is not None
    expect(page.locator("[data-true='weight']")).to_have_text(short(found.weight.true, 3))
    expect(page.locator(f"[data-pinned='{writer}']")).to_have_count(1)
    saved = saved_texts(page, "this explanation")
    assert {writer, plain(found.logit.predicted), plain(float(true[found.token]))} <= set(saved)
    assert "Close" not in saved


def test_a_trace_is_pythons_and_is_walked_by_keyboard(open_page: Open, context: BrowserContext, scope: Scope):
    look = scope.look(TEXT)
    token = look.predictions(-1, 1)[0].token
    trace = look.trace(token.id)
    page = open_page(at(head=HEAD))
    page.get_by_role("button", name="Trace it back").click()
    expect(page.locator("[data-logit]")).to_have_text(plain(trace.total))
    shares = [signed(step.share) for step in trace.steps]
    assert page.locator("[data-step] b").all_text_contents() == shares
    expect(page.locator("[data-rest]")).to_have_text(signed(trace.left_out.sum))
    expect(page.locator("[data-left-out]")).to_contain_text(f"{trace.left_out.count} smaller contributions")
    saved = saved_texts(page, "this trace")
    assert all(any(share in text for text in saved) for share in shares)
    page.wait_for_url(re.compile("trace=1"))
    head = next(step for step in trace.steps if step.kind == "head" and not step.rests)
    page.locator(f"[data-part='{head.name}']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"part={re.escape(head.name)}"))
    again = context.new_page()
    again.goto(page.url)
    expect(again.get_by_role("button", name="The whole sum")).to_be_visible()
    again.get_by_role("button", name=re.compile("^cut ")).first.click()
    path = re.compile(r"path=([^&]+)")
    again.wait_for_url(path)
    found = path.search(unquote(again.url))
    assert found is not None
    writer, reader, into, key = found[1].replace("+", " ").split(":")
    cut = headscope.path(writer, reader, into=into, query=len(look.tokens) - 1, key=int(key))
    with scope.edit(headscope.ablate(cut)):
        true = float(scope.look(TEXT).logits[-1, token.id])
    expect(again.locator("[data-true='logit']")).to_have_text(plain(true))


def test_a_file_explains_the_arrows_of_its_trace_and_says_what_needs_the_program(
    browser: Browser, scope: Scope, tmp_path: Path
):
    look = scope.look(TEXT)
    last = len(look.tokens) - 1
    trace = look.trace(look.predictions(-1, 1)[0].token.id)
    head = next(step for step in trace.steps if step.kind == "head" and not step.rests)
    key = head.reads[0].place.position
    save_html(look, tmp_path / "look.html")
    page = browser.new_page()
    page.goto(f"file://{tmp_path}/look.html{at(head=head.name, token=last, why=f'{last}:{key}')}")
    expect(page.locator("[data-total]")).to_have_text(plain(look.why(head.name, last, key).total))
    page.get_by_role("button", name="the others", exact=True).click()
    expect(page.get_by_text("This file has explanations only for the steps of its trace.")).to_be_visible()
    page.close()
