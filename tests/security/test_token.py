"""A server for other machines answers only requests with its access token."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.server import application
from headscope.app.server.token import AccessToken

pytestmark = pytest.mark.promise("Access token for other machines")

PATHS = ["/", "/index.html", "/icon.svg", "/assets/index.js", "/assets/all.css", "/api/model", "/openapi.json"]


@pytest.fixture
def token() -> AccessToken:
    return AccessToken()


@pytest.fixture
def outside(session, token) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(session), token=token), base_url="http://lab.example:8765") as opened:
        yield opened


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_requests_without_the_token_are_refused(outside, path):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "headscope=wrong"}):
        answer = outside.get(path, headers=headers)
        assert answer.status_code == 401
        assert "open the whole address that the terminal printed" in answer.json()["message"]
    assert outside.post("/api/look", json={"text": "the lamp"}).status_code == 401


@pytest.mark.parametrize("given", ["", "x", "é", "\x7f"])
def test_a_wrong_token_is_refused_as_parameter_and_as_cookie(outside, token, given):
    assert outside.get("/", params={"token": given}).status_code == 401
    assert outside.get("/", params={"token": token.secret[:-1]}).status_code == 401
    wrong = {"cookie": f"{token.cookie}={given}".encode("latin-1")}
    assert outside.get("/", headers=wrong).status_code == 401


def test_the_first_visit_sets_a_cookie_and_removes_the_token_from_the_address(outside, token):
    for _ in range(2):
        first = outside.get("/", params={"theme": "dark", "token": token.secret}, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/?theme=dark")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"{token.cookie}={token.secret};")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    for path in PATHS:
        assert outside.get(path).status_code == 200, path
    assert outside.post("/api/look", json={"text": "the lamp"}).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "///evil.example"])
def test_the_redirect_stays_on_this_server(session, token, path):
    with TestClient(application(ModelRegistry(session), token=token), base_url="http://lab.example") as outside:
        found = outside.get(f"http://lab.example{path}?token={token.secret}", follow_redirects=False)
    assert re.match(r"/(?![/\\])", found.headers["location"])


def test_a_bearer_header_is_accepted(outside, token):
    assert outside.get("/api/model", headers={"authorization": f"Bearer {token.secret}"}).status_code == 200


def test_a_cross_origin_request_is_refused_even_with_the_token(outside, token):
    outside.get("/", params={"token": token.secret})
    posted = outside.post("/api/look", json={"text": "the"}, headers={"origin": "http://evil.example"})
    assert posted.status_code == 403


def test_tokens_are_long_unique_and_not_in_the_repr(token):
    assert len({AccessToken().secret for _ in range(64)}) == len({AccessToken().cookie for _ in range(64)}) == 64
    assert len(token.secret) >= 32
    assert token.secret not in repr(token)


def test_tokens_are_compared_in_constant_time(outside, token, monkeypatch):
    compared: list[tuple[bytes, bytes]] = []
    real = secrets.compare_digest
    monkeypatch.setattr(secrets, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    outside.get("/", params={"token": "guess"})
    assert (b"guess", token.secret.encode()) in compared


@pytest.mark.quick
@pytest.mark.slow
def test_the_command_serves_other_machines_with_the_token_it_prints(tmp_path: Path):
    program_text = "from headscope.cli import main; main()"
    command = [sys.executable, "-c", program_text, "serve", "--host", "0.0.0.0", "--no-open"]
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert program.stderr is not None
        said = next(line for line in program.stderr if "?token=" in line)
        found = re.search(r":(\d+)/\?token=(\S+)", said)
        assert found is not None
        address = f"http://127.0.0.1:{found[1]}/"
        for _ in range(600):
            try:
                assert httpx.get(address, timeout=60).status_code == 401
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        with httpx.Client(follow_redirects=True, timeout=60) as person:
            assert person.get(address, params={"token": found[2]}).status_code == 200
            assert person.get(f"{address}api/model").status_code == 200
            assert "server" not in person.get(address).headers
    finally:
        program.terminate()
        program.communicate(timeout=120)
