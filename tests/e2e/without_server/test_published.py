"""A published site behind a plain file server, in a real browser: what it computes is what Python computes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from headscope.app.export.saved_explanations import EXAMPLES
from headscope.app.pages.explain import WhyRequest, split_arrow
from headscope.app.pages.predictions import logits_under
from headscope.heads.edits.ablate import ablate
from headscope.heads.edits.hidden_keys import knock_out
from headscope.scope import Scope
from tests.app.conftest import SENTENCE
from tests.e2e.reading import at
from tests.e2e.without_server.conftest import watched

TEXT = " ".join(SENTENCE.split()[:12])


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A visitor. Every request must stay on the site, and the console must stay quiet."""
    opened = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    strays = watched(opened, site)
    yield opened
    opened.close()
    assert strays == []


ASK = """async ([ask, body]) => {
  if (!window.asked) {
    const site = await (await fetch("site.json")).json();
    const worker = new Worker("assets/worker.js", { type: "module" });
    const waiting = new Map();
    let last = 0;
    worker.onmessage = ({ data }) => data.progress || waiting.get(data.id)(data);
    window.asked = (what, wanted) => new Promise((resolve) => {
      waiting.set(++last, resolve);
      worker.postMessage({ id: last, ask: what, body: wanted });
    });
    const absolute = (path) => new URL(path, document.baseURI).href;
    const names = ["graph.onnx", "weights.bin", "model.bin", "tokenizer.json", "tokenizer_config.json"];
    const files = Object.fromEntries(names.map((name) => [name, absolute(`${site.models[0].folder}${name}`)]));
    window.asked("open", { runtime: absolute(site.runtime), files, bytes: 1 });
  }
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error(`no answer to ${ask}`)), 120_000));
  const { value, problem } = await Promise.race([window.asked(ask, body), late]);
  if (problem) throw new Error(problem.message);
  return JSON.parse(JSON.stringify(value, (_, each) => (ArrayBuffer.isView(each) ? [...each] : each)));
}"""


def test_weights_and_predictions_are_pythons(page: Page, site: str, small: Scope) -> None:
    page.goto(f"{site}#cards")
    found = page.evaluate(ASK, ["look", {"text": TEXT}])
    look = small.look(TEXT)
    assert [token["id"] for token in found["tokens"]] == [token.id for token in look.tokens]
    whole = {"rows": [0, 99], "columns": [0, 99], "pool": 1, "how": "max", "measure": "weight", "aside": False}
    tile = page.evaluate(ASK, ["weights", {"look": found["look"], "head": "1.4", **whole}])
    assert tile["weights"] == pytest.approx(look.pattern("1.4").flatten().tolist(), abs=1e-5)
    last = len(look.tokens) - 1
    asked = {"look": found["look"], "position": last, "off": ["1.4"], "cuts": [], "how": "mean", "count": 6}
    told = page.evaluate(ASK, ["predict", asked])
    ids = [guess["id"] for guess in told["guesses"]]
    plain = look.logits[last].double().softmax(-1)[ids].tolist()
    edited = logits_under(look, [ablate("1.4", how="mean")])[last].double().softmax(-1)[ids].tolist()
    assert [guess["probability"] for guess in told["guesses"]] == pytest.approx(plain, abs=1e-4)
    assert told["without"] == pytest.approx(edited, abs=1e-4)
    mix = page.evaluate(ASK, ["attribution", {"look": found["look"], "site": "1", "position": last, "toward": ids[0]}])
    shares = look.logit_attribution(ids[0], position=last).heads
    heads = [shares[head] for head in small.shape.heads()]
    assert mix["logits"] == pytest.approx(heads, abs=1e-3)


def test_heads_are_trained_in_the_browser_and_what_needs_python_is_greyed(page: Page, site: str) -> None:
    page.goto(f"{site}#learn/1")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto(f"{site}#four-heads")
    expect(page.locator("[data-step]")).to_have_text("120")
    expect(page.get_by_role("button", name="Open these heads in the microscope")).to_be_disabled()
    expect(page.locator("[data-needs-python]")).to_contain_text("This needs headscope on your machine: headscope serve")


def test_tracing_and_cutting_paths_are_greyed_with_the_command_where_they_are_not_stored(page: Page, site: str) -> None:
    page.goto(site + at(head="1.4", token=9, text=TEXT, why="9:3", writer="k:embedding"))
    trace = page.get_by_role("button", name="Trace it back")
    expect(trace).to_be_disabled()
    needed = page.locator("[data-needs-python]").filter(has_text=f'headscope trace "{TEXT}" --model')
    expect(needed).to_contain_text("This needs headscope on your machine:")
    cut = page.locator("[data-cut]")
    expect(cut).to_contain_text(re.compile("This needs headscope on your machine.*headscope serve"))
    expect(cut.get_by_role("checkbox")).to_be_disabled()
    page.goto(site + at(head="1.4", text=EXAMPLES[0]))
    expect(trace).to_be_enabled()
    expect(needed).to_have_count(0)


