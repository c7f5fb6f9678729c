"""Keep children that run a stranger's tokenizer, so that the second conversation does not wait for imports."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headscope.models.inputs.isolated_child import LENGTH

CHILD = Path(__file__).with_name("isolated_child.py")
KEPT = 2
"""Idle children; more than these are started where more is asked at once, and end when they have answered."""


class Child:
    """One process that answers requests in forks of itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(CHILD)]  # -P: files beside the program do not stand for libraries
        surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=surroundings,
            bufsize=0, start_new_session=True,
        )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: bytes, wait: float) -> dict[str, Any] | None:
        """The answer, empty where a limit ended the work or time is up; None where the child had ended unasked."""
        sender = threading.Thread(target=self._send, args=(LENGTH.pack(len(request)) + request,), daemon=True)
        sender.start()
        end = time.monotonic() + wait
        head = self._read(LENGTH.size, end)
        told = self._read(LENGTH.unpack(head)[0], end) if len(head) == LENGTH.size else b""
        if not told:
            idle_for_too_long = time.monotonic() < end and self.process.wait() == 0
            self.end()
        sender.join()
        try:
            return dict(json.loads(told))
        except ValueError:
            return None if not told and idle_for_too_long else {}

    def end(self) -> None:
        """End it with its fork."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let it end by itself, and wait until it has."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError, ValueError):  # it has ended
            while view:
                view = view[self.process.stdin.write(view) :]  # type: ignore[union-attr]

    def _read(self, size: int, end: float) -> bytes:
        """So many bytes; fewer where the child has ended or time is up."""
        source, parts = self.process.stdout, []
        assert source is not None
        while size:
            if hasattr(os, "fork") and not select.select([source], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            part = source.read(min(size, 2**20))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class ChildPool:
    """Idle children, and new ones where none is idle."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._lock, self._owner = threading.Lock(), 0

    def ask(self, request: bytes, wait: float) -> dict[str, Any]:
        """The answer, empty where a limit ended the work or time is up."""
        answer: dict[str, Any] | None = None
        while answer is None:
            child = self._take()
            try:
                answer = child.ask(request, wait)
            finally:
                self._give_back(child)
        return answer

    def close(self) -> None:
        """End the idle children."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def _take(self) -> Child:
        with self._lock:
            if self._owner != os.getpid():  # none was started yet, or this is a fork of whoever started them
                self._idle, self._owner = [], os.getpid()
                atexit.register(self.close)
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    return child
                child.close()
        return Child()

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if child.alive and len(self._idle) < KEPT:
                self._idle.append(child)
                return
        child.close()


CHILDREN = ChildPool()
"""The children of this process. They end with it, and after a minute without a request."""
