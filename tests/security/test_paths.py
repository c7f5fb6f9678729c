"""No path traversal by clients, and no server paths in answers."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, STATIC, application
from headscope.app.server.errors import without_paths
from headscope.errors import ModelError
from tests.security.conftest import raw_get

DOTS = ["..", "%2e%2e", "%2E.", "..%2f", "..%5c", "%2e%2e%2f", "%252e%252e", "..\\", "....//", "%c0%ae%c0%ae", "..;"]
OUTSIDE = ["etc/passwd", "export/widget.js", "terminal.py", "server/guard.py"]


@pytest.mark.promise("No paths from clients")
def test_no_file_outside_the_page_s_folder_is_served(address):
    assert all((STATIC.parent / file).exists() for file in OUTSIDE[1:])
    for dots in DOTS:
        for depth in (1, 2, 9):
            for target in OUTSIDE:
                for path in ("/" + "/".join([dots] * depth) + "/" + target, f"/assets/{dots}/{dots}/{target}"):
                    status, body = raw_get(address, path)
                    assert status in (400, 404), path
                    assert b"import" not in body, path
                    assert b"root:" not in body, path


@pytest.mark.promise("No paths from clients")
@pytest.mark.parametrize(
    "path",
    ["//etc/passwd", "/%00", "/assets/%00index.js", "/index.html%00.png", "/" + "a" * 5000, "/%ff%fe", "/.", "/assets",
     "/file:///etc/passwd", "/C:%5cWindows", "/%0d%0aSet-Cookie:a=b", "/con", "/*", "/~root"],
)  # fmt: skip
def test_malformed_addresses_are_not_found(address, path):
    status, body = raw_get(address, path)
    assert status in (400, 404, 307, 200)
    if status == 200:
        assert body == (STATIC / "index.html").read_bytes()
    assert b"Traceback" not in body


@pytest.mark.promise("No paths from clients")
def test_a_symbolic_link_out_of_the_folder_is_not_followed(session, tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    (tmp_path / "page/index.html").write_text("page")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "page/out.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(sys.modules[application.__module__], "STATIC", tmp_path / "page")
    with TestClient(application(ModelRegistry(session)), base_url=f"http://{HOST}") as client:
        assert client.get("/index.html").status_code == 200
        assert client.get("/out.txt").status_code == 404


@pytest.mark.promise("No paths from clients")
@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "~/.ssh", "..", "\x00", "a" * 500])
def test_names_are_looked_up_in_tables_and_never_opened_as_files(client, name, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened")

    assert client.get("/api/cards").status_code == 200  # our own file of cards is read once
    monkeypatch.setattr("pathlib.Path.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    assert client.get("/api/model", params={"model": name}).status_code == 422
    assert client.post("/api/look", params={"model": name}, json={"text": "the"}).status_code == 422
    assert client.post("/api/look", json={"look": name[:64]}).status_code == 422
    assert client.post("/api/models", json={"name": name}).status_code == 422
    assert client.post("/api/card", json={"name": name[:200]}).status_code == 422
    assert client.post("/api/card", json={"config": name}).status_code == 422
    if name.isprintable() and "/" not in name:
        assert client.get(f"/api/lessons/{name}").status_code in (404, 422)
        assert client.get(f"/api/censuses/{name}").status_code in (404, 422)


@pytest.mark.promise("No internals in error messages")
@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("/home/ann/models/gpt has no config.json (it holds a.txt)", "…/gpt has no config.json (it holds a.txt)"),
        ("there is no file /tmp/x.gguf", "there is no file …/x.gguf"),
        ("cannot read '/srv/My Models/one/a b.bin': gone", "cannot read '…/a b.bin': gone"),
        (r"C:\Users\ann\model is neither", "…/model is neither"),
        ("~/models/x: no", "…/x: no"),
        ("error at /usr/lib/python3.11/json/decoder.py:355", "error at …/decoder.py:355"),
        ("3/4 of org/model and/or n/a", "3/4 of org/model and/or n/a"),
        ("a name on https://example.org/models", "a name on https://example.org/models"),
    ],
)
def test_paths_in_messages_are_shortened_to_the_file_name(message, told):
    assert without_paths(message) == told


@pytest.mark.promise("No internals in error messages")
def test_an_error_about_a_folder_does_not_reveal_its_path(session, tmp_path):
    def opener(name: str):
        raise ModelError(f"{tmp_path / 'inner' / name} has no config.json")

    with TestClient(application(ModelRegistry(session, opener=opener)), base_url=f"http://{HOST}") as client:
        told = client.post("/api/models", json={"name": "gpt"})
    assert told.status_code == 422
    assert told.json() == {"kind": "ModelError", "message": "…/gpt has no config.json"}
    assert str(tmp_path) not in told.text


@pytest.mark.promise("No internals in error messages")
def test_an_unexpected_error_has_a_fixed_message(client, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError(f"secret in {tempfile.gettempdir()}/x: {Path(__file__)}")

    monkeypatch.setattr(Session, "_shown", fail)
    told = client.post("/api/look", json={"text": "the old lamp"})
    assert told.status_code == 500
    assert told.json()["message"].startswith("the server failed on this request")
    for leak in ("secret", "Traceback", "RuntimeError", tempfile.gettempdir(), ".py", "line "):
        assert leak not in told.text
    assert told.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.promise("No internals in error messages")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", "/api/look", 405), ("DELETE", "/", 405), ("GET", "/api/nothing", 404)],
)
def test_unknown_routes_and_methods_have_a_plain_error(client, method, path, status):
    told = client.request(method, path)
    assert told.status_code == status
    assert set(told.json()) == {"kind", "message"}
