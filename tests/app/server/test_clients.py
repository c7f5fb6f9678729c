"""Who a client is: a signed cookie per browser, its address without one."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import pytest
from starlette.requests import Request

from headscope.app.server.clients import NEW_AT_ONCE, Clients, client_id


def request_scope(cookie: str = "", address: str = "10.0.0.1", **headers: str) -> dict[str, Any]:
    given = {"cookie": cookie, **headers} if cookie else headers
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return {"type": "http", "headers": named, "client": (address, 1), "query_string": b"", "path": "/"}


def known(clients: Clients, scope: dict[str, Any]) -> str:
    clients.identify(scope)
    return client_id(Request(scope))


def test_a_browser_gets_one_cookie_and_is_known_by_it():
    clients = Clients()
    set_cookie = clients.identify(request_scope())
    assert set_cookie is not None
    ((name, morsel),) = SimpleCookie(set_cookie).items()
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Strict", "/")
    back = request_scope(f"{name}={morsel.value}")
    assert clients.identify(back) is None, "no second one"
    assert client_id(Request(back)) == morsel.value.partition(".")[0]
    assert known(clients, request_scope(f"{name}={morsel.value}", address="10.0.0.9")) == client_id(Request(back))


@pytest.mark.parametrize("forged", ["", "me", "me.", "me.0123456789abcdef0123456789abcdef", ".", "é.é"])
def test_a_cookie_that_this_server_did_not_sign_is_not_a_client(forged):
    clients = Clients()
    assert known(clients, request_scope(f"{clients.cookie}={forged}")) == "10.0.0.1"


def test_a_cookie_of_another_server_is_not_taken():
    one, other = Clients(), Clients()
    given = str(one.identify(request_scope())).partition(";")[0].partition("=")[2]
    assert one.cookie != other.cookie
    assert known(other, request_scope(f"{other.cookie}={given}")) == "10.0.0.1"


def test_one_address_gets_so_many_cookies():
    clients = Clients()
    given = [clients.identify(request_scope()) for _ in range(int(NEW_AT_ONCE) + 50)]
    assert sum(cookie is not None for cookie in given) in range(int(NEW_AT_ONCE), int(NEW_AT_ONCE) + 50)
    assert given[-1] is None or given.count(None) > 0
    assert clients.identify(request_scope(address="10.0.0.2")) is not None


def test_the_server_sets_the_cookie_and_the_page_may_not_read_it(client):
    told = client.get("/")
    assert "HttpOnly" in told.headers["set-cookie"]
    assert "set-cookie" not in client.get("/").headers
