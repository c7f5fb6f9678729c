"""A published site beside Python, in a real browser: ``python bench/publish.py SITE --out bench/results/publish.json``.

SITE is what ``headscope publish --out SITE`` wrote for the embedded model, or for ``--model``. Its own worker reads 200
texts (sentences, random letters, code, emoji, odd spaces, one token, 512 tokens). Reported: whether all token ids are
equal; the largest difference of a probability, of an attention weight and of a head's score; sizes; when a page of a
second visit can be used; times of 16 and 256 tokens. ``--one-file FILE`` is read from the disk, without a network.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import platform
import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import headscope
from headscope.app.pages.microscope import LookRequest, Session
from headscope.app.pages.predictions import PredictRequest
from headscope.app.publish.site import sizes_of

COUNT = 200
REPEATED = "My white horse drank at the river. My white horse drank at the"
BEFORE_THE_MODEL = ("assets", "answers", "index.html", "site.json", "icon.svg")
ON_DEMAND = ("looks", "python", "api", "CITATION.cff")  # fetched when somebody asks for them
WORKER = """async ([runtime, folder]) => {
  const worker = new Worker("assets/worker.js", { type: "module" });
  const waiting = new Map();
  let last = 0;
  worker.onmessage = ({ data }) => {
    if (data.progress) return;
    waiting.get(data.id)(data.problem ? { problem: data.problem.message } : data.value);
  };
  window.ask = (ask, body) => new Promise((resolve) => {
    waiting.set(++last, resolve);
    worker.postMessage({ id: last, ask, body });
  });
  const absolute = (path) => new URL(path, document.baseURI).href;
  const names = ["graph.onnx", "weights.bin", "model.bin", "tokenizer.json", "tokenizer_config.json"];
  const files = Object.fromEntries(names.map((name) => [name, absolute(`${folder}${name}`)]));
  const began = performance.now();
  await window.ask("open", { runtime: absolute(runtime), files, bytes: 1 });
  return performance.now() - began;
}"""
READ = """async ([text, head]) => {
  const began = performance.now();
  const look = await window.ask("look", { text });
  if (look.problem) throw new Error(look.problem);
  const read = performance.now() - began;
  const position = look.tokens.length - 1;
  const asked = { look: look.look, position, off: [], cuts: [], how: "zero", count: 6, sampling: null };
  const { guesses } = await window.ask("predict", asked);
  const { without } = await window.ask("predict", { ...asked, off: [head] });
  const all = [0, look.tokens.length];
  const rows = [Math.max(0, position - 40), position + 1];
  const tile = await window.ask("weights", {
    look: look.look, head, rows, columns: all, pool: 1, how: "max", measure: "weight", aside: false,
  });
  return { ids: look.tokens.map((token) => token.id), scores: [...look.scores], guesses, without,
    weights: [...tile.weights], read };
}"""


def texts(count: int = COUNT) -> list[str]:
    """The same texts on every run."""
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz ABC 0123456789 .,;:!?()[]{}<>/\\|@#$%^&*_+-='\"\n\t"
    odd = [
        "🙂🙃",
        "naïve café",
        "東京に行く",
        "Ünïcödé",
        "  two  spaces  ",
        "tab\there",
        "a\u00a0b",
        "é",
        "👩‍👩‍👧",
        "\r\n",
        "x² ≤ ∞",
    ]
    code = ["def f(x):\n    return x ** 2  # square", "for (let i = 0; i < 9; i++) { s += a[i]; }", "SELECT * FROM t;"]
    passages = [file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))]
    found = ["A", "the", *code, *odd, " ".join(passages)[:2200]]
    while len(found) < count // 2:
        found.append("".join(draw.choice(letters) for _ in range(draw.randint(3, 80))) + draw.choice(odd))
    while len(found) < count:
        passage = draw.choice(passages)
        begins = draw.randrange(max(1, len(passage) - 200))
        found.append(passage[begins : begins + draw.randint(20, 200)] + draw.choice(["", *odd]))
    return [text if text.strip() else f"{text}x" for text in found]


def switched_off(session: Session) -> str:
    """The head that is read and switched off: the best at induction on a repeated sentence."""
    _, arrays = session.look(LookRequest(text=REPEATED))
    model = session.model()
    names = [f"{site.name}.{head}" for site in model.sites for head in range(site.n_heads)]
    question = [each.name for each in model.questions].index("induction")
    scores = arrays["answers"].reshape(len(model.questions), -1)[question]
    return names[int(np.nanargmax(scores))]


def compare(page: Page, session: Session, head: str, count: int) -> dict[str, Any]:
    """Read every text in both, and keep the largest differences."""
    worst = {"probability": 0.0, "probability_without_a_head": 0.0, "weight": 0.0, "score": 0.0}
    different, longest = [], 0
    for text in texts(count):
        ours = page.evaluate(READ, [text, head])
        told, arrays = session.look(LookRequest(text=text))
        ids = [token.id for token in told.tokens]
        longest = max(longest, len(ids))
        if ids != ours["ids"]:
            different.append(text)
            continue
        at = len(ids) - 1
        asked = PredictRequest(look=told.look, position=at, off=[head])
        theirs = session.predict(asked)
        mine = {guess["id"]: guess["probability"] for guess in ours["guesses"]}
        pairs = {
            "probability": [(mine[each.id], each.probability) for each in theirs.guesses if each.id in mine],
            "probability_without_a_head": [
                (edited, theirs.without[index])
                for index, (guess, edited) in enumerate(zip(ours["guesses"], ours["without"], strict=True))
                if theirs.without and guess["id"] == theirs.guesses[index].id
            ],
            "weight": list(zip(ours["weights"], _rows(session, told.look, at, head), strict=True)),
            "score": [
                pair for pair in zip(ours["scores"], arrays["answers"].flatten().tolist(), strict=True)
                if not (pair[0] is None or np.isnan(pair[1]))
            ],
        }  # fmt: skip
        for name, values in pairs.items():
            worst[name] = max([worst[name], *(abs(one - other) for one, other in values)])
    return {"texts": len(texts(count)), "longest": longest, "different_ids": different, "largest_difference": worst}


def _rows(session: Session, look: str, at: int, head: str) -> list[float]:
    """The weights of one head at the last rows of a text."""
    opened = session.kept.look(look)
    assert opened is not None
    return opened.look.pattern(head)[max(0, at - 40) :].flatten().tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--model", help="the model that the site was made from; the embedded one if none")
    parser.add_argument("--one-file", type=Path, help="the same site as one file, read from the disk")
    parser.add_argument("--out", type=Path, help="where the results go; those that are not measured now stay")
    parser.add_argument("--count", type=int, default=COUNT, help="texts to compare")
    parser.add_argument("--times", action="store_true", help="measure times alone, without the texts")
    given = parser.parse_args()
    with headscope.load(given.model) as scope, sync_playwright() as playwright, served(given.site) as home:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(300_000)
        usable = second_visit(page, home)
        described = json.loads((given.site / "site.json").read_text(encoding="utf-8"))
        opened = page.evaluate(WORKER, [described["runtime"], described["models"][0]["folder"]])
        head = switched_off(Session(scope))
        results: dict[str, Any] = {} if given.times else compare(page, Session(scope), head, given.count)
        measured = {**usable, "model_ready": opened, **times(page, scope, head)}
        results |= {"head": head, "milliseconds": measured}
        page.close()
        if given.one_file:
            results["one_file"] = from_disk(browser, given.one_file, scope)
        browser.close()
    report(results, given.site, given.out)


def report(results: dict[str, Any], site: Path, out: Path | None) -> None:
    """Print the results with the sizes of the site, and keep them."""
    sizes = sizes_of(site)
    results |= {"bytes": sizes, "first_visit": sum(sizes.values()) - sum(sizes.get(part, 0) for part in ON_DEMAND)}
    results["before_the_model"] = sum(sizes.get(part, 0) for part in BEFORE_THE_MODEL)
    results["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "busy": os.getloadavg()[0]}
    print(json.dumps(results, indent=2, ensure_ascii=False))
    if out:
        before = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        out.write_text(json.dumps(before | results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site behind a plain file server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def second_visit(page: Page, home: str) -> dict[str, float]:
    """Milliseconds from the click on a link until a page can be used, with its files cached."""
    found = {}
    places = {"start": page.locator("main h1"), "microscope": page.get_by_label("Sentence")}
    for name, place in places.items():
        for _ in range(2):
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(f"{home}#{name}", wait_until="commit")
            place.first.wait_for()
        found[f"{name} usable"] = (time.perf_counter() - began) * 1e3
    return found


def from_disk(browser: Browser, file: Path, scope: headscope.scope.Scope) -> dict[str, float]:
    """Read a sentence in the one file without a network; the difference of the weight that the page shows."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(300_000)
    page.goto(f"{file.resolve().as_uri()}#microscope")
    box = page.get_by_label("Sentence")
    box.fill(REPEATED)
    box.press("Enter")
    look = scope.look(REPEATED)
    page.get_by_role("listbox").get_by_role("option").nth(len(look.tokens) - 1).wait_for()
    page.wait_for_timeout(2_000)
    head = page.get_by_role("heading", name="Head").inner_text().split()[-1]
    shown = float(page.locator(".inspector .number").first.inner_text())
    context.close()
    return {"bytes": file.stat().st_size, "weight": abs(shown - float(look.pattern(head)[-1].max()))}


def times(page: Page, scope: headscope.scope.Scope, head: str) -> dict[str, float]:
    """Milliseconds to read texts of 16 and 256 tokens for the first time, here and in Python: medians of five."""
    found = {}
    for length in (16, 256):
        here, there = [], []
        for number in range(5):
            text = f"{number}" + " river" * (length - 2)
            here.append(page.evaluate(READ, [text, head])["read"])
            began = time.perf_counter()
            Session(scope).look(LookRequest(text=text))
            there.append((time.perf_counter() - began) * 1e3)
        found |= {f"{length} tokens": float(np.median(here)), f"{length} tokens, Python": float(np.median(there))}
    return found


if __name__ == "__main__":
    main()
