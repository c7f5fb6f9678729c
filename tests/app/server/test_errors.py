"""Error responses: one shape, the right status, no paths, and always encodable."""

from __future__ import annotations

import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from headscope import errors
from headscope.app.server.errors import add_error_handlers, problem_response


class Asked(BaseModel):
    head: str = Field(max_length=3)
    rows: tuple[int, int] = (0, 1)


@pytest.fixture(scope="module")
def client():
    app = FastAPI()
    add_error_handlers(app)

    @app.post("/raise/{kind}")
    def fail(kind: str) -> None:
        raise getattr(errors, kind)("the lamp in /home/me/house/lamp.json is out; light it")

    @app.post("/asked")
    def asked(asked: Asked) -> None: ...

    @app.get("/teapot")
    def teapot() -> None:
        raise HTTPException(418, "short and stout: /etc/teapot", {"x-spout": "here"})

    with TestClient(app) as opened:
        yield opened


@pytest.mark.parametrize(
    "kind",
    [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.HeadscopeError)],
)
def test_every_headscope_error_is_a_422_with_its_kind_and_message(client, kind):
    answer = client.post(f"/raise/{kind}")
    assert answer.status_code == 422
    assert answer.json()["kind"] == kind
    assert answer.json()["message"].startswith("the lamp in …/lamp.json is out; light it")
    assert "house" not in answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"head": "0.0.0"}, "head: String should have at most 3 characters"),
        ({}, "head: Field required"),
        ({"head": "0.0", "rows": [0, "x"]}, "rows.1: Input should be a valid integer"),
        ([], "the request: Input should be a valid dictionary"),
        (None, "the request: Field required"),
    ],
)
def test_an_invalid_request_names_the_invalid_field(client, body, said):
    answer = client.post("/asked", json=body)
    assert (answer.status_code, answer.json()["kind"]) == (422, "InputError")
    assert said in answer.json()["message"]


def test_an_http_error_keeps_its_headers_and_hides_paths(client):
    answer = client.get("/teapot")
    assert (answer.status_code, answer.headers["x-spout"]) == (418, "here")
    assert answer.json()["message"] == "short and stout: …/teapot"
    assert client.get("/asked").headers["allow"] == "POST"


@pytest.mark.parametrize("text", ["\ud800", "lamp \udfff lamp", "שלום 🐎", "\x00", '"</script>'])
def test_any_quoted_text_can_be_sent(text):
    response = json.loads(problem_response("InputError", f"there is no {text}", 422).body)
    assert response["message"].startswith("there is no ")
    response["message"].encode("utf-8")


def test_messages_turn_no_letters_around():
    response = problem_response("InputError", "\u202elive is no head; write it as \x1b[31m5.1", 422)
    assert json.loads(response.body)["message"] == "�live is no head; write it as ␛[31m5.1"
