"""Run steps of a stranger's tokenizer: started as a program of its own by ``child_pool.py``, with limits.

Reads requests as JSON from standard input and writes the answers to standard output, each after its length in eight
bytes. Every request runs in a fork of this process, which has the libraries and nothing of a stranger's; the limits are
the fork's. Ends when nobody asks any more: at the end of its input, or after IDLE seconds.
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any


def limit(seconds: int, megabytes: int) -> None:
    """Let this process use no more processor time and memory than this, beyond what it has; where it can be limited."""
    try:
        import resource
    except ImportError:
        return
    with open("/proc/self/statm") as sizes:  # noqa: PTH123 - no more imports than needed
        now = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20,) * 2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, spent + seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def encode(asked: dict[str, Any]) -> Callable[[], Any]:
    from tokenizers import Tokenizer

    return lambda: len(Tokenizer.from_str(asked["tokenizer"]).encode(asked["text"]).ids)


def decode(asked: dict[str, Any]) -> Callable[[], Any]:
    from tokenizers import Tokenizer

    return lambda: len(Tokenizer.from_str(asked["tokenizer"]).decode(asked["ids"], skip_special_tokens=False))


def render(asked: dict[str, Any]) -> Callable[[], Any]:
    from transformers.utils.chat_template_utils import render_jinja_template

    def rendered() -> str:
        text = render_jinja_template([asked["messages"]], chat_template=asked["template"], **asked["options"])[0][0]
        if len(text) > asked["most"]:
            raise ValueError(f"it makes {len(text):,} characters; at most {asked['most']:,} are read at once")
        return str(text)

    return rendered


TASKS = {"encode": encode, "decode": decode, "render": render}


IDLE = 60.0
LENGTH = struct.Struct("!Q")


def answer(asked: dict[str, Any]) -> bytes:
    """Do what is asked within its limits; the answer as JSON."""
    work = TASKS[asked["task"]](asked)
    try:
        if sys.platform == "linux":
            limit(asked["seconds"], asked["megabytes"])
        told: dict[str, Any] = {"done": work()}
    except MemoryError:
        told = {"memory": True}
    except BaseException as error:  # a panic of the tokenizers library is no Exception
        told = {"failed": (str(error).strip().splitlines() or [type(error).__name__])[0][:200]}
    return json.dumps(told).encode()


def answer_in_fork(asked: dict[str, Any]) -> bytes:
    """The same in a fork; nothing where it was ended by a limit."""
    TASKS[asked["task"]](asked)  # imports what it needs here, once for all forks
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writer, "wb") as out:
                out.write(answer(asked))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as made:
        told = made.read()
    _, status = os.waitpid(child, 0)
    return told if status == 0 else b"{}"


def requests() -> Iterator[dict[str, Any]]:
    """One after another, until the input ends or nobody has asked for a while."""
    source = sys.stdin.buffer.raw  # type: ignore[union-attr]
    while not hasattr(os, "fork") or select.select([source], [], [], IDLE)[0]:
        head = _read(source, LENGTH.size)
        if len(head) < LENGTH.size:
            return
        yield json.loads(_read(source, LENGTH.unpack(head)[0]))


def _read(source: Any, size: int) -> bytes:
    """So many bytes, or fewer at the end of the input."""
    parts: list[bytes] = []
    while size and (part := source.read(min(size, 2**20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def main() -> None:
    out = sys.stdout.buffer
    for asked in requests():
        told = answer_in_fork(asked) if hasattr(os, "fork") else answer(asked)
        out.write(LENGTH.pack(len(told)) + told)
        out.flush()
        if not hasattr(os, "fork"):
            return  # the limits are this process's own


if __name__ == "__main__":
    main()
