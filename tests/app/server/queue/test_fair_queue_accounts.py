"""The fair queue's decisions one by one: when a reading hands over, what long ones are owed, who is next."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
from starlette.exceptions import HTTPException

from headscope.app.server import fair_queue
from headscope.app.server.fair_queue import SHARE, SHORT, SLICE, FairQueue, ReaderLeftError, Turn
from headscope.attention.progress import report_progress, uninterrupted


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Line:
    """A queue whose turns are taken one after the other, in this thread."""

    def __init__(self, *asked: tuple[str, bool]) -> None:
        self.clock = Clock()
        self.queue = FairQueue(self.clock)
        self.turns = [self.ask(client, long) for client, long in asked]

    def ask(self, client: str, long: bool = False) -> Turn:
        turn = Turn(client, "long" if long else "short")
        self.queue._enter(turn)
        return turn

    def spend(self, seconds: float) -> Turn:
        """Let so much time of the running request pass."""
        turn = self.queue._running
        assert turn is not None
        turn.since = self.clock.now
        self.clock.now += seconds
        return turn

    def end(self, seconds: float = 0.0) -> str:
        """The client of the running request, which ends after so many seconds."""
        turn = self.spend(seconds)
        self.queue._release(turn)
        return turn.client

    def pause(self) -> Turn:
        """Take the model from the running request, as its thread does while it waits."""
        turn = self.queue._running
        assert turn is not None
        self.queue._account(turn)
        turn.kind, turn.begun = "long", True
        self.queue._wait(turn)
        self.queue._grant()
        return turn


@pytest.mark.parametrize(
    ("long", "used", "owed", "waiting", "most"),
    [
        (False, 0.0, 0.0, ("short",), SHORT),
        (False, 0.375, 0.0, ("short",), 0.125),
        (False, 0.0, 0.0, ("long",), SHORT),
        (True, 0.0, 0.0, ("long",), 0.125),
        (True, 0.0, 0.0, ("long", "short"), 0.0),
        (True, 0.0, 0.0625, ("short",), 0.0625),
        (True, 0.0, -0.0625, ("short",), 0.0),
        (True, 9.0, 0.0, ("long",), 0.125),
    ],
)
def test_a_reading_hands_over_when_it_has_had_its_time(monkeypatch, long, used, owed, waiting, most):
    monkeypatch.setattr(fair_queue, "SLICE", 0.125)  # a sum of powers of two, so that times are exact
    line, handed = Line(("running", long)), []
    (turn,) = line.turns
    for kind in waiting:
        line.ask(kind, kind == "long")
    turn.used, turn.since, line.queue._owed = used, 7.0, owed
    monkeypatch.setattr(line.queue, "_hand_over", handed.append)
    for spent in (most - 2**-10, most):
        line.clock.now = 7.0 + spent
        if spent >= 0:
            line.queue.pause(turn)
            assert handed == ([turn] if spent == most else [])


def test_a_reading_keeps_the_model_where_it_may_not_be_interrupted_and_where_nobody_waits(monkeypatch):
    line, handed = Line(("running", True)), []
    monkeypatch.setattr(line.queue, "_hand_over", handed.append)
    (turn,) = line.turns
    line.clock.now = 100.0
    line.queue.pause(turn)
    line.ask("short")
    with uninterrupted():
        line.queue.pause(turn)
    turn.kind = "whole"
    line.queue.pause(turn)
    assert not handed
    turn.kind = "long"
    line.queue.pause(turn)
    assert handed == [turn]


def test_a_reading_that_is_left_stops_once():
    line = Line(("running", True))
    (turn,) = line.turns
    line.queue.leave(turn)
    with pytest.raises(ReaderLeftError), uninterrupted():
        line.queue.pause(turn)
    line.queue.pause(turn)


@pytest.mark.parametrize(
    ("running", "waits", "before", "spent", "after"),
    [
        ("short", "long", 0.0, 0.25, 0.25 * SHARE),
        ("short", "long", 0.0625, 0.25, 0.0625 + 0.25 * SHARE),
        ("short", "long", 0.0, 60.0, SLICE),
        ("short", "short", 0.0, 0.25, 0.0),
        ("long", "short", 0.0625, 0.03125, 0.03125),
        ("long", "short", 0.0, 60.0, -SHORT),
        ("long", "long", 0.0625, 60.0, 0.0625),
    ],
)
def test_what_long_readings_are_owed_changes_while_both_kinds_wait(running, waits, before, spent, after):
    line = Line(("one", running == "long"), ("other", waits == "long"))
    line.queue._owed = before
    line.turns[0].used = 1.0
    line.end(spent)
    assert line.queue._owed == pytest.approx(after)
    assert line.turns[0].used == 1.0 + spent


def test_a_long_reading_is_next_as_soon_as_something_is_owed():
    line = Line(("first", False), ("long", True), ("a", False), ("b", False))
    assert [line.end(1.0), line.end(1.0), line.end(0.0)] == ["first", "long", "a"]
    assert line.queue._running is line.turns[3]


def test_the_client_that_was_served_longest_ago_is_next():
    line = Line(("a", False), ("b", False), ("a", False), ("c", False), ("b", False))
    assert [line.end() for _ in line.turns] == ["a", "b", "c", "a", "b"]


def test_a_long_reading_that_may_not_begin_is_behind_those_that_may():
    line = Line(("a", True), ("a", True), ("b", True), ("c", True))
    assert [line.queue.place(turn) for turn in line.turns] == [0, 3, 1, 2]
    assert [turn.begun for turn in line.turns] == [True, False, False, False]
    line.end()
    assert [line.queue.place(turn) for turn in line.turns] == [0, 2, 0, 1]


@pytest.mark.parametrize(("at_once", "begun"), [(1, "b"), (2, "bc")])
def test_so_many_long_readings_begin_and_short_ones_always(monkeypatch, at_once, begun):
    monkeypatch.setattr(fair_queue, "LONG_AT_ONCE", at_once)
    line = Line(("b", True), ("c", True), ("d", True))
    for _ in range(3):
        line.clock.now += 1
        line.pause()
    assert "".join(turn.client for turn in line.turns if turn.begun) == begun
    line.ask("short")
    line.pause()
    assert line.end() == "short"
    assert len(line.queue._begun) == at_once, "and none counts twice"


def test_a_paused_reading_that_is_left_comes_first_and_a_waiting_one_never():
    line = Line(("long", True), ("other", True))
    paused = line.pause()
    for client in ("a", "b"):
        line.ask(client)
    waiting = line.ask("c")
    assert line.queue.place(paused) == 4
    line.queue.leave(waiting)
    line.queue.leave(paused)
    assert isinstance(waiting.granted.exception(timeout=0), ReaderLeftError)
    assert (line.queue.place(paused), line.queue.place(waiting)) == (1, 0)
    assert line.queue._short_waits, "it is let in as soon as a short one would be"


def test_a_request_that_nobody_waits_for_any_more_gives_its_turn_to_the_next():
    line = Line(("a", False), ("b", False), ("c", True))
    first, second, third = line.turns
    assert line.queue._short_waits
    line.queue._drop(second)
    assert (line.queue.place(third), line.queue._short_waits) == (1, False)
    line.queue._drop(first)
    assert third.granted.done()
    line.queue._drop(third)
    assert (line.queue._running, line.queue._waiting, line.queue._begun) == (None, [], [])
    assert line.ask("next").granted.done()


def test_a_full_line_counts_and_refuses_none_that_have_begun(monkeypatch):
    monkeypatch.setattr(fair_queue, "LINE", 3)
    line = Line(("many", True), ("first", True))
    paused = line.pause()
    waiting = [line.ask("many"), line.ask("many")]
    line.ask("new")
    assert isinstance(waiting[1].granted.exception(timeout=0), HTTPException), "the newest one"
    assert not waiting[0].granted.done()
    assert paused in line.queue._waiting
    with pytest.raises(HTTPException, match="503"):
        line.ask("new")


def test_a_client_that_would_have_as_many_as_the_most_does_not_get_into_a_full_line(monkeypatch):
    monkeypatch.setattr(fair_queue, "LINE", 3)
    line = Line(("first", True))
    waiting = [line.ask("many"), line.ask("many"), line.ask("few")]
    with pytest.raises(HTTPException, match="503"):
        line.ask("few")
    assert not any(turn.granted.done() for turn in waiting), "none of those that wait was refused for it"


def test_the_last_turns_of_so_many_clients_are_remembered(monkeypatch):
    monkeypatch.setattr(fair_queue, "CLIENTS", 2)
    line = Line(*((client, False) for client in "abc"))
    for _ in line.turns:
        line.end()
    assert list(line.queue._served) == ["b", "c"]


def begins_again(log: list[str], rival: str, client: str) -> None:
    """A reading of the rival has begun when the client's request, which was taken for a short one, turns out long."""
    clock = Clock()
    queue, asked = FairQueue(clock), threading.Event()
    reading, request = Turn(rival, "long"), Turn(client)

    def read() -> None:
        log.append("reading")
        assert asked.wait(60)
        queue.pause(reading)
        log.append("read")

    def work() -> str:
        log.append("request")
        clock.now += SHORT
        queue.pause(request)
        log.append("done")
        return "answer"

    async def scene() -> None:
        first = asyncio.create_task(queue.run(reading, read))
        while not log:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(queue.run(request, work))
        await asyncio.sleep(0)
        asked.set()
        assert (await asyncio.wait_for(second, 60), await first) == ("answer", None)

    asyncio.run(scene())
    assert request.long
    assert not queue._begun


