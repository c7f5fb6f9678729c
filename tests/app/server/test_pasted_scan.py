"""A pasted text is scanned as `Scope.scan` does, for the client that pasted it; its files open as a census."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tests.app.conftest import small_model, word_tokenizer
from tests.scan.tiny import texts

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import KEPT_OF_ONE, LONGEST_TEXT, PASTED, Censuses, ScanRequest
from headscope.app.pages.microscope import Session
from headscope.app.server import application
from headscope.app.server.fair_queue import ReaderLeftError
from headscope.app.wire import unpack
from headscope.attention.progress import progress_callback
from headscope.scan.census import Census
from headscope.scope import Scope

HOME = "http://127.0.0.1"
TEXT = "the cat sat on the mat and the cat sat on the mat again . " * 12


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    with headscope.load(small_model(), word_tokenizer()) as opened:
        yield opened


@pytest.fixture
def client(scope: Scope) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(Session(scope))), base_url=HOME) as opened:
        opened.get("/api/censuses")  # the browser gets its cookie
        yield opened


def scanned(client: TestClient, text: str = TEXT) -> dict[str, Any]:
    answer = client.post("/api/censuses", json={"text": text})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_scan_of_a_pasted_text_equals_the_librarys(client: TestClient, scope: Scope):
    made = scanned(client)
    own = scope.scan([TEXT], options=replace(PASTED, threads=1))
    assert made["number"] == 2  # after the one that ships
    assert made["corpus"] == "“the cat sat on the mat and the c…”"
    response = unpack(client.get("/api/censuses/2").content)
    names = [quantity["name"] for quantity in response.values["quantities"]]
    heads = [str(head) for head in own.heads()]
    for row in own.rows:
        place = names.index(row.question), heads.index(str(row.head))
        np.testing.assert_allclose(response.arrays["mean"][place], row.mean, rtol=1e-6)


def test_the_downloaded_files_open_as_that_census(client: TestClient, tmp_path: Path):
    scanned(client)
    answer = client.get("/api/censuses/2/files")
    assert answer.headers["content-disposition"] == 'attachment; filename="headscope-census-2.zip"'
    file = tmp_path / "mine.zip"
    file.write_bytes(answer.content)
    opened = Census.load(file)
    table = unpack(client.get("/api/censuses/2").content)
    assert opened.recipe.to_json() == table.values["recipe"]
    assert Censuses([file]).summaries()[0].tokens == table.values["tokens"]


def test_a_scan_belongs_to_the_client_that_made_it(client: TestClient):
    scanned(client)
    with TestClient(client.app, base_url=HOME) as other:
        other.get("/api/censuses")
        assert [each["number"] for each in other.get("/api/censuses").json()] == [1]
        assert other.get("/api/censuses/2").status_code == 422
        assert other.get("/api/censuses/2/files").status_code == 422
    assert [each["number"] for each in client.get("/api/censuses").json()] == [1, 2]


def test_of_each_client_the_last_scans_are_kept(client: TestClient):
    numbers = [scanned(client, text * 4)["number"] for text in texts(KEPT_OF_ONE + 2)]
    assert numbers == list(range(2, KEPT_OF_ONE + 4))
    listed = [each["number"] for each in client.get("/api/censuses").json()]
    assert listed == [1, *numbers[-KEPT_OF_ONE:]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a" * (LONGEST_TEXT + 1), "this text has 100,001 characters, and the page scans up to 100,000; put it in"),
        ("cat", "the corpus is empty: it has no text of two tokens or more"),
    ],
)  # fmt: skip
def test_a_text_too_long_or_too_short_is_refused(client: TestClient, text: str, said: str):
    answer = client.post("/api/censuses", json={"text": text})
    assert answer.status_code == 422
    assert said in answer.json()["message"]


def test_a_scan_tells_its_progress_and_one_that_is_stopped_leaves_nothing(scope: Scope):
    censuses, told = Censuses(), []
    asked = ScanRequest(text=TEXT * 12)
    with progress_callback(lambda what, done, total: told.append((what, done, total))):
        tokens = censuses.scan(scope, asked, "one").tokens
    scanning = [(done, total) for what, done, total in told if what == "scanning"]
    assert len(scanning) > 1
    assert scanning == sorted(scanning)
    assert scanning[-1] == (tokens, tokens)

    def leave(what: str, done: int, total: int) -> None:
        if what == "scanning":
            raise ReaderLeftError

    with progress_callback(leave), pytest.raises(ReaderLeftError):
        censuses.scan(scope, asked, "two")
    assert [each.number for each in censuses.summaries("two")] == [1]
