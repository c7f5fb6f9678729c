"""What a person does on the microscope page, and that the numbers they read are the Scope's."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, expect

from headscope import ablate
from headscope.app.export.html import save_html
from headscope.app.pages.microscope import Session
from headscope.scope import Scope, load
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import serious_violations, served
from tests.e2e.reading import TEXT, Open, at, cell, per_cent, short, signed, tokens


@pytest.mark.quick
def test_type_a_sentence_and_read_a_known_weight(open_page: Open, scope: Scope):
    page = open_page()
    page.get_by_role("textbox", name="Sentence").fill(TEXT)
    page.get_by_role("textbox", name="Sentence").press("Enter")
    look = scope.look(TEXT)
    row = tokens(page)
    expect(row.get_by_role("option")).to_have_count(len(look.tokens))
    head = page.get_by_role("heading", name=re.compile("^Head ")).inner_text().split()[-1]
    weights = look.weights(head)[-1]
    best = int(weights.argmax())
    expect(row.get_by_role("option").nth(best)).to_have_accessible_name(
        f"{look.tokens[best].text.strip()} , weight {short(float(weights[best]))}"
    )
    expect(page.locator(".inspector .number").first).to_have_text(short(float(weights[best]), 3))


def test_hovering_a_cell_says_its_weight(open_page: Open, scope: Scope):
    page = open_page(at(head="1.2", token=6))
    matrix = page.get_by_role("application", name="Pattern of head 1.2")
    box = matrix.bounding_box()
    assert box is not None
    look = scope.look(TEXT)
    cell = box["width"] / len(look.tokens)
    page.mouse.move(box["x"] + 4.5 * cell, box["y"] + 9.5 * cell)
    said = f"attends to {look.tokens[4].text.strip()} {short(float(look.weights('1.2')[9, 4]), 3)}"
    expect(matrix.locator("[data-tip]")).to_contain_text(said)


def test_the_grid_is_walked_by_keyboard(open_page: Open):
    page = open_page(at(head="0.0"))
    page.get_by_role("application", name="All heads").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("heading", name="Head 1.0")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Head 1.2")).to_be_visible()
    page.keyboard.press("[")
    expect(page.get_by_role("heading", name="Head 1.1")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Sentence")).to_be_focused()


def test_the_token_row_is_walked_by_keyboard(open_page: Open):
    page = open_page(at(head="0.0", token=3))
    tokens(page).get_by_role("option", selected=True).focus()
    page.keyboard.press("ArrowLeft")
    expect(tokens(page).get_by_role("option").nth(2)).to_be_focused()
    assert "token=2" in page.url
    page.keyboard.press("End")
    expect(tokens(page).get_by_role("option").last).to_have_attribute("aria-selected", "true")


def test_the_output_mix_shows_the_scopes_shares_and_their_sum(open_page: Open, scope: Scope):
    page = open_page(at(head="1.3", token=9))
    look = scope.look(TEXT)
    shares = look.logit_attribution(look.predictions(9, 1)[0].token.id, position=9).heads
    of_layer = {str(head): share for head, share in shares.items() if head.site == "1"}
    for name, share in of_layer.items():
        expect(page.locator(f"[data-share='{name}']")).to_have_text(signed(share))
    expect(page.locator("[data-share='all']")).to_have_text(signed(sum(of_layer.values())))


@pytest.mark.quick
@pytest.mark.parametrize("how", ["zero", "mean"])
def test_a_head_switched_off_changes_the_prediction_as_an_edit_says(open_page: Open, scope: Scope, how: str):
    page = open_page(at(head="1.4", token=9, compare=0))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(ablate("1.4", how=how)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    expect(page.locator("[data-without]").first).to_have_text("")
    page.get_by_role("switch", name="without 1.4").click()
    page.get_by_role("button", name=how, exact=True).click()
    best = int(before.argmax())
    expect(page.locator("[data-guess]").first).to_have_text(per_cent(float(before[best])))
    expect(page.locator("[data-without]").first).to_have_text(per_cent(float(after[best])))
    expect(page.locator("[data-kl]")).to_have_text(short(float((before * (before / after).log()).sum()), 3))


def test_heads_kept_off_stay_off_while_looking_at_others(open_page: Open, scope: Scope):
    page = open_page(at(head="1.4", token=9))
    page.get_by_role("button", name="Knock out").click()
    expect(page.get_by_text("Dashed: what was there with it.")).to_be_visible()
    page.keyboard.press("]")
    expect(page.get_by_role("heading", name="Head 1.5")).to_be_visible()
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(ablate("1.4", "1.5")):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    expect(page.locator("[data-kl]")).to_have_text(short(float((before * (before / after).log()).sum()), 3))
    page.locator(".token").nth(len(scope.look(TEXT).tokens) - 1).click()
    expect(page.get_by_text("edited", exact=True)).to_be_visible()
    expect(page.locator(".token.guess")).to_have_count(0)  # it is the unchanged model's
    page.get_by_role("button", name="All heads on").click()
    expect(page.locator(".token.guess")).to_be_visible()
    assert "off=" not in page.url


def test_ranking_by_a_question_puts_its_best_head_first(open_page: Open, scope: Scope):
    page = open_page(at(head="0.0"))
    page.get_by_text("Its scores on this text").click()
    page.locator(".answers").get_by_role("button", name="Previous token").click()
    expect(page.get_by_role("button", name="ranked")).to_have_attribute("aria-pressed", "true")
    look = scope.look(TEXT)
    best = max(float(look.statistics(site).mass["previous"][0, :, 1:].mean(1).max()) for site in look.sites)
    expect(page.locator(".wrap text").filter(has_text=short(best)).first).to_be_visible()


def test_an_address_with_a_head_and_no_text_opens_that_head(open_page: Open):
    page = open_page("#microscope?head=1.3")
    expect(page.get_by_role("heading", name="Head 1.3")).to_be_visible()
    expect(page.get_by_role("textbox", name="Sentence")).to_have_value(re.compile("My white horse"))


def test_who_reads_a_token_and_through_which_measure(open_page: Open, scope: Scope):
    page = open_page(at(head="1.2", token=3))
    look = scope.look(TEXT)
    pattern, norms = look.pattern("1.2"), look.value_norms("1.2")
    page.get_by_role("button", name="is attended to by").click()
    best, places = pattern[:, 3].topk(5)
    expect(page.locator(".inspector .number")).to_have_text([short(float(weight), 3) for weight in best])
    words = [token.text.strip() for token in look.tokens]
    twice = [f"{words[at]}{at}" if words.count(words[at]) > 1 else words[at] for at in places.tolist()]
    expect(page.locator(".inspector .word")).to_have_text(twice)  # a word said twice carries its place
    assert "facing=read" in page.url
    said = {"row": pattern / pattern.amax(1, keepdim=True), "value": pattern * norms}
    for measure, values in said.items():
        page.get_by_label("What the colours measure").select_option(measure)
        page.mouse.move(*cell(page, "1.2", 9, 4, len(look.tokens)))
        expect(page.locator("[data-tip]")).to_contain_text(short(float(values[9, 4]), 3))
        expect(page.locator(".inspector .number").first).to_have_text(short(float(best[0]), 3))
    assert "measure=value" in page.url


def test_heads_are_ranked_by_their_importance(open_page: Open, scope: Scope):
    page = open_page(at(head="1.2"))
    page.get_by_label("Show").select_option("importance")
    page.get_by_role("button", name="ranked").click()
    best = max(abs(found.loss.mean) for found in scope.importance([TEXT], how="gradient"))
    expect(page.locator(".wrap text").filter(has_text=short(best, 3)).first).to_be_visible()


@pytest.mark.quick
def test_a_shared_address_restores_the_view(open_page: Open):
    first = open_page(
        at(head="1.5", token=4, view="arcs", show="first", order="ranked", aside=1, how="mean", off="0.1")
    )
    expect(first.get_by_role("application", name="Pattern of head 1.5 as arcs")).to_be_visible()
    second = open_page(first.url[first.url.index("#") :])
    for page in (first, second):
        expect(tokens(page).get_by_role("option").nth(4)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("switch", name="hide first token")).to_have_attribute("aria-checked", "true")
        expect(page.get_by_label("Show")).to_have_value("first")
    assert first.url == second.url


def test_a_text_of_4096_tokens_is_zoomed_until_a_weight_is_read(open_page: Open, scope: Scope, session: Session):
    """Deep zoom: from the whole text to single tokens, and the number there is the look's."""
    ids = scope.model.processor.token_ids(" ".join([TEXT, "."] * 300))
    text = scope.model.processor.decode(torch.tensor(ids[: 4096 if scope.shape.context != 1280 else 1280]))
    page = open_page(at(head="0.0"))
    page.get_by_role("textbox", name="Sentence").fill(text)
    page.get_by_role("textbox", name="Sentence").press("Enter")
    page.wait_for_url(re.compile("look="))  # a long text travels by the name of its look
    look = session._open(re.findall("look=([0-9a-f]+)", page.url)[0]).look
    length = len(look.tokens)
    assert length >= min(4000, (scope.shape.context or 0) - 80)
    tokens(page).get_by_role("option").last.click()
    page.get_by_role("button", name="Around the selected token").click()
    expect(page.get_by_text(f"24 of {length} tokens")).to_be_visible()
    matrix = page.get_by_role("application", name="Pattern of head 0.0")
    box = matrix.bounding_box()
    assert box is not None
    row, column, cell = length - 4, length - 20, box["width"] / 24
    weight = float(look.weights("0.0", slice(row, row + 1), slice(column, column + 1)))
    page.mouse.move(box["x"] + 4.5 * cell, box["y"] + 20.5 * cell)
    expect(matrix.locator("[data-tip]")).to_contain_text(short(weight, 3))
    expect(matrix.locator("[data-tip]")).not_to_contain_text("at most")


