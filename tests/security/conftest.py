"""A small model behind the real application, and raw HTTP requests to it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, application
from tests.app.conftest import scope, session
from tests.e2e.conftest import served

__all__ = ["scope", "session"]


@pytest.fixture
def client(session: Session) -> Iterator[TestClient]:
    made = application(ModelRegistry(session))
    with TestClient(made, base_url=f"http://{HOST}", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture
def address(session: Session) -> Iterator[str]:
    with served(session) as opened:
        yield opened


def raw_get(address: str, path: str) -> tuple[int, bytes]:
    """Send the path byte for byte, without normalising its dots."""
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=60)
    connection._validate_path = lambda _: None
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found
