"""Host, Origin and Sec-Fetch checks: requests from this machine and from the server's own page only."""

from __future__ import annotations

import socket

import httpx
import pytest

from headscope.app.server import HOST, ServeOptions, listen
from headscope.app.server.serve import announcement
from headscope.app.server.token import AccessToken
from headscope.errors import InputError

LOOK = {"text": "the old lamp"}


@pytest.mark.promise("Loopback only")
def test_the_server_listens_on_this_machine_only(address):
    assert ServeOptions().host == HOST == "127.0.0.1"
    port = int(address.rstrip("/").rpartition(":")[2])
    for family, _, _, _, (other, *_) in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
        if not other.startswith("127.") and family == socket.AF_INET:
            with socket.socket() as stranger:
                stranger.settimeout(2)
                assert stranger.connect_ex((other, port)) != 0, f"{other} answers"


@pytest.mark.promise("Loopback only")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "0", "",
             "192.168.0.7", "testserver", "a@127.0.0.1", "127.0.0.1@evil.example"]
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/assets/index.js", "/api/model"])
def test_another_host_name_is_refused(client, host, path):
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 400
    assert "open it as 127.0.0.1 or localhost" in answer.json()["message"]


@pytest.mark.promise("Loopback only")
@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "LOCALHOST:8765", "[::1]:8765", "127.0.0.5"])
def test_loopback_host_names_are_accepted_on_any_port(client, host):
    assert client.get("/api/model", headers={"host": host}).status_code == 200


@pytest.mark.promise("Loopback only")
def test_forwarded_headers_are_ignored(address):
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-for": "10.0.0.1", "forwarded": "host=evil.example"}
    assert httpx.get(f"{address}api/model", headers=forged, timeout=60).status_code == 200
    assert httpx.get(f"{address}api/model", headers={"host": "evil.example"} | forged, timeout=60).status_code == 400


@pytest.mark.promise("No cross-origin requests")
@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1:9999", "file://", "garbage"],
)
def test_a_post_with_another_origin_is_refused(client, origin):
    answer = client.post("/api/look", json=LOOK, headers={"origin": origin})
    assert answer.status_code == 403
    assert "may not send requests to this server" in answer.json()["message"]


@pytest.mark.promise("No cross-origin requests")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_sec_fetch_site_other_than_same_origin_is_refused(client, site):
    told = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
    assert client.post("/api/roles", headers=told).status_code == 403
    assert client.get("/api/model", headers=told).status_code == 403
    assert client.get("/assets/index.js", headers=told).status_code == 403


@pytest.mark.promise("No cross-origin requests")
def test_a_cross_site_link_may_open_only_the_page(client):
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/api/model", headers=link).status_code == 403
    assert client.post("/", headers=link).status_code == 403
    assert client.get("/", headers=link | {"sec-fetch-dest": "iframe"}).status_code == 403


@pytest.mark.promise("No cross-origin requests")
def test_same_origin_requests_are_accepted(client):
    own = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert client.post("/api/look", json=LOOK, headers=own).status_code == 200


@pytest.mark.promise("No cross-origin requests")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_content_types_that_a_form_can_send_are_refused(client, kind):
    answer = client.post("/api/look", content=b'{"text": "the"}', headers={"content-type": kind})
    assert answer.status_code == 415
    assert "send application/json" in answer.json()["message"]


@pytest.mark.promise("No cross-origin requests")
def test_the_page_may_not_be_framed_or_embedded(client):
    for path in ("/", "/api/model", "/nowhere"):
        said = client.get(path).headers
        assert said["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in said["content-security-policy"]
        assert said["cross-origin-resource-policy"] == said["cross-origin-opener-policy"] == "same-origin"
        assert "access-control-allow-origin" not in said


@pytest.mark.promise("Access token for other machines")
@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False)]
)
def test_a_host_that_other_machines_can_reach_prints_a_token(host, here):
    options = ServeOptions(host=host)
    assert options.local == here
    token = None if here else AccessToken("s3cret")
    said = announcement(options, 8765, token)
    assert ("?token=s3cret " in said) == ("unencrypted" in said) == (not here)


@pytest.mark.promise("Access token for other machines")
def test_a_host_that_this_machine_does_not_have_is_reported():
    with pytest.raises(InputError, match=r"--host no-such-host.invalid: this machine has no such address"):
        listen(host="no-such-host.invalid")
    with pytest.raises(InputError, match=r"192\.0\.2\.1, port any cannot be used"):
        listen(host="192.0.2.1")
