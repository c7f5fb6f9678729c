"""Each head's share of the logit of any next token: typed, less another, kept in the address."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, Locator, Page, expect

from headscope.app.export.html import save_html
from headscope.scope import Scope
from tests.e2e.reading import TEXT, Open, at, signed


def field(page: Page, which: str) -> Locator:
    names = {"toward": "The next token whose logit is split", "minus": "The token whose logit is subtracted"}
    return page.get_by_label(names[which])


def typed(page: Page, which: str, text: str) -> None:
    field(page, which).fill(text)
    field(page, which).press("Enter")


def shares(scope: Scope, token: str, minus: str | None = None) -> tuple[str, str]:
    found = scope.look(TEXT).logit_attribution(token, minus=minus).heads
    return signed(found[scope.shape.find("1.4")]), signed(sum(each for head, each in found.items() if head.site == "1"))


def shown(page: Page, wanted: tuple[str, str]) -> None:
    expect(page.locator("[data-share='1.4']")).to_have_text(wanted[0])
    expect(page.locator("[data-share='all']")).to_have_text(wanted[1])


def test_a_typed_token_and_a_difference_are_split_and_the_address_keeps_both(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4"))
    typed(page, "toward", " road")
    shown(page, shares(scope, " road"))
    expect(field(page, "toward")).to_have_value("␣road")
    typed(page, "minus", "␣river")
    shown(page, shares(scope, " road", " river"))
    page.reload()
    shown(page, shares(scope, " road", " river"))
    expect(field(page, "minus")).to_have_value("␣river")
    typed(page, "minus", "")
    shown(page, shares(scope, " road"))
    page.get_by_role("button", name="The most likely").click()
    shown(page, shares(scope, scope.look(TEXT).predictions(-1, 1)[0].token.text))
    assert "toward=" not in page.url
    assert "minus=" not in page.url


def test_several_tokens_are_said_and_the_word_after_a_space_is_offered(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4"))
    mix = page.get_by_role("region", name="Logit attribution")
    typed(page, "toward", "snowmobile")
    expect(mix).to_contain_text("“snowmobile” is 5 tokens; this is the first, s.")
    shown(page, shares(scope, "s"))
    mix.get_by_role("button", name="␣snow").click()
    shown(page, shares(scope, " snow"))
    expect(mix).not_to_contain_text("5 tokens")


def test_an_empty_field_is_rejected_with_a_clear_message_and_the_shares_stay(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4"))
    typed(page, "toward", " road")
    shown(page, shares(scope, " road"))
    typed(page, "toward", "")
    expect(page.get_by_role("region", name="Logit attribution")).to_contain_text("No token was typed; type a word")
    shown(page, shares(scope, " road"))
    field(page, "toward").press("Escape")
    expect(field(page, "toward")).to_have_value("␣road")


def test_a_saved_file_says_which_shares_it_holds(context: BrowserContext, scope: Scope, tmp_path: Path):
    file = tmp_path / "look.html"
    save_html(scope.look(TEXT), file)
    page = context.new_page()
    page.set_content(file.read_text(encoding="utf-8"))
    mix = page.get_by_role("region", name="Logit attribution")
    expect(mix).to_contain_text(
        "This file has only the contributions to the most likely next token. For any other, open"
    )
    expect(mix.get_by_role("textbox")).to_have_count(0)
    expect(page.get_by_role("region", name="Next token").locator("button.word").first).to_be_disabled()