def test_an_empty_text_and_an_error_leave_the_last_picture(open_page: Open):
    page = open_page(at(head="0.0"))
    page.get_by_role("textbox", name="Sentence").fill("")
    expect(page.get_by_text("Type a sentence, or pick an example. Nothing leaves this machine.")).to_be_visible()
    page.get_by_role("textbox", name="Sentence").fill("   ")
    expect(page.get_by_role("alert")).to_contain_text("This text is empty; type a sentence.")
    expect(page.get_by_role("application", name="Pattern of head 0.0")).to_be_visible()
    page.get_by_role("textbox", name="Sentence").fill(TEXT)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_server_that_forgot_the_text_is_told_it_again(open_page: Open, session: Session):
    page = open_page(at(head="0.0"))
    session.kept.forget()
    page.keyboard.press("]")
    expect(page.get_by_role("application", name="Pattern of head 0.1")).to_be_visible()
    expect(page.locator("[data-share='0.1']")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_every_picture_is_saved_as_numbers_and_as_a_picture(open_page: Open, scope: Scope):
    page = open_page(at(head="1.2"))
    with page.expect_download() as waiting:
        page.get_by_label("Save this pattern").select_option("csv")
    assert waiting.value.suggested_filename == "head-1.2.csv"
    rows = list(csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines()))
    saved = torch.tensor([[float(value) for value in row[1:]] for row in rows[1:]])
    torch.testing.assert_close(saved, scope.look(TEXT).pattern("1.2"), atol=1e-6, rtol=1e-5)
    page.get_by_text("Its scores on this text").click()
    for what, kind, start in (
        ("this pattern", "html", b"<!doctype html>"),
        ("the grid", "png", b"\x89PNG"),
        ("the scores", "svg", b"<svg "),
        ("the logit attribution", "png", b"\x89PNG"),
        ("the next tokens", "csv", b'"token","id"'),
    ):  # a browser stops a page that saves much more at once
        with page.expect_download() as waiting:
            page.get_by_label(f"Save {what}").select_option(kind)
        assert waiting.value.path().read_bytes().startswith(start), f"{what} as {kind}"
    page.get_by_role("button", name="Arcs").click()
    with page.expect_download() as waiting:
        page.get_by_label("Save these arcs").select_option("csv")
    arcs = list(csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines()))[1:]
    pattern = scope.look(TEXT).pattern("1.2")
    assert len(arcs) == int((pattern >= 0.02).sum())
    assert float(arcs[-1][4]) == pytest.approx(float(pattern[int(arcs[-1][0]), int(arcs[-1][2])]), abs=1e-5)


