"""How many files and functions of headscope one request passes through: ``python bench/call_graph.py``.

Three calls on the embedded model, each on a second text, so that neither imports nor what is made on first use counts:
``scope.look`` with one pattern, ``why`` of a look that has been read, and ``POST /api/look`` with every thread of the
server.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fastapi.testclient import TestClient

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server.application import application

SOURCE = str(Path(headscope.__file__).parent)
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # parts of the function around them
TEXTS = (
    "The ship left the harbour at noon. The ship left the",
    "My white horse drank at the river. My white horse drank at the",
)


class Recorder:
    """The code of headscope that runs in any thread begun after this, while it is on."""

    def __init__(self) -> None:
        self.on, self.seen = False, set[CodeType]()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(SOURCE) and code.co_name not in COMPREHENSIONS:
            self.seen.add(code)


def passed_through(recorder: Recorder, call: Callable[[Any], Any], given: Sequence[Any]) -> dict[str, list[str]]:
    """The functions of each file that the second of two calls passes through."""
    call(given[0])
    recorder.on, recorder.seen = True, set()
    call(given[1])
    recorder.on = False
    found: dict[str, set[str]] = {}
    for code in recorder.seen:
        place = str(Path(code.co_filename).relative_to(SOURCE))
        found.setdefault(place, set()).add(f"{code.co_qualname}:{code.co_firstlineno}")
    return {place: sorted(names) for place, names in sorted(found.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "call-graph.json")
    parser.add_argument("--list", action="store_true", help="print every function")
    given, recorder = parser.parse_args(), Recorder()
    with (
        headscope.load() as scope,
        TestClient(application(ModelRegistry(Session(scope))), "http://127.0.0.1") as client,
    ):
        found = {
            "look and pattern": passed_through(recorder, lambda text: scope.look(text).pattern("5.6"), TEXTS),
            "why": passed_through(recorder, lambda look: look.why("5.6"), [scope.look(text) for text in TEXTS]),
            "POST /api/look": passed_through(
                recorder, lambda text: client.post("/api/look", json={"text": text}).raise_for_status(), TEXTS
            ),
        }
    counts = {
        name: {"files": len(places), "functions": sum(map(len, places.values()))} for name, places in found.items()
    }
    if given.list:
        print(json.dumps(found, indent=1))
    print(json.dumps(counts, indent=1))
    given.out.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
