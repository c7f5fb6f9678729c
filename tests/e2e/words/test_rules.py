"""Heads in words on the page: sentences are the fitted ones, and the model on rules predicts what Python says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

import headscope
from headscope.app.export.html import save_html
from headscope.app.pages.rules.head_words import rule_pattern
from headscope.app.pages.rules.shipped import shipped_rules
from headscope.heads.rules.report import Rules
from headscope.scope import EMBEDDED, Scope
from tests.e2e.reading import TEXT, Open, at, per_cent, short

pytestmark = pytest.mark.skipif(not (EMBEDDED / "rules.json").exists(), reason="the embedded model has not been built")


@pytest.fixture(scope="module")
def rules(scope: Scope) -> Rules:
    found = shipped_rules(scope)
    assert found is not None
    return found


def test_a_card_begins_with_the_fitted_sentence_and_its_bar(open_page: Open, rules: Rules):
    for head in ("5.6", "4.3"):
        page = open_page(at(head=head))
        expect(page.locator(f"[data-sentence='{head}']")).to_have_text(rules[head].sentence)
        parts = [part for part in rules[head].rules if part.name != "first token" and part.part >= 0.1]
        for part in parts:
            expect(page.locator(f"[data-part='{part.name}']")).to_have_text(short(part.part))


def test_the_model_on_rules_predicts_what_python_does(open_page: Open, scope: Scope, rules: Rules):
    page = open_page(at(head="5.6", compare=0))
    position = len(scope.look(TEXT).tokens) - 1
    before = scope.look(TEXT).logits[position].double().softmax(-1)
    with scope.edit(headscope.follow(rules, "5.6")):
        after = scope.look(TEXT).logits[position].double().softmax(-1)
    page.get_by_role("switch", name="5.6 on rules").click()
    expect(page.locator("[data-kl]")).to_have_text(short(float((before * (before / after).log()).sum()), 3))
    expect(page.locator("[data-without]").first).to_have_text(per_cent(float(after[before.argmax()])))
    page.wait_for_url(re.compile("rules=5.6"))
    again = open_page(page.url[page.url.index("#") :])
    expect(again.get_by_role("switch", name="5.6 on rules")).to_have_attribute("aria-checked", "true")
    expect(again.locator("[data-without]").first).to_have_text(per_cent(float(after[before.argmax()])))
    again.get_by_role("list", name="Edits").get_by_role("button", name="Let 5.6 read again").click()
    expect(again.locator("[data-kl]")).to_have_count(0)


def test_the_pattern_stands_beside_its_rule_with_measures_and_cost(open_page: Open, scope: Scope, rules: Rules):
    page = open_page(at(head="4.3", words=1))
    look, head = scope.look(TEXT), rules["4.3"]
    rule, pattern = rule_pattern(rules, head.head, look), look.pattern("4.3")
    common = float(rule.minimum(pattern)[1:].sum(-1).mean())
    panel = page.get_by_role("region", name="Pattern, rule, difference")
    expect(panel.locator("[data-cell]")).to_contain_text(f"have {short(common)} of their mass in common")
    panel.get_by_role("application", name="Pattern 4.3").focus()
    page.keyboard.press("ArrowRight")
    last = len(look.tokens) - 1
    wanted = f"{short(float(pattern[last, 1]))}, by its rules {short(float(rule[last, 1]))}"
    expect(panel.locator("[data-cell]")).to_contain_text(wanted)
    for name, measure in (("all of it", head.explained), ("the rest", head.rest), ("gain over position", head.gain)):
        expect(panel.locator(f"[data-measure='{name}']")).to_have_text(short(measure.value))
    expect(panel.locator("[data-measure='on its rules']")).to_contain_text("× ")


def test_the_grid_is_shaded_by_what_rules_explain_or_by_the_strongest_rule(open_page: Open, rules: Rules):
    page = open_page(at(head="4.3"))
    show = page.get_by_label("Show", exact=True)
    show.select_option("rules:rest")
    page.wait_for_url(re.compile("show=rules%3Arest"))
    page.get_by_role("button", name="ranked").click()
    best = max(rules, key=lambda head: head.rest.value)
    expect(page.get_by_role("region", name="All heads").locator("svg text").nth(2)).to_have_text(short(best.rest.value))
    show.select_option("rule:previous token")
    count = sum(head.strongest == "previous token" for head in rules)
    expect(page.get_by_role("region", name="All heads")).to_contain_text(f"{count} heads send most")


def test_a_rule_written_by_hand_becomes_a_head_that_opens(context: BrowserContext, address: str):
    page = context.new_page()
    page.goto(f"{address}#by-hand")
    section = page.get_by_role("region", name="Write a rule, get a head")
    expect(section.locator("[data-compiled='last commas']")).to_be_visible()
    section.get_by_label("Rule", exact=True).fill("what followed an earlier copi")
    section.get_by_role("button", name="Compile").click()
    expect(section.get_by_role("alert")).to_contain_text("did you mean after a copy")
    section.get_by_label("Rule", exact=True).fill("previous token")
    section.get_by_role("button", name="Compile").click()
    expect(section.locator("[data-compiled='previous token']")).to_contain_text("1.00 lands where the rule says")
    page.wait_for_url(re.compile("rule=previous"))
    section.get_by_role("button", name="Open in the microscope").click()
    expect(page.get_by_role("application", name="Pattern of head 0.0")).to_be_visible()
    page.get_by_role("button", name="Say it in words").click()
    expect(page.locator("[data-sentence='0.0']")).to_contain_text("goes to the previous token")


def test_a_saved_page_keeps_the_sentence_and_says_what_it_lacks(
    browser: Browser, scope: Scope, rules: Rules, tmp_path: Path
):
    save_html(scope.look(TEXT), tmp_path / "look.html")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(f"file://{tmp_path / 'look.html'}#microscope?head=5.6&words=1")
    expect(page.locator("[data-sentence='5.6']")).to_have_text(rules["5.6"].sentence)
    expect(page.get_by_text("A saved file holds the sentence")).to_be_visible()
    expect(page.get_by_role("switch", name="5.6 on rules")).to_have_count(0)
    context.close()
