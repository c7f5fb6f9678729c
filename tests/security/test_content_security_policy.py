"""The Content-Security-Policy, and no requests to other servers from the page or the program."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

from headscope.app.server import STATIC
from headscope.app.server.guard import HEADERS
from tests.e2e.conftest import ARGUMENTS, CHROMIUM, until

pytestmark = pytest.mark.promise("No third-party content")


def test_the_policy_allows_no_inline_code_and_no_other_server():
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["font-src"] == "'self'"
    assert not re.search(r"unsafe|\*|https?:", HEADERS["Content-Security-Policy"])


@pytest.mark.browser
def test_a_browser_enforces_the_policy_and_the_page_works_under_it(address):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.goto(f"{address}#microscope")
        expect(page.get_by_role("textbox").first).to_be_visible()
        page.wait_for_timeout(500)
        assert said == [], "the page itself needs nothing that the policy forbids"
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = 1";
                document.body.append(script);
                const button = document.createElement("button");
                button.setAttribute("onclick", "window.ran = 2");
                document.body.append(button);
                button.click();
                try { setTimeout("window.ran = 3", 0); } catch {}
                return fetch("http://127.0.0.1:9/").catch(() => {});
            }"""
        )
        until(page, lambda: len(said) >= 3)
        assert page.evaluate("window.ran") is None
        browser.close()


def test_the_page_s_files_name_no_other_server():
    names = re.compile(r"https?://[^\s$\"'`)\\]+")
    # Namespaces, and addresses inside error messages: Svelte's, the bundler's and the browser runtime's.
    harmless = ("http://www.w3.org/", "https://svelte.dev/e/", "https://rolldown.rs/", "https://web.dev/")
    for file in [STATIC / "index.html", *STATIC.glob("assets/*.css"), *STATIC.glob("assets/*.js")]:
        found = [url for url in names.findall(file.read_text(encoding="utf-8")) if not url.startswith(harmless)]
        assert found == [], file.name


@pytest.mark.slow
def test_the_program_opens_no_connection_for_the_embedded_model():
    script = """
import socket
def refuse(self, address, *more):
    raise AssertionError(f"a connection to {address}")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = lambda *given, **more: refuse(None, given)
import headscope
with headscope.load() as scope:
    print(len(scope.look("The lamp burned.").tokens), len(scope.generate("The", 3).tokens))
"""
    assert socket.socket.connect is not None
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "3"