def test_a_saved_page_opens_from_disk_without_a_network(browser: Browser, scope: Scope, tmp_path: Path):
    look = scope.look(TEXT)
    save_html(look, tmp_path / "look.html")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    errors: list[str] = []
    context.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    page = context.new_page()
    page.goto(f"file://{tmp_path / 'look.html'}#microscope?head=1.2&token=9")
    expect(page.get_by_role("application", name="Pattern of head 1.2")).to_be_visible()
    best = float(look.weights("1.2")[9].max())
    expect(page.locator(".inspector .number").first).to_have_text(short(best, 3))
    expect(page.locator("[data-guess]").first).to_have_text(per_cent(look.predictions(9, 1)[0].probability))
    expect(page.get_by_role("textbox", name="Sentence")).to_be_disabled()
    expect(page.get_by_text("You cannot switch heads off in a saved file")).to_be_visible()
    expect(page.get_by_text("This file has no logit attribution for this token.")).to_be_visible()
    tokens(page).get_by_role("option").last.click()
    expect(page.locator("[data-share='all']")).to_be_visible()
    assert errors == []
    context.close()


def test_a_saved_page_makes_a_long_text_s_patterns_itself(browser: Browser, scope: Scope, tmp_path: Path):
    look = scope.look(TEXT * 48)
    assert len(look.tokens) > 600
    save_html(look, tmp_path / "long.html")
    assert (tmp_path / "long.html").stat().st_size < len(look.tokens) ** 2 * look.shape.n_heads * 2
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    for head in ("1.2", "3.5"):
        page.goto(f"file://{tmp_path / 'long.html'}#microscope?head={head}&token=401")
        expect(page.get_by_role("application", name=f"Pattern of head {head}")).to_be_visible()
        expect(page.locator(".inspector .number").first).to_have_text(short(float(look.weights(head)[401].max()), 3))
    context.close()