@pytest.mark.parametrize(("at_once", "client"), [(4, "rival"), (1, "other")])
def test_a_request_that_turns_out_long_where_no_more_may_begin_begins_again(monkeypatch, at_once, client):
    monkeypatch.setattr(fair_queue, "LONG_AT_ONCE", at_once)
    log: list[str] = []
    begins_again(log, "rival", client)
    assert log == ["reading", "request", "read", "request", "done"]


def test_a_request_that_turns_out_long_beside_few_others_goes_on(monkeypatch):
    monkeypatch.setattr(fair_queue, "LONG_AT_ONCE", 2)
    log: list[str] = []
    begins_again(log, "rival", "other")
    assert log == ["reading", "request", "read", "done"]


def test_a_request_whose_client_left_before_it_waits_is_not_run():
    queue, turn, ran = FairQueue(), Turn("gone"), []
    queue.leave(turn)
    with pytest.raises(ReaderLeftError):
        asyncio.run(queue.run(turn, lambda: ran.append(1)))
    assert not ran


def test_a_cancelled_request_that_runs_stops_at_its_next_pause_point():
    queue, turn, begun, go_on, log = FairQueue(), Turn("gone"), threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        assert go_on.wait(60)
        try:
            report_progress("reading", 1, 2)
        finally:
            log.append(turn.stopped)

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: unheard.append(said))
        task = asyncio.create_task(queue.run(turn, work))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert await asyncio.wait_for(queue.run(Turn("next"), lambda: "free"), 60) == "free"
        await asyncio.sleep(0)
        gc.collect()

    unheard: list[object] = []
    asyncio.run(scene())
    assert (log, turn.progress, unheard) == ([True], ("reading", 1, 2), []), "and its end is reported to nobody"
