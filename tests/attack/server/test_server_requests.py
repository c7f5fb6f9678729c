"""Requests that cost more than they send: lists of millions, countless mistakes, names and numbers of any size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.schema import MOST_MISTAKES
from headscope.app.server import HOST, application
from headscope.app.server.clients import SMALL_BODY
from headscope.app.wire import unpack
from tests.app.conftest import SENTENCE, scope, session
from tests.e2e.conftest import served
from tests.lab.crafted import trained_heads

__all__ = ["scope", "session"]
pytestmark = pytest.mark.promise("Limits")
DIGITS = "9" * 5_000


@pytest.fixture
def client(session) -> Iterator[TestClient]:
    made = application(ModelRegistry(session))
    with TestClient(made, base_url=f"http://{HOST}", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture
def address(session) -> Iterator[str]:
    with served(session) as opened:
        yield opened


def posted(client: TestClient, path: str, body: bytes) -> httpx.Response:
    return client.post(path, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("item", [b"0", b"[]", b"{}", b'""', b'"a"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_list_of_hundreds_of_thousands_is_an_error_by_its_length(client, item, encoding):
    body = b'{"look":"x","position":0,"off":[' + b",".join([item] * 2**19) + b"]}"
    told = posted(client, "/api/predict", body.decode().encode(encoding))
    assert told.status_code == 422
    assert "off: List should have at most 4096 items" in told.json()["message"]


@pytest.mark.parametrize("letters", ['"', "\\", "[", "{,", "\u0001", "ä", "a"])
def test_a_long_text_of_any_letters_is_taken(client, letters):
    text = letters * (SMALL_BODY // len(letters) + 1)
    told = client.post("/api/token", json={"text": text})
    assert (told.status_code, "at most 200 characters" in told.json()["message"]) == (422, True)


def test_the_largest_heads_of_64_words_are_taken(client):
    words = " ".join(f"word{number}" for number in range(64))
    asked = trained_heads(words, heads=8, d_head=32)
    assert client.post("/api/lab/craft/open", json=asked).status_code == 200


def test_countless_mistakes_are_told_as_one(client):
    body = {str(number): 0 for number in range(5_000)}
    told = client.post("/api/predict", json=body)
    assert told.json()["message"] == "the request: 5002 fields or items are wrong"
    arrow = {"head": "0.0", "query": 0, "key": 0} | body
    nested = client.post("/api/predict", json={"look": "x", "position": 0, "cuts": [arrow]})
    assert nested.json()["message"] == "cuts.0: 5000 fields or items are wrong"
    few = client.post("/api/predict", json={"look": "x", "position": 0, "off": [0] * MOST_MISTAKES})
    assert few.json()["message"] == "off.0: Input should be a valid string"
    many = client.post("/api/predict", json={"look": "x", "position": 0, "off": [0] * 5_000})
    assert many.json()["message"] == "off: List should have at most 4096 items after validation, not 5000"


@pytest.mark.parametrize("name", ["x" * 65, "\ud800", DIGITS, f"0.{DIGITS}", "0.\u00b2"], ids=range(5))
@pytest.mark.parametrize("field", ["look", "head", "site", "off", "writer", "reader"])
def test_a_name_that_cannot_be_one_is_an_error_in_words(client, field, name):
    known = {"look": "x", "head": "0.0", "site": "0", "position": 0, "writer": "0.0", "reader": "1.0"}
    fields = {
        "weights": {"look", "head", "rows", "columns"}, "attribution": {"look", "site", "position"},
        "predict": {"look", "position", "off"}, "importance": {"look"}, "received": {"look", "head"},
        "why": {"look", "head", "query", "key"}, "trace": {"look", "position"},
        "cut-path": {"look", "writer", "reader", "query"},
    }  # fmt: skip
    known |= {"rows": [0, 1], "columns": [0, 1], "off": [], "query": 0, "key": 0}
    known["look"] = client.post("/api/look", json={"text": SENTENCE}).content.partition(b'"look":"')[2][:32].decode()
    for path, names in fields.items():
        if field in names:
            value: Any = [name] if field == "off" else name
            body = {key: known[key] for key in names} | {field: value}
            told = posted(client, f"/api/{path}", json.dumps(body).encode())
            assert (path, told.status_code) == (path, 422)
            assert set(told.json()) == {"kind", "message"}


def test_a_census_has_no_head_of_five_thousand_digits(client):
    told = client.get("/api/censuses/1/head", params={"head": f"0.{DIGITS}", "question": "previous"})
    assert (told.status_code, "is not a head name" in told.json()["message"]) == (422, True)


def test_names_of_looks_are_too_long_for_two_texts_to_be_made_with_one(client):
    """Of 16 digits, two texts with one name are found in an hour: who asks for one of them would see the other."""
    look = unpack(client.post("/api/look", json={"text": SENTENCE}).content).values["look"]
    assert len(look) == 32
