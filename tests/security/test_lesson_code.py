"""A reader's code reaches neither the page, its cookies, the API nor the network, and does not run for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, Page, expect, sync_playwright

import headscope
from headscope.app.pages.microscope import Session
from headscope.app.server import sandbox
from headscope.app.server.guard import HEADERS
from tests.app.conftest import small_model, word_tokenizer
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, PATIENCE, served, until

pytestmark = pytest.mark.promise("Code in lessons runs in the reader's browser")


def test_the_sandbox_s_policy_allows_its_own_script_and_no_connection():
    policy = dict((*part.split(" ", 1), "")[:2] for part in sandbox.headers()["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["connect-src"] == "'none'"
    assert policy["sandbox"] == "allow-scripts"
    assert policy["frame-ancestors"] == "'self'"
    assert "'self'" not in policy["script-src"]
    assert "unsafe-inline" not in policy["script-src"]
    assert "'unsafe-eval'" not in policy["script-src"]
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"], "the page itself is framed by nobody"


@pytest.fixture(scope="module")
def lesson() -> Iterator[Page]:
    with (
        headscope.load(small_model(), word_tokenizer()) as scope,
        served(Session(scope)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto(address)
        page.evaluate("document.cookie = 'secret=1'; localStorage.secret = 1")
        page.goto(f"{address}#learn?lesson=0")
        expect(page.locator("[data-code]")).to_be_visible(timeout=PATIENCE)
        yield page
        browser.close()


def ran(page: Page, code: str) -> str:
    """Run code in the lesson's block, and return what it printed."""
    page.get_by_label("Code that you can change").fill(code)
    page.get_by_role("button", name="Run", exact=True).click()
    output = page.locator("[data-ran]")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible(timeout=PATIENCE)
    expect(output).to_be_visible(timeout=PATIENCE)
    return output.inner_text()


@pytest.mark.browser
def test_code_runs_with_numpy_and_reports_its_own_lines(lesson: Page):
    assert "[1. 3.]" in ran(lesson, "import numpy as np\nprint(np.array([[1, 2], [0, 3.]]).diagonal())")
    told = ran(lesson, "a = 1\nb = a / 0")
    assert 'File "<your code>", line 2' in told
    assert "ZeroDivisionError" in told
    assert "b" not in ran(lesson, "print('b' in globals() or 'nothing of the last run')").split("\n")[0][:1]
    ran(lesson, "import builtins\nbuiltins.left_there = 1")
    assert "NameError" in ran(lesson, "print(left_there)")


ESCAPES = {
    "the page's document": "import js\nprint('OUT', js.document.cookie)",
    "fetch of js": "from js import fetch\nprint('OUT')",
    "XMLHttpRequest": "from js import XMLHttpRequest\nprint('OUT')",
    "postMessage": "from js import postMessage\nfor _ in range(100000): postMessage('flood')\nprint('OUT')",
    "a script of one's own": "from pyodide.code import run_js\nrun_js('fetch(\"/api/model\")')\nprint('OUT')",
    "the function constructor": (
        "import pyodide_js\npyodide_js.runPython.constructor('return globalThis')()\nprint('OUT')"
    ),
    "Pyodide's own request": "from pyodide.http import open_url\nprint('OUT', open_url('/api/model').read())",
    "a socket": "import socket\nsocket.create_connection(('127.0.0.1', 80), timeout=2)\nprint('OUT')",
    "a timer": "from js import setTimeout\nprint('OUT')",
    "another package": (
        "import pyodide_js, asyncio\n"
        "asyncio.run(pyodide_js.loadPackage('https://example.com/a.whl'))\nimport a\nprint('OUT')"
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize("way", ESCAPES)
def test_every_way_out_is_closed(lesson: Page, way: str):
    asked: list[str] = []
    lesson.on("request", lambda request: asked.append(request.url))
    told = ran(lesson, ESCAPES[way])
    assert "OUT" not in told.splitlines()
    assert not any(line.startswith("OUT ") for line in told.splitlines())
    assert [url for url in asked if "/python/" not in url and not url.startswith("blob:")] == []


@pytest.mark.browser
def test_the_document_around_it_has_no_origin_and_no_connection(lesson: Page):
    ran(lesson, "1")  # then a new document takes the place of this run's
    until(lesson, lambda: any(frame.url.endswith("/python/sandbox.html") for frame in lesson.frames))
    frame = next(frame for frame in lesson.frames if frame.url.endswith("/python/sandbox.html"))
    for reach in ("document.cookie", "localStorage.length", "parent.document.title", "parent.localStorage"):
        assert refused(frame, reach), reach
    for call in ("fetch('/api/model')", "fetch('https://example.com')"):
        assert frame.evaluate(f"{call}.then(() => 'reached', () => 'refused')") == "refused", call
    origin = lesson.evaluate("location.origin")
    script = f"fetch('{origin}/api/model').then(() => postMessage('reached'), () => postMessage('refused'))"
    worker = f"new Worker(URL.createObjectURL(new Blob([`{script}`])))"
    said = frame.evaluate(f"new Promise((done) => ({worker}.onmessage = ({{ data }}) => done(data)))")
    assert said == "refused"


def refused(frame: Frame, expression: str) -> bool:
    return bool(
        frame.evaluate(f"(() => {{ try {{ void ({expression}); return false; }} catch {{ return true; }} }})()")
    )


@pytest.mark.browser
def test_endless_output_is_cut_and_endless_code_ended_and_large_memory_refused(lesson: Page):
    assert "only the first 20,000 characters" in ran(lesson, "for n in range(100000): print('x' * 80)")
    assert "MemoryError" in ran(lesson, "keep = []\nwhile True: keep.append(bytearray(50_000_000))")
    assert "Stopped after 10 seconds" in ran(lesson, "while True:\n    print('still here')")
    assert "[2 4]" in ran(lesson, "import numpy as np\nprint(2 * np.array([1, 2]))"), "the next run begins anew"
    lesson.get_by_label("Code that you can change").fill("while True: pass")
    lesson.get_by_role("button", name="Run", exact=True).click()
    lesson.get_by_role("button", name="Stop", exact=True).click()
    expect(lesson.get_by_role("button", name="Run", exact=True)).to_be_visible(timeout=PATIENCE)
