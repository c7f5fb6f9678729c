"""The small model's published site behind a plain file server, and the same site as one file on a disk."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jaxtyping
import pytest
from playwright.sync_api import Browser, Page

import headscope
from headscope.app.publish.site import PublishOptions, one_file, publish
from headscope.scope import Scope
from tests.app.conftest import small_model, word_tokenizer

TITLE = "<i>Heads</i>"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model as a folder of weights."""
    made = tmp_path_factory.mktemp("small")
    small_model().save_pretrained(made)
    word_tokenizer().save_pretrained(made)
    return made


@pytest.fixture(scope="session")
def small(folder: Path) -> Iterator[Scope]:
    with headscope.load(folder) as opened:
        yield opened


@pytest.fixture(scope="session")
def published(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's folder. Its weights are random, so that it stores them in float32."""
    out = tmp_path_factory.mktemp("published") / "site"
    jaxtyping.config.update("jaxtyping_disable", True)  # while a model is exported its lengths are symbols
    try:
        options = PublishOptions(out=out, models=[str(folder)], i_may=True, title=TITLE, docs="docs/index.html")
        made = publish(options)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    assert made.models[0].why_not == ""
    return out


class Isolated(Quiet):
    """A host that lets pages use several threads."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


@pytest.fixture(scope="module")
def site(published: Path) -> Iterator[str]:
    """The site's address, while a server of files runs in a thread."""
    with served(published, Quiet) as address:
        yield address


@pytest.fixture
def isolated_site(published: Path) -> Iterator[str]:
    with served(published, Isolated) as address:
        yield address


@contextmanager
def served(folder: Path, handler: type[Quiet]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@pytest.fixture(scope="session")
def file_on_disk(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("one") / "heads.html"
    written.write_bytes(one_file(published, TITLE))
    return written


@pytest.fixture(params=["site", "one file"])
def home(request: pytest.FixtureRequest) -> str:
    """The address of the site, and of the one file."""
    if request.param == "site":
        return str(request.getfixturevalue("site"))
    return Path(request.getfixturevalue("file_on_disk")).as_uri()


@pytest.fixture
def visitor(browser: Browser, home: str) -> Iterator[Page]:
    """A visitor, without a network where the site is one file. Every request must stay there, the console quiet."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, reduced_motion="reduce", offline=home.startswith("file:")
    )
    opened = context.new_page()
    with_nothing_stray = watched(opened, home)
    yield opened
    context.close()
    assert with_nothing_stray == []


def watched(page: Page, home: str) -> list[str]:
    """What a page asks elsewhere or complains about, as it happens."""
    strays: list[str] = []
    page.set_default_timeout(120_000)
    page.on("request", lambda request: request.url.startswith((home, "data:", "blob:")) or strays.append(request.url))
    page.on("console", lambda said: strays.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: strays.append(str(error)))
    return strays
