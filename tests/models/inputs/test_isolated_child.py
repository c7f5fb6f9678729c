"""The program that runs a stranger's tokenizer: its tasks, its limits, and how it is asked."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.models import tiny

from headscope.models.inputs import isolated_child
from headscope.models.inputs.child_pool import Child
from headscope.models.inputs.isolated_child import _read, answer_in_fork

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are limited on Linux alone")
TOKENIZER = tiny.tokenizer().backend_tokenizer.to_str()
MEBIBYTE = 2**20


def asked(task: str, **more: Any) -> dict[str, Any]:
    told = answer_in_fork({"task": task, "seconds": 20, "megabytes": 512, **more})
    return json.loads(told)  # type: ignore[no-any-return]


def rendered(template: str, most: int = 100, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "a"}]
    return asked("render", template=template, messages=messages, options={"mark": "!"}, most=most, **more)


def test_texts_and_ids_are_counted_with_special_tokens() -> None:
    assert asked("encode", tokenizer=TOKENIZER, text="the horse crossed") == {"done": 3}
    assert asked("decode", tokenizer=TOKENIZER, ids=[4, 2]) == {"done": len("the [end]")}


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ messages[0].role }}{{ mark }}", {"done": "user!"}),
        ("{{ 'abcde' }}", {"done": "abcde"}),
        ("{{ 'abcdef' }}", {"failed": "it makes 6 characters; at most 5 are read at once"}),
        ("{{ raise_exception('one\ntwo') }}", {"failed": "one"}),
        ("{{ raise_exception('') }}", {"failed": "TemplateError"}),
        ("{{ raise_exception('x' * 300) }}", {"failed": "x" * 200}),
    ],
)
def test_a_conversation_is_a_text_of_bounded_length_or_a_reason(template: str, told: dict[str, str]) -> None:
    assert rendered(template, most=5) == told


def test_work_that_takes_too_long_is_ended_without_an_answer() -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    assert rendered(loops, seconds=0) == {}


def test_limits_are_what_was_asked_for_and_cannot_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(request: dict[str, Any]) -> Any:
        def found() -> list[Any]:
            with open("/proc/self/statm") as sizes:  # noqa: PTH123
                size = int(sizes.read().split()[0]) * resource.getpagesize()
            kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE)
            return [size, *(resource.getrlimit(kind) for kind in kinds)]

        return found

    monkeypatch.setitem(isolated_child.TASKS, "limits", limits)
    size, memory, time, core = asked("limits", seconds=5, megabytes=300)["done"]
    assert abs(memory[0] - size - 300 * MEBIBYTE) < 64 * MEBIBYTE
    assert memory[0] == memory[1]
    assert time == [6, 6], "five seconds, and the one that it is in"
    assert core == [0, 0]


class Slowly:
    """A pipe that gives three bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int) -> bytes:
        part, self.data = self.data[: min(size, 3)], self.data[min(size, 3) :]
        return part


@pytest.mark.parametrize(("size", "found"), [(0, b""), (1, b"a"), (4, b"abcd"), (7, b"abcdefg"), (9, b"abcdefg")])
def test_so_many_bytes_are_read_or_those_that_there_are(size: int, found: bytes) -> None:
    assert _read(Slowly(b"abcdefg"), size) == found


def test_a_child_answers_until_its_input_ends() -> None:
    child = Child()
    request = {"task": "encode", "tokenizer": TOKENIZER, "seconds": 20, "megabytes": 512}
    try:
        for text, count in (("the horse", 2), ("", 0), ("the " * 300_000, 300_000), ("it", 1)):
            assert child.ask(json.dumps({**request, "text": text}).encode(), 60.0) == {"done": count}
        assert child.alive
    finally:
        child.close()
    assert child.process.returncode == 0
