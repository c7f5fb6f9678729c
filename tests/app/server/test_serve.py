"""Starting and stopping the server: its announcement, its process, and a page that outlives it."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from starlette.types import ASGIApp
from tests.e2e.conftest import served

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, ServeOptions, listen
from headscope.app.server.serve import address
from headscope.app.server.token import AccessToken
from headscope.app.wire import unpack
from headscope.errors import InputError

serving = importlib.import_module("headscope.app.server.serve")  # the package has a function of this name
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
asked = serve._run
def run(app, listening):
    print(gc.get_freeze_count() - free > 100_000, flush=True)
    asked(app, listening)
serve._run = run
serve.serve(ModelRegistry(Session(headscope.load(small_model(1), word_tokenizer()))), ServeOptions(port=int(sys.argv[1]), open_browser=False))
print("stopped", flush=True)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("host", "port", "token", "response"),
    [
        ("127.0.0.1", 8765, None, "http://127.0.0.1:8765/"),
        ("::1", 80, None, "http://[::1]:80/"),
        ("lab.example", 8765, AccessToken("s3"), "http://lab.example:8765/?token=s3"),
        ("fe80::1", 1, AccessToken("s3"), "http://[fe80::1]:1/?token=s3"),
    ],
)
def test_the_printed_address_is_a_valid_url(host, port, token, response):
    assert address(host, port, token) == response
    parts = urlsplit(response)
    assert (parts.hostname, parts.port) == (host, port)


def test_who_connects_before_the_server_runs_waits_for_it():
    with (
        listen() as listening,
        socket.create_connection(listening.getsockname()) as waiting,
        listening.accept()[0] as answered,
    ):
        assert answered.getpeername() == waiting.getsockname()


def test_small_parts_of_an_answer_leave_at_once():
    async def waits_for_more() -> bool:
        arrived = asyncio.get_running_loop().create_future()
        with listen() as listening:
            server = await asyncio.start_server(lambda _, writer: arrived.set_result(writer), sock=listening)
            async with server:
                _, asking = await asyncio.open_connection(*listening.getsockname())
                answering = await arrived
                waits = not answering.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                asking.close()
                answering.close()
                return waits

    assert not asyncio.run(waits_for_more())


@pytest.mark.parametrize(
    ("host", "wanted", "said"),
    [(HOST, 99, "port 99 cannot be used"), ("::1", 99, "::1, port 99 cannot"), ("::1", None, "::1, port any cannot")],
)
def test_what_cannot_be_bound_is_named(monkeypatch, host, wanted, said):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(13, "Permission denied (while binding)")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(InputError, match=rf"^{said}.*\(Permission denied\); leave"):
        listen(wanted, host)


@pytest.mark.parametrize(
    ("options", "opened", "token"),
    [
        (ServeOptions(), r"http://127\.0\.0\.1:(\d+)/", False),
        (ServeOptions(host="0.0.0.0"), r"http://127\.0\.0\.1:(\d+)/\?token=\S+", True),
        (ServeOptions(classroom=True), r"http://127\.0\.0\.1:(\d+)/class/teacher\?key=\S+&token=\S+", True),
        (ServeOptions(open_browser=False), None, False),
    ],
)
def test_serving_opens_the_page_and_needs_a_token_for_others_and_for_a_class(
    monkeypatch, capsys, options, opened, token
):
    ran, browsed, frozen = [], [], []

    def run(app: ASGIApp, listening: socket.socket) -> None:
        with listening:
            ran.append((app, listening.getsockname()))

    monkeypatch.setattr(serving, "_run", run)
    at_once = lambda target, args, daemon: SimpleNamespace(start=lambda: target(*args))  # noqa: E731
    monkeypatch.setattr(serving.threading, "Thread", at_once)
    monkeypatch.setattr(serving.webbrowser, "open", browsed.append)
    monkeypatch.setattr(serving.gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(serving, "_allow_open_files", lambda: frozen.append(2))
    serving.serve(ModelRegistry(), options)
    ((app, (host, port)),) = ran
    assert (host, frozen) == (options.host, [1, 2])
    assert f":{port}/" in capsys.readouterr().err
    with TestClient(app, base_url=f"http://{HOST}") as client:
        assert (client.get("/").status_code == 401) is token
        assert (client.get("/class").status_code == 200) is options.classroom
    assert len(browsed) == (opened is not None)
    if opened:
        assert re.fullmatch(opened, browsed[0])[1] == str(port)


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        assert process.poll() is None, process.communicate()
        try:
            httpx.get(url, timeout=60)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"{url} did not answer")


@pytest.mark.slow
def test_a_terminated_server_exits_and_frees_its_port():
    with listen() as free:
        port = free.getsockname()[1]
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
    with listen(port) as free:
        assert free.getsockname()[1] == port


@pytest.mark.slow
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
