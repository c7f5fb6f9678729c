"""Starting and stopping the server: its announcement, its process, and a page that outlives it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from tests.e2e.conftest import served

from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, ServeOptions, free_port
from headscope.app.server.serve import address, announcement
from headscope.app.server.token import Token
from headscope.app.wire import unpack
from headscope.errors import InputError

TEXT = "the old lamp on the landing burned until morning"
SERVER = """
import gc, importlib, sys
import headscope
from headscope.app.server import ServeOptions
serve = importlib.import_module('headscope.app.server.serve')
from headscope.app.pages.microscope import Session
from headscope.app.model_registry import ModelRegistry
from tests.app.conftest import small_model, word_tokenizer
free = gc.get_freeze_count()
asked = serve.uvicorn.run
def run(app, **how):
    print(gc.get_freeze_count() - free > 100_000, flush=True)
    asked(app, **how)
serve.uvicorn.run = run
serve.serve(ModelRegistry(Session(headscope.load(small_model(1), word_tokenizer()))), ServeOptions(port=int(sys.argv[1]), open_browser=False))
print("stopped", flush=True)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("host", "port", "token", "response"),
    [
        ("127.0.0.1", 8765, None, "http://127.0.0.1:8765/"),
        ("::1", 80, None, "http://[::1]:80/"),
        ("lab.example", 8765, Token("s3"), "http://lab.example:8765/?token=s3"),
        ("fe80::1", 1, Token("s3"), "http://[fe80::1]:1/?token=s3"),
    ],
)
def test_the_printed_address_is_a_valid_url(host, port, token, response):
    assert address(host, port, token) == response
    parts = urlsplit(response)
    assert (parts.hostname, parts.port) == (host, port)


def test_a_local_server_is_announced_in_one_line():
    said = announcement(ServeOptions(), 8765, None)
    assert said == "The microscope is at http://127.0.0.1:8765/ (Ctrl+C stops it).\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_on_all_interfaces_is_announced_by_its_host_name(host):
    said = announcement(ServeOptions(host=host), 8765, Token("s3"))
    assert f"http://{socket.gethostname()}:8765/?token=s3 " in said
    assert host not in said.splitlines()[0].replace(socket.gethostname(), "")


def test_a_given_host_is_announced_as_given():
    assert "http://192.168.0.7:8765/?token=s3 " in announcement(ServeOptions(host="192.168.0.7"), 8765, Token("s3"))


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("192.168.0.7", False), ("lab.example", False)],
)
def test_loopback_hosts_need_no_token(host, here):
    assert ServeOptions(host=host).local is here


def test_a_free_port_can_be_bound():
    ports = {free_port() for _ in range(5)}
    assert all(1024 <= port < 65_536 for port in ports)
    for port in ports:
        with socket.socket() as one:
            one.bind((HOST, port))


def test_a_port_that_cannot_be_bound_is_named_with_its_host():
    with pytest.raises(InputError, match=r"192\.0\.2\.1, port 99 cannot be used \(.*\); leave --port out for a free"):
        free_port(99, "192.0.2.1")


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        assert process.poll() is None, process.communicate()
        try:
            httpx.get(url, timeout=60)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"{url} did not answer")


def test_a_terminated_server_exits_and_frees_its_port():
    port = free_port()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(f"http://{HOST}:{port}/api/model", process)
        assert httpx.post(f"http://{HOST}:{port}/api/look", json={"text": TEXT}, timeout=120).status_code == 200
        process.send_signal(signal.SIGINT)
        said, response = process.communicate(timeout=120)
    finally:
        process.kill()
    assert said.split() == ["True", "stopped"], "what was imported is left out of every collection"
    assert response == f"The microscope is at http://{HOST}:{port}/ (Ctrl+C stops it).\n"
    assert free_port(port) == port


def test_an_open_page_sends_its_text_again_to_a_restarted_server(scope):
    asked = {"head": "1.3", "rows": [0, 9], "columns": [0, 9]}
    with served(Session(scope)) as first:
        look = unpack(httpx.post(f"{first}api/look", json={"text": TEXT}, timeout=60).content).values["look"]
        before = unpack(httpx.post(f"{first}api/weights", json=asked | {"look": look}, timeout=60).content).arrays[
            "weights"
        ]
    with pytest.raises(httpx.ConnectError):
        httpx.get(first)
    with served(Session(scope), port=urlsplit(first).port) as again:
        assert again == first
        forgotten = httpx.post(f"{again}api/weights", json=asked | {"look": look}, timeout=60)
        assert (forgotten.status_code, forgotten.json()["kind"]) == (422, "ForgottenLookError")
        assert unpack(httpx.post(f"{again}api/look", json={"text": TEXT}, timeout=60).content).values["look"] == look
        after = unpack(httpx.post(f"{again}api/weights", json=asked | {"look": look}, timeout=60).content).arrays[
            "weights"
        ]
    np.testing.assert_array_equal(before, after)
