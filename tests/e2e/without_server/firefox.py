"""Debian's Firefox, driven over WebDriver BiDi: Playwright needs a Firefox of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120  # seconds: a busy machine is slow
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
ENTER = "\ue007"
UNTIL = """() => new Promise((done, fail) => {
  const ends = Date.now() + 100_000;
  const look = () => {
    const found = EXPRESSION;
    if (found) done(found);
    else if (Date.now() > ends) fail(new Error("it never came"));
    else setTimeout(look, 50);
  };
  look();
})"""


class FirefoxPage:
    """One page: what it asks elsewhere and complains about is kept in ``strays``."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.last, self.home = socket, 0, "about:"
        self.strays: list[str] = []
        self.ask("session.new", capabilities={})
        self.context = self.ask("browsingContext.getTree")["contexts"][0]["context"]
        self.ask("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a command; events that come before it are heard."""
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            told = json.loads(self.socket.recv())
            if told["type"] == "event":
                self._hear(told["method"], told["params"])
            elif told["id"] == self.last:
                assert told["type"] == "success", told
                return told["result"]
        raise TimeoutError(f"no answer to {method} within {PATIENCE} seconds")

    def _hear(self, event: str, params: Any) -> None:
        if event == "log.entryAdded" and params["level"] == "error":
            self.strays.append(params["text"])
        elif event == "network.beforeRequestSent" and params["context"] == self.context:
            url = params["request"]["url"]
            if not url.startswith((self.home, "data:", "blob:", "about:")):
                self.strays.append(url)

    def open(self, home: str, fragment: str) -> None:
        self.home = home
        self.ask("browsingContext.navigate", context=self.context, url=home + fragment, wait="complete")

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function returns in the page, a promise's value included."""
        told = self.ask(
            "script.callFunction", functionDeclaration=function, awaitPromise=True, arguments=list(arguments),
            target={"context": self.context},
        )  # fmt: skip
        assert told["type"] == "success", told
        return told["result"].get("value")

    def until(self, expression: str) -> Any:
        """The first value of an expression that counts as true."""
        return self.call(UNTIL.replace("EXPRESSION", expression))  # its policy forbids eval

    def click(self, role: str, name: str) -> None:
        node = {"type": "accessibility", "value": {"role": role, "name": name}}
        ends = time.monotonic() + PATIENCE
        while not (found := self.ask("browsingContext.locateNodes", context=self.context, locator=node)["nodes"]):
            assert time.monotonic() < ends, f"no {role} is called {name}"
            time.sleep(0.05)
        self.call("node => node.click()", {"sharedId": found[0]["sharedId"]})

    def type(self, text: str) -> None:
        pressed = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        keys = [{"type": "key", "id": "keys", "actions": pressed}]
        self.ask("input.performActions", context=self.context, actions=keys)


@contextmanager
def firefox(folder: Path) -> Iterator[FirefoxPage]:
    """Firefox with a new profile in this folder, ended afterwards."""
    import websocket

    assert FIREFOX
    command = [FIREFOX, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(folder)]
    said = folder / "stderr.txt"
    with said.open("w", encoding="utf-8") as errors:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    try:
        address = _address(started, said)
        socket = websocket.create_connection(f"{address}/session", suppress_origin=True, timeout=PATIENCE)
        try:
            yield FirefoxPage(socket)
        finally:
            socket.close()
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(30)


def _address(started: subprocess.Popen[bytes], said: Path) -> str:
    """Where it listens, which it writes to its errors."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and started.poll() is None:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", said.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"Firefox does not listen: {said.read_text(encoding='utf-8')}")