@pytest.mark.parametrize("width", [360, 768, 2560])
def test_the_page_never_scrolls_sideways(open_page: Open, width: int):
    page = open_page(at(head="1.1"))
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.get_by_role("application", name="Pattern of head 1.1")).to_be_visible()
    # The canvases follow the new width one frame later; what settles must fit.
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


@pytest.mark.parametrize(
    ("theme", "more"),
    [
        ("light", {}),
        ("dark", {}),
        ("light", {"text2": "the old lamp", "cut": "1.1:9:2", "off": "0.1"}),
    ],
    ids=["light", "dark", "everything open"],
)
def test_no_serious_violation_of_accessibility(open_page: Open, theme: str, more: dict[str, str]):
    page = open_page(at(head="1.1", token=9, **more), query=f"?theme={theme}")
    assert serious_violations(page) == []


def test_the_best_induction_head_is_named_with_its_score(open_page: Open, session: Session):
    roles = session.roles()
    if roles.state != "tested":
        pytest.skip("this model ships no report")
    best = max((found for found in roles.findings if found.role == "induction"), key=lambda f: f.evidence[0].score)
    page = open_page(at(head=best.head))
    card = page.get_by_role("region", name="What this head is")
    expect(card.get_by_role("heading", name="Induction head", exact=True)).to_be_visible()
    known = page.get_by_role("region", name="How we know")
    known.get_by_text("How we know").click()
    piece = best.evidence[0]
    said = f"attention there {short(piece.score)} next best {short(piece.rival)}"
    expect(known.get_by_role("img", name=said)).to_be_visible()
    paper = known.get_by_role("link", name="In-context Learning and Induction Heads")
    expect(paper).to_have_attribute("href", "https://arxiv.org/abs/2209.11895")
    expect(page.get_by_text(f"{roles.named} of 64 heads pass a test for a role")).to_be_visible()
    named = sum(found.role == "induction" for found in roles.findings)
    page.get_by_role("group", name="heads with a role").get_by_role("button", name="Induction").click()
    expect(page.get_by_label("Show")).to_have_value("role:induction")
    roles_of = {
        found.head: {other.role for other in roles.findings if other.head == found.head} for found in roles.findings
    }
    only = sum(each == {"induction"} for each in roles_of.values())
    expect(
        page.get_by_text(f"{named} of 64 heads passed the test for this role; {only} of them have no other role.")
    ).to_be_visible()


