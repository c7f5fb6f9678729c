"""Work for nobody: heavy requests and readings whose clients leave, texts that are refused, models of others."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tokenizers
import transformers
from fastapi.testclient import TestClient

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.course.classroom import Classroom
from headscope.app.pages.course.lessons import contents
from headscope.app.pages.microscope import LONG_REQUEST, Session
from headscope.app.server import HOST, application
from headscope.app.server.worker import UNDER_WAY
from headscope.app.wire import unpack
from headscope.lab.teach import lessons
from tests.app.conftest import SENTENCE, WORDS, held, scope, session, small_model
from tests.e2e.conftest import running, served

__all__ = ["scope", "session"]
HEAVY = {"experiment": "arms", "seeds": 1, "steps": 1_200}
SLOW_LESSON = f"""# A slow lesson

## Idea

## Computed

```python
from {__name__} import SlowCode
SlowCode.run()
```

## Try it

## Questions

### Is it?

- [x] Yes.
  It is.
- [ ] No.
  It is.
"""
LONG = f"{SENTENCE} " * (LONG_REQUEST // len(SENTENCE) + 2)


@pytest.fixture
def address(session) -> Iterator[str]:
    with served(session) as opened:
        yield opened


@pytest.fixture
def client(session) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(session)), base_url=f"http://{HOST}") as opened:
        yield opened


@contextmanager
def person(address: str) -> Iterator[httpx.Client]:
    """A browser: it has a cookie."""
    with httpx.Client(base_url=address, timeout=120) as opened:
        opened.get("/icon.svg").raise_for_status()
        yield opened


@contextmanager
def two(address: str) -> Iterator[tuple[httpx.Client, httpx.Client, ThreadPoolExecutor]]:
    """Two browsers, and threads that wait for their answers."""
    with person(address) as one, person(address) as other, ThreadPoolExecutor(2) as pool:
        yield one, other, pool


def posted(address: str, path: str, body: Any, cookie: str = "") -> socket.socket:
    """A request that was sent, and whose answer nobody has read yet."""
    line = socket.create_connection((HOST, int(address.rstrip("/").rpartition(":")[2])), timeout=60)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    line.sendall(f"{head}\r\nCookie: {cookie}\r\n\r\n".encode() + content)
    return line


def cookie_of(opened: httpx.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in opened.cookies.items())


def wait_for_line(opened: httpx.Client, name: str = "") -> dict[str, Any]:
    """Wait until a request of this client is in line; how it stands."""
    while True:
        told = dict(opened.get("/api/progress", params={"request": name}).json())
        if told["place"]:
            return told
        time.sleep(0.01)


def test_pages_are_served_while_44_heavy_requests_wait_and_their_end_frees_the_queue(address):
    with person(address) as heavy, person(address) as visitor, ExitStack() as lines:
        for _ in range(44):
            lines.enter_context(posted(address, "/api/lab/one-or-many?request=heavy", HEAVY, cookie_of(heavy)))
        wait_for_line(heavy, "heavy")
        for path in ("/", "/icon.svg", "/api/model", "/api/cards", "/api/lessons"):
            assert visitor.get(path).status_code == 200
        assert visitor.post("/api/look", json={"text": SENTENCE}).status_code == 200
        assert wait_for_line(heavy, "heavy")["place"] > 0, "all that was answered while the queue was occupied"
        lines.close()
        small = {"experiment": "partition", "d_model": 8, "heads": [1], "seeds": 1, "steps": 20}
        assert visitor.post("/api/lab/one-or-many", json=small).status_code == 200
        assert heavy.get("/api/progress", params={"request": "heavy"}).json()["place"] == 0, "nobody waits any more"


class SlowCode:
    """What the slow lesson runs: it waits for the test, and counts."""

    begun, go_on, times = threading.Event(), threading.Event(), 0

    @classmethod
    def run(cls) -> None:
        cls.times += 1
        cls.begun.set()
        assert cls.go_on.wait(120)


def test_pages_are_served_while_44_wait_for_a_lesson_which_runs_once_for_all_and_the_teacher(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "01-slow.md").write_text(SLOW_LESSON)
    monkeypatch.setattr(lessons, "FOLDER", tmp_path)
    room, answer = Classroom(lambda: contents().lessons), {"question": 1, "answer": "a"}
    with (
        running(application(ModelRegistry(session), held=room)) as address,
        person(address) as students,
        two(address) as (teacher, visitor, pool),
        ExitStack() as lines,
    ):
        lines.callback(SlowCode.go_on.set)
        teacher.get("/class/teacher", params={"key": room.teacher})
        for _ in range(44):
            path = "/api/lessons/1/answer?request=lesson"
            last = lines.enter_context(posted(address, path, answer, cookie_of(students)))
        assert SlowCode.begun.wait(60)
        view = pool.submit(teacher.get, "/api/class/teacher?lesson=1&request=view")
        for path in ("/", "/icon.svg", "/api/model", "/api/lessons", "/api/censuses/1", "/api/class"):
            assert visitor.get(path).status_code == 200
        wait_for_line(teacher, "view")
        assert wait_for_line(students, "lesson")["place"] > 0
        SlowCode.go_on.set()
        assert len(view.result().json()["questions"]) == 1
        assert last.recv(15) == b"HTTP/1.1 200 OK"
    assert SlowCode.times == 1


def test_a_reading_that_is_left_stops_before_its_end(session, address):
    """It stands before the second layer when its client leaves; whoever waits gets the model, and nothing is kept."""
    second = session.scope.model.model.model.layers[1]
    with two(address) as (leaver, waiter, pool), held(second) as (reached, go_on):
        line = posted(address, "/api/look", {"text": LONG}, cookie_of(leaver))
        assert reached.wait(60)
        line.close()
        answer = pool.submit(waiter.post, "/api/look?request=mine", json={"text": SENTENCE})
        wait_for_line(waiter, "mine")
        go_on.set()
        kept = unpack(answer.result().content).values
    assert kept["text"] == SENTENCE
    assert session.kept.names() == [kept["look"]]


def test_a_text_that_is_left_is_not_tokenized_further(session, address, monkeypatch):
    """Its client leaves while the first of growing beginnings is being split into tokens; the next one is not."""
    processor, given = session.scope.model.processor, []
    reached, go_on, token_ids = threading.Event(), threading.Event(), processor.token_ids

    def held_back(text: str) -> list[int]:
        given.append(len(text))
        reached.set()
        assert go_on.wait(120)
        return list(token_ids(text))

    monkeypatch.setattr(processor, "token_ids", held_back)
    with two(address) as (leaver, waiter, pool), ExitStack() as at_end:
        at_end.callback(go_on.set)
        line = posted(address, "/api/look", {"text": "the old lamp burned " * 50_000}, cookie_of(leaver))
        assert reached.wait(60)
        line.close()
        answer = pool.submit(waiter.post, "/api/look?request=mine", json={"text": SENTENCE})
        wait_for_line(waiter, "mine")
        go_on.set()
        kept = unpack(answer.result().content).values
    assert given == [1280]
    assert session.kept.names() == [kept["look"]]


def test_progress_and_place_belong_to_the_request_that_asked(session, address):
    first = session.scope.model.model.model.layers[0]
    with two(address) as (reader, waiter, pool), held(first) as (at, go_on):
        reading = pool.submit(reader.post, "/api/look?request=a", json={"text": SENTENCE})
        assert at.wait(60)
        waiting = pool.submit(waiter.post, "/api/look?request=a", json={"text": "the old lamp"})
        assert wait_for_line(waiter, "a") == {"what": "", "done": 0, "total": 0, "place": 1}
        assert reader.get("/api/progress?request=a").json()["place"] == 0
        assert reader.get("/api/progress?request=b").json() == {"what": "", "done": 0, "total": 0, "place": 0}
        go_on.set()
        assert (reading.result().status_code, waiting.result().status_code) == (200, 200)


def test_one_client_has_so_many_requests_under_way(session, address):
    """Of one request more than allowed, the one that arrives last is refused at once; the others wait."""
    first = session.scope.model.model.model.layers[0]
    with person(address) as greedy, person(address) as other, ExitStack() as lines, held(first) as (at, go_on):
        sent = [
            lines.enter_context(posted(address, "/api/look", {"text": SENTENCE}, cookie_of(greedy)))
            for _ in range(UNDER_WAY + 1)
        ]
        assert at.wait(60)
        answered, _, _ = select.select(sent, [], [], 60)
        assert len(answered) == 1
        with answered[0].makefile("rb") as answer:
            assert answer.readline().startswith(b"HTTP/1.1 429")
            length = next(int(line.split()[1]) for line in answer if line.lower().startswith(b"content-length"))
            while answer.readline().strip():
                pass  # the other headers
            assert f"{UNDER_WAY} requests of yours are under way" in json.loads(answer.read(length))["message"]
        go_on.set()
        assert other.post("/api/look", json={"text": "the old lamp"}).status_code == 200


def test_refused_texts_are_not_kept(client, session):
    for number in range(8):
        assert client.post("/api/look", json={"text": "\u2003" * (100_000 + number)}).status_code == 422
    assert not session.kept.whole.texts
    assert not session.kept.whole.looks


def test_a_client_s_models_are_in_no_other_s_list(session):
    app = application(ModelRegistry(session))
    with (
        TestClient(app, base_url=f"http://{HOST}") as maker,
        TestClient(app, base_url=f"http://{HOST}", client=("127.0.0.2", 1)) as other,
    ):
        for opened in (maker, other):
            opened.get("/icon.svg")
        name = maker.post("/api/lab/by-hand/open", json={"role": "induction"}).json()["model"]
        assert name in maker.get("/api/models").json()["names"]
        assert maker.get("/api/model", params={"model": name}).status_code == 200
        assert name not in other.get("/api/models").json()["names"]
        told = other.get("/api/model", params={"model": name})
        assert told.status_code == 422
        assert name not in told.json()["message"].partition("it has")[2]
        for path in ("look", "token", "predict", "weights", "attribution", "importance"):
            body = {"look": "x", "text": "red", "head": "0.0", "rows": [0, 1], "columns": [0, 1], "position": 0}
            assert other.post(f"/api/{path}", params={"model": name}, json=body).status_code == 422


@pytest.mark.promise("No other models")
def test_allow_models_lists_no_folder(session, tmp_path):
    (tmp_path / "secret-plans.txt").write_text("secret")
    (tmp_path / "empty").mkdir()
    with TestClient(application(ModelRegistry(session, opener=headscope.load)), base_url=f"http://{HOST}") as client:
        told = [
            client.post("/api/models", json={"name": str(name)})
            for name in (tmp_path, tmp_path / "empty", tmp_path / "nothing", tmp_path / "secret-plans.txt", "~/", "../")
        ]
        messages = [answer.json()["message"] for answer in told]
        odd = [client.post("/api/models", json={"name": name}) for name in ("a\x00b", "~nobody-here/x", "x" * 512)]
    assert {answer.status_code for answer in [*told, *odd]} == {422}
    said = "is not a model; give a model's name on the hub, or its folder"
    assert all(message.endswith(said) for message in messages)
    assert "secret-plans" not in "".join(messages[:3])
    assert str(tmp_path) not in "".join(messages)


def test_a_tokenizer_that_panics_is_a_clear_error(capfd):
    """A regex that backtracks past onig's limit makes the tokenizers library panic, which is no Exception."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: n for n, w in enumerate(["[UNK]", *WORDS])}, "[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"(x+x+)+y"), "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    with headscope.load(small_model(1), tokenizer) as opened:
        app = application(ModelRegistry(Session(opened)))
        with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
            told = client.post("/api/look", json={"text": "x" * 60})
            after = client.post("/api/token", json={"text": "lamp"})
    assert told.status_code == 422
    assert set(told.json()) == {"kind", "message"}
    assert after.status_code == 200, "and the model's queue goes on"
    capfd.readouterr()
