"""What a visitor does without Python: on a site behind a file server, and on one file from a disk without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headscope import ablate
from headscope.scope import Scope
from tests.app.conftest import SENTENCE
from tests.e2e.conftest import until
from tests.e2e.reading import at, tokens

TEXT = " ".join(SENTENCE.split()[:12])
LONG = " ".join(SENTENCE.split()[place % 17] for place in range(512))


def read(page: Page, home: str, text: str) -> None:
    page.goto(f"{home}#microscope")
    box = page.get_by_role("textbox", name="Sentence")
    expect(box).to_be_enabled()
    box.fill(text)
    box.press("Enter")


def number(page: Page, selector: str) -> float:
    written = page.locator(selector).first.inner_text()
    return float(written.replace("%", "").replace("<", "") or "nan")


def test_a_sentence_is_typed_and_a_weight_read(visitor: Page, home: str, small: Scope) -> None:
    read(visitor, home, TEXT)
    look = small.look(TEXT)
    expect(tokens(visitor).get_by_role("option")).to_have_count(len(look.tokens))
    head = visitor.get_by_role("heading", name=re.compile("^Head ")).inner_text().split()[-1]
    expect(visitor.locator(".inspector .number")).not_to_have_count(0)
    assert number(visitor, ".inspector .number") == pytest.approx(float(look.pattern(head)[-1].max()), abs=1e-3)
    expect(visitor.get_by_text("<i>Heads</i>")).to_be_visible()


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_a_head_is_switched_off(visitor: Page, home: str, small: Scope, how: str) -> None:
    visitor.goto(home + at(head="1.4", token=9, compare=0, text=TEXT))
    before = small.look(TEXT).logits[9].double().softmax(-1)
    with small.edit(ablate("1.4", how=how)):
        after = small.look(TEXT).logits[9].double().softmax(-1)
    visitor.get_by_role("switch", name="without 1.4").click()
    visitor.get_by_role("button", name=how, exact=True).click()
    best = int(before.argmax())
    expect(visitor.locator("[data-without]").first).not_to_have_text("")
    assert number(visitor, "[data-guess]") / 100 == pytest.approx(float(before[best]), abs=1e-3)
    changed = pytest.approx(float(after[best]), abs=1e-3)
    until(visitor, lambda: number(visitor, "[data-without]") / 100 == changed)


def test_512_tokens_are_zoomed_into(visitor: Page, home: str, small: Scope) -> None:
    visitor.goto(home + at(head="1.4", token=300, text=LONG))
    pattern = visitor.get_by_role("application", name="Pattern of head 1.4").first
    expect(pattern).to_be_visible()
    pattern.focus()
    for _ in range(5):
        visitor.keyboard.press("+")
    look = small.look(LONG)
    assert len(look.tokens) >= 512
    expect(visitor.locator(".inspector .number")).not_to_have_count(0)
    assert number(visitor, ".inspector .number") == pytest.approx(float(look.pattern("1.4")[300].max()), abs=1e-3)


def test_a_text_is_gone_on_with(visitor: Page, home: str, small: Scope) -> None:
    visitor.goto(home + at(head="1.4", text=TEXT))
    look = small.look(TEXT)
    likeliest = look.predictions(-1, 1)[0].token
    visitor.get_by_role("button", name=f"Continue with {likeliest.text.strip()}").click()
    expect(tokens(visitor).get_by_role("option")).to_have_count(len(small.look(TEXT + likeliest.text).tokens))


def test_a_lesson_is_read_and_a_question_answered(visitor: Page, home: str) -> None:
    visitor.goto(f"{home}#learn/1")
    expect(visitor.get_by_role("heading", level=1)).to_be_visible()
    visitor.locator(".options").first.get_by_role("button").first.click()
    expect(visitor.locator(".said p").first).to_have_text(re.compile(r"\w+"))
    if home.startswith("file:"):
        expect(visitor.get_by_role("button", name="Run", exact=True).first).to_be_disabled()


def test_a_target_is_painted_and_learned(visitor: Page, home: str) -> None:
    visitor.goto(f"{home}#four-heads?v=1&w=10")
    expect(visitor.locator("[data-step]")).to_have_text("120")
    visitor.get_by_role("button", name="Paint").click()
    pattern = visitor.get_by_role("application", name="Pronoun to antecedent")
    box = pattern.bounding_box()
    assert box
    cell = box["width"] / 11
    pattern.click(position={"x": 2.5 * cell, "y": 10.5 * cell})
    expect(visitor.locator("[data-wanted='2']")).to_contain_text(
        re.compile(r"late should attend to horse 1; attends to (1|\.9)")
    )


def test_one_file_allows_its_own_script_by_hash_and_connects_to_nothing(file_on_disk: Path) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', file_on_disk.read_text(encoding="utf-8"))
    assert policy
    lines = dict(line.split(" ", 1) for line in policy[1].split("; "))
    assert lines["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/=]+' 'wasm-unsafe-eval'", lines["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/=]+'", lines["style-src"])
    assert "connect-src" not in lines


def test_one_or_many_shows_every_width_and_leaves_training_to_python(visitor: Page, home: str) -> None:
    visitor.goto(f"{home}#one-or-many?v=1&width=8&heads=1")
    chart = visitor.get_by_role("application", name="A width of 8 cut into heads")
    expect(chart.locator("circle")).to_have_count(4)
    expect(visitor.get_by_role("button", name="Run 1 × 8 here")).to_be_disabled()
    expect(visitor.locator("[data-needs-python]")).to_be_visible()
    expect(visitor.get_by_role("alert")).to_have_count(0)