def test_a_card_says_of_each_number_which_text_it_is_of(open_page: Open, session: Session):
    roles = session.roles()
    if roles.state != "tested":
        pytest.skip("this model ships no report")
    resting = next(found for found in roles.findings if found.role == "first token" and found.strongest)
    trial = next(trial for trial in roles.trials if trial.role == "first token")
    page = open_page(at(head=resting.head))
    expect(page.get_by_text("on this text; grey: by distance alone")).to_be_visible()
    card = page.get_by_role("region", name="How we know")
    card.get_by_text("How we know").click()
    expect(card.get_by_text(f"Tested on: {trial.probe}.")).to_be_visible()


def test_a_head_without_a_name_is_called_so(open_page: Open, session: Session, scope: Scope):
    roles = session.roles()
    if roles.state != "tested":
        pytest.skip("this model ships no report")
    named = {found.head for found in roles.findings}
    nobody = next(str(head) for head in scope.shape.heads() if str(head) not in named)
    page = open_page(at(head=nobody))
    expect(page.get_by_role("heading", name="No role")).to_be_visible()
    expect(page.get_by_text("It passed none of the role tests it took")).to_be_visible()


def test_untested_heads_are_tested_by_a_click(browser: Browser):
    with load(small_model(), word_tokenizer()) as small, served(Session(small)) as address:
        page = browser.new_page()
        page.goto(f"{address}{at(head='0.0')}")
        page.get_by_role("button", name="Test this model’s heads").click()
        expect(page.get_by_text(re.compile(r"of 12 heads pass(es)? a test for a role"))).to_be_visible()
        page.close()


def test_first_screen_says_role_effect_and_where_it_looks_without_scrolling(open_page: Open, scope: Scope):
    page = open_page("#microscope")
    head = page.get_by_role("heading", name=re.compile("^Head ")).inner_text().split()[-1]
    text = page.get_by_role("textbox", name="Sentence").input_value()
    look = scope.look(text)
    before = look.predictions(-1, 1)[0]
    with scope.edit(ablate(head)):
        after = float(scope.look(text).logits[-1].double().softmax(-1)[before.token.id])
    best = int(look.weights(head)[-1].argmax())
    token = "the first token" if best == 0 else look.tokens[best].text.strip()
    here = page.locator("[data-here]")
    expect(here).to_contain_text(f"it attends to {token} ({float(look.weights(head)[-1, best]):.0%})")
    if before.probability - after > max(0.012, 0.04 * before.probability):
        said = "under 1%" if after < 0.01 else f"{after:.0%}"
        expect(here).to_contain_text(f"falls from {before.probability:.0%} to {said}.")
    shares = {name: each.share for name, each in look.where(head).shares.items() if each.share >= 0.05}
    said = re.compile(".*".join(f"{re.escape(name)}[a-z ]* {share:.0%}" for name, share in shares.items()))
    expect(page.get_by_role("img", name=said)).to_be_visible()
    for name in ("All heads", "One head", "What this head is", "Next token", "How we know", "Logit attribution"):
        box = page.get_by_role("region", name=name, exact=True).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, name
    asking, cutting = page.get_by_text("Press a cell to ask why."), page.get_by_text("Press a cell to cut this arrow")
    expect(asking).to_be_visible()
    page.get_by_role("button", name="Cut arrows").click()
    expect(cutting).to_be_visible()
    expect(asking).to_have_count(0)
