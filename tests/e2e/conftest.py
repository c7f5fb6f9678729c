"""A real browser on the real page: the server runs in a thread, on the embedded model where it has been built."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from starlette.types import ASGIApp

import headscope
from headscope.app.model_registry import ModelRegistry, Opener
from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, application
from headscope.app.server.serve import UVICORN
from headscope.scope import EMBEDDED, Scope
from tests.app.conftest import small_model, word_tokenizer

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
REFUSED = ("status of 422", "status of 413")  # Chromium reports every refused request; the page says why in words
HERE = Path(__file__).parent
AXE = HERE.parents[1] / "web/node_modules/axe-core/axe.min.js"

STOPS = 300  # seconds; it gives running requests five
PATIENCE = 120_000  # milliseconds: a wait ends as soon as what it waits for is there, and a busy machine is slow

expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def scope() -> Iterator[Scope]:
    embedded = (EMBEDDED / "config.json").exists()
    with headscope.load() if embedded else headscope.load(small_model(), word_tokenizer()) as opened:
        yield opened


@pytest.fixture(scope="session")
def session(scope: Scope) -> Session:
    return Session(scope)


@pytest.fixture(scope="session")
def address(session: Session) -> Iterator[str]:
    with served(session) as opened:
        yield opened


@contextmanager
def served(
    *sessions: Session, censuses: Censuses | None = None, port: int = 0, opener: Opener | None = None
) -> Iterator[str]:
    """The page's address, while its server runs in a thread."""
    with running(application(ModelRegistry(*sessions, opener=opener), censuses=censuses), port) as address:
        yield address


class Server(uvicorn.Server):
    """Leaves no connection open: one that came while the server ended would be found, unclosed, by a later test."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # they are closed after this turn of the loop


@contextmanager
def running(app: ASGIApp, port: int = 0, host: str = HOST) -> Iterator[str]:
    """The address of an application, while it runs in a thread on this port, or on any that is free."""
    server = Server(uvicorn.Config(app, **UVICORN))
    listening = socket.create_server((host, port))  # here, so that no one takes the port in between
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.02)
        yield f"http://{HOST}:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(STOPS)
        assert not thread.is_alive(), "the server does not stop; it is in\n" + "".join(
            traceback.format_stack(sys._current_frames()[thread.ident or 0])
        )


def until(page: Page, condition: Callable[[], object]) -> None:
    """Wait for what the page's events bring about."""
    for _ in range(PATIENCE // 20):
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"not within {PATIENCE // 1000} seconds")


def fits(page: Page, width: int) -> None:
    """At this width the page comes to rest without a horizontal scroll bar."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(150)  # what follows the new width begins; it ends when it ends
    until(page, lambda: page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def serious_violations(page: Page) -> list[tuple[str, str]]:
    """The rules of accessibility that a page violates seriously, each with its first element; skips without axe."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in web/")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:160]) for rule in found if rule["impact"] in ("serious", "critical")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each file: while it is open, its event loop stands in the way of others in this process."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """A person at the page. Every request must stay on this machine, and the console must stay quiet."""
    opened = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    opened.set_default_timeout(PATIENCE)
    strays: list[str] = []
    opened.on(
        "request", lambda request: request.url.startswith((address, "data:", "blob:")) or strays.append(request.url)
    )
    opened.on(
        "console",
        lambda said: (
            strays.append(said.text) if said.type == "error" and not any(one in said.text for one in REFUSED) else None
        ),
    )
    opened.on("weberror", lambda error: strays.append(str(error.error)))
    yield opened
    opened.close()
    assert strays == []


@pytest.fixture
def open_page(context: BrowserContext, address: str) -> Callable[[str], Page]:
    """Open the page at a fragment and wait for its first pattern."""

    def open_at(fragment: str = "#microscope", query: str = "") -> Page:
        page = context.new_page()
        page.goto(f"{address}{query}{fragment}")
        expect(page.get_by_role("application", name="Pattern of head").first).to_be_visible()
        return page

    return open_at