def test_an_edited_example_is_worked_out_in_the_browser(page: Page, site: str) -> None:
    page.goto(f"{site}#by-hand")
    page.get_by_role("slider", name="Share of animal, head 1").press("ArrowUp")
    expect(page).to_have_url(re.compile("#by-hand.*shares"))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_knocked_out_arrow_changes_the_prediction_as_in_python(page: Page, site: str, small: Scope) -> None:
    page.goto(f"{site}#cards")
    found = page.evaluate(ASK, ["look", {"text": TEXT}])
    look = small.look(TEXT)
    last = len(look.tokens) - 1
    cut = {"head": "1.4", "query": last, "key": 3}
    asked = {"look": found["look"], "position": last, "off": [], "cuts": [cut], "how": "zero", "count": 6}
    told = page.evaluate(ASK, ["predict", asked])
    ids = [guess["id"] for guess in told["guesses"]]
    edited = logits_under(look, [knock_out("1.4", last, 3)])[last].double().softmax(-1)[ids].tolist()
    assert told["without"] == pytest.approx(edited, abs=1e-4)


@pytest.mark.parametrize("minus", ["mean", "others", 2])
def test_a_score_is_split_over_writers_as_in_python(page: Page, site: str, small: Scope, minus: str | int) -> None:
    page.goto(f"{site}#cards")
    found = page.evaluate(ASK, ["look", {"text": TEXT}])
    asked = {"head": "1.4", "query": 9, "key": 5, "minus": minus}
    told = page.evaluate(ASK, ["why", {"look": found["look"], **asked}])
    python = split_arrow(small.look(TEXT), WhyRequest(look=found["look"], **asked)).model_dump()
    assert told["error"] < 1e-5
    told["error"] = python["error"]
    for side in ("asked", "answered"):
        assert [share["name"] for share in told[side]] == [share["name"] for share in python[side]]
    assert_close(told, python)


def assert_close(told: Any, python: Any) -> None:
    """Equal, numbers to 1e-4: both sum single-precision numbers, in another order."""
    if isinstance(python, dict):
        assert told.keys() == python.keys()
        for name in python:
            assert_close(told[name], python[name])
    elif isinstance(python, list):
        assert len(told) == len(python)
        for one, other in zip(told, python, strict=True):
            assert_close(one, other)
    elif isinstance(python, float):
        assert told == pytest.approx(python, abs=1e-4)
    else:
        assert told == python


def test_a_host_that_allows_threads_serves_the_same_numbers(browser: Browser, isolated_site: str, small: Scope) -> None:
    page = browser.new_page()
    try:
        strays = watched(page, isolated_site)
        page.goto(f"{isolated_site}#cards")
        assert page.evaluate("crossOriginIsolated")
        found = page.evaluate(ASK, ["look", {"text": TEXT}])
        whole = {"rows": [0, 99], "columns": [0, 99], "pool": 1, "how": "max", "measure": "weight", "aside": False}
        tile = page.evaluate(ASK, ["weights", {"look": found["look"], "head": "1.4", **whole}])
        assert tile["weights"] == pytest.approx(small.look(TEXT).pattern("1.4").flatten().tolist(), abs=1e-5)
        assert strays == []
    finally:
        page.close()


def test_the_site_may_be_shown_in_a_frame(page: Page, site: str) -> None:
    page.goto(f"{site}#learn")  # on this address: Chromium keeps pages from elsewhere away from a local one
    expect(page.get_by_text("About this website")).to_be_visible()
    named = page.get_by_role("navigation").get_by_role("link", name="Documentation")
    expect(named).to_have_attribute("href", "docs/index.html")
    frame = "src => document.body.append(Object.assign(document.createElement('iframe'), { src }))"
    page.evaluate(frame, f"{site}?framed#cards")
    framed = page.frame_locator("iframe")
    expect(framed.get_by_text("About this website")).to_be_visible()
    framed.get_by_text("About this website").click()
    cited = framed.get_by_role("link", name="How to cite headscope")
    expect(cited).to_have_attribute("href", re.compile("CITATION.cff"))


def test_an_example_is_shown_without_the_model_which_a_typed_text_starts(page: Page, site: str) -> None:
    page.goto(site + at(head="1.4", text=EXAMPLES[0]))
    expect(page.locator("[data-without]:not(:empty)").first).to_be_visible()
    assert page.workers == []
    with page.expect_worker():
        page.goto(site + at(head="1.4", text=TEXT))


def test_model_is_kept_for_the_next_visit_and_a_page_that_does_not_come_is_not_entered(
    browser: Browser, site: str
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    fetched: list[str] = []
    context.on("request", lambda request: fetched.append(request.url.rpartition("/")[2]))
    for visit in range(2):
        opened = context.new_page()
        opened.goto(site + at(head="1.4", text=TEXT))
        expect(opened.locator("[data-guess]:not(:empty)").first).to_be_visible()
        assert fetched.count("weights.bin") == 1, f"visit {visit}"
    context.set_offline(True)
    address = opened.url
    opened.evaluate("location.hash = '#film'")
    expect(opened.get_by_text("could not be fetched. Check your network connection")).to_be_visible()
    assert opened.url == address
    expect(opened.locator("nav [aria-current]")).to_have_text("Microscope")
    context.close()
