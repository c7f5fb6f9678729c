"""A published site behind a plain file server, in a real browser: what it computes is what Python computes."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from playwright.sync_api import Browser, Page, expect

import headscope
from headscope.app.pages.predictions import logits_under
from headscope.app.publish.site import PublishOptions, publish
from headscope.heads.look.edits import ablate, knock_out
from headscope.scope import Scope
from tests.app.conftest import SENTENCE, small_model, word_tokenizer

TEXT = " ".join(SENTENCE.split()[:12])
LONG = " ".join(SENTENCE.split()[at % 17] for at in range(512))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model as a folder of weights."""
    made = tmp_path_factory.mktemp("small")
    small_model().save_pretrained(made)
    word_tokenizer().save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[Scope]:
    with headscope.load(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site's address, while a server of files runs in a thread."""
    out = tmp_path_factory.mktemp("published") / "site"
    jaxtyping.config.update("jaxtyping_disable", True)  # while a model is exported its lengths are symbols
    try:
        made = publish(PublishOptions(out=out, models=[str(folder)], i_may=True, title="<i>Heads</i>"))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    assert made.models[0].why_not == ""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(out)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A visitor. Every request must stay on the site, and the console must stay quiet."""
    opened = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    opened.set_default_timeout(120_000)
    strays: list[str] = []
    opened.on("request", lambda request: request.url.startswith((site, "data:", "blob:")) or strays.append(request.url))
    opened.on("console", lambda said: strays.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: strays.append(str(error)))
    yield opened
    opened.close()
    assert strays == []


def read(page: Page, site: str, text: str) -> None:
    page.goto(f"{site}#microscope")
    box = page.get_by_role("textbox").first
    expect(box).to_be_enabled()
    box.fill(text)
    box.press("Enter")
    pattern = page.get_by_role("application", name="Pattern of head").first
    expect(pattern).to_be_visible()


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
    const folder = absolute(site.models[0].folder);
    await window.asked("open", { runtime: absolute(site.runtime), folder, bytes: 1 });
  }
  const { value, problem } = await window.asked(ask, body);
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
    assert tile["weights"] == pytest.approx(look.pattern("1.4").flatten().tolist(), abs=1e-4)
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


def test_a_visitor_types_a_text_and_zooms_into_512_tokens(page: Page, site: str) -> None:
    read(page, site, TEXT)
    expect(page.get_by_text("About this site")).to_be_visible()
    expect(page.get_by_text("<i>Heads</i>")).to_be_visible()
    read(page, site, LONG)
    pattern = page.get_by_role("application", name="Pattern of head").first
    pattern.focus()
    for _ in range(3):
        page.keyboard.press("+")
    expect(pattern).to_be_visible()


def test_heads_are_trained_in_the_browser_and_what_needs_python_is_greyed(page: Page, site: str) -> None:
    page.goto(f"{site}#learn/1")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto(f"{site}#four-heads")
    expect(page.locator("[data-step]")).to_have_text("120")
    expect(page.get_by_role("button", name="Open these heads in the microscope")).to_be_disabled()
    expect(page.locator("[data-needs-python]")).to_contain_text("This needs headscope on your machine: headscope serve")


def test_an_edited_example_is_worked_out_in_the_browser(page: Page, site: str) -> None:
    page.goto(f"{site}#by-hand")
    share = page.get_by_role("slider").first
    share.press("ArrowLeft")
    expect(page).to_have_url(re.compile("#by-hand.*scorecard"))
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


def test_the_site_may_be_shown_in_a_frame(page: Page, site: str) -> None:
    page.goto(f"{site}#learn")  # on this address: Chromium keeps pages from elsewhere away from a local one
    expect(page.get_by_text("About this site")).to_be_visible()
    frame = "src => document.body.append(Object.assign(document.createElement('iframe'), { src }))"
    page.evaluate(frame, f"{site}?framed#cards")
    framed = page.frame_locator("iframe")
    expect(framed.get_by_text("About this site")).to_be_visible()
    framed.get_by_text("About this site").click()
    expect(framed.get_by_role("link", name="How to cite headscope")).to_have_attribute("href", "CITATION.cff")
