"""Run one step of a stranger's tokenizer: started as a program of its own by ``isolated.py``, with limits.

Reads a request as JSON from standard input and writes the answer to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
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


def main() -> None:
    asked = json.load(sys.stdin)
    work = TASKS[asked["task"]](asked)
    try:
        if sys.platform == "linux":
            limit(asked["seconds"], asked["megabytes"])
        answer = {"done": work()}
    except MemoryError:
        answer = {"memory": True}
    except BaseException as error:  # a panic of the tokenizers library is no Exception
        answer = {"failed": (str(error).strip().splitlines() or [type(error).__name__])[0][:200]}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
