"""The fair queue: short before long, long in slices, client by client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from starlette.exceptions import HTTPException

from headscope.app.server import fair_queue
from headscope.app.server.fair_queue import LONG_AT_ONCE, SHARE, FairQueue, ReaderLeftError, Turn

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Held:
    """A queue whose model is taken until ``free``; who waits then gets it in the queue's order."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or Clock()
        self.queue, self.order, self.tasks = FairQueue(self.clock), [], []
        self.go_on = threading.Event()
        self.first = asyncio.create_task(self.queue.run(Turn("first"), self.go_on.wait))

    def ask(self, client: str, what: str, long: bool = False) -> Turn:
        turn = Turn(client, "long" if long else "short")
        self.tasks.append(asyncio.create_task(self.queue.run(turn, lambda: self.order.append(what))))
        return turn

    async def free(self) -> list[str]:
        await asyncio.sleep(0)
        self.go_on.set()
        await asyncio.gather(self.first, *self.tasks, return_exceptions=True)
        return self.order


def test_short_requests_come_before_long_ones():
    async def scene() -> list[str]:
        held = Held()
        for what, long in (("long", True), ("short", False), ("short too", False)):
            held.ask(what, what, long)
            await asyncio.sleep(0)
        return await held.free()

    assert asyncio.run(scene()) == ["short", "short too", "long"]


def test_a_client_with_many_requests_does_not_keep_others_waiting():
    async def scene() -> list[str]:
        held = Held()
        for number in range(50):
            held.ask("many", f"many {number}")
            await asyncio.sleep(0)
        for client in ("one", "two"):
            held.ask(client, client)
            await asyncio.sleep(0)
        return await held.free()

    order = asyncio.run(scene())
    assert order[:4] == ["many 0", "one", "two", "many 1"]
    assert order[4:] == [f"many {number}" for number in range(2, 50)]


def slices(clock: Clock, queue: FairQueue, log: list[str], seconds: float) -> Callable[[Turn, int], None]:
    """Work in so many slices: each takes this long, then there is a pause point."""

    def work(turn: Turn, count: int) -> None:
        for _ in range(count):
            log.append(turn.client)
            clock.now += seconds
            queue.pause(turn)

    return work


def test_a_long_reading_lets_a_short_request_in_at_its_next_pause_point():
    clock = Clock()
    queue, log, begun, asked = FairQueue(clock), [], threading.Event(), threading.Event()

    def long_work() -> None:
        log.append("long begins")
        begun.set()
        assert asked.wait(60)
        clock.now += 0.01
        queue.pause(turn)
        log.append("long ends")

    turn = Turn("long", "long")

    async def scene() -> None:
        reading = asyncio.create_task(queue.run(turn, long_work))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        short = asyncio.create_task(queue.run(Turn("short"), lambda: log.append("short")))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(reading, short)

    asyncio.run(scene())
    assert log == ["long begins", "short", "long ends"]


def test_a_long_reading_gets_its_share_while_short_requests_never_end():
    """Two clients send short requests of 0.1 s without a break; a long reading of 20 slices of 10 ms ends meanwhile."""
    clock = Clock()
    queue, log, ended = FairQueue(clock), [], threading.Event()
    work = slices(clock, queue, log, 0.01)
    turn = Turn("long", "long")

    def short_work() -> None:
        log.append("short")
        clock.now += 0.1

    def long_work() -> None:
        work(turn, 20)
        ended.set()

    async def client(name: str) -> None:
        while not ended.is_set():
            await queue.run(Turn(name), short_work)

    async def scene() -> None:
        clients = [asyncio.create_task(client(name)) for name in ("a", "b")]
        await asyncio.sleep(0)
        await asyncio.gather(queue.run(turn, long_work), *clients)

    asyncio.run(scene())
    between = log[log.index("long") : len(log) - log[::-1].index("long")]
    shares = between.count("long") * 0.01 / (between.count("short") * 0.1)
    assert 0.5 * SHARE < shares < 1.5 * SHARE


def test_two_long_readings_take_turns():
    clock = Clock()
    queue, log, both = FairQueue(clock), [], threading.Barrier(1)
    work = slices(clock, queue, log, 1.0)
    turns = [Turn("a", "long"), Turn("b", "long")]

    async def scene() -> None:
        both.wait()
        await asyncio.gather(*(queue.run(turn, lambda turn=turn: work(turn, 4)) for turn in turns))

    asyncio.run(scene())
    assert sorted(log[:4]) == ["a", "a", "b", "b"], "neither waits for the end of the other"
    assert log.count("a") == log.count("b") == 4


def test_a_request_that_turns_out_long_counts_as_long():
    clock = Clock()
    held_turn, log = Turn("slow"), []

    async def scene() -> None:
        queue = FairQueue(clock)
        begun, asked = threading.Event(), threading.Event()

        def slow() -> None:
            begun.set()
            assert asked.wait(60)
            clock.now += 10
            queue.pause(held_turn)
            log.append("slow")

        first = asyncio.create_task(queue.run(held_turn, slow))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        short = asyncio.create_task(queue.run(Turn("short"), lambda: log.append("short")))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(first, short)

    asyncio.run(scene())
    assert held_turn.long
    assert log == ["short", "slow"]


def test_few_long_readings_have_begun_at_a_time_each_of_another_client():
    """Each holds its activations while it waits, so their number is limited; the next begins when one ends."""
    clock = Clock()
    queue, running, most, of_one = FairQueue(clock), [], [], []

    def work(turn: Turn) -> None:
        running.append(turn.client)
        for _ in range(5):
            clock.now += 1.0
            most.append(len(running))
            of_one.append(running.count("a"))
            queue.pause(turn)
        running.remove(turn.client)

    async def scene() -> None:
        turns = [Turn(client, "long") for client in ("a", "a", "a", "b", "c", "d", "e", "f")]
        await asyncio.gather(*(queue.run(turn, lambda turn=turn: work(turn)) for turn in turns))

    asyncio.run(scene())
    assert (max(most), max(of_one)) == (LONG_AT_ONCE, 1)
    assert not queue._begun


def test_a_waiting_request_whose_client_leaves_never_begins():
    async def scene() -> list[str]:
        held = Held()
        gone = held.ask("gone", "gone")
        held.ask("there", "there")
        await asyncio.sleep(0)
        held.queue.leave(gone)
        return await held.free()

    assert asyncio.run(scene()) == ["there"]


@pytest.mark.parametrize("paused", [False, True])
def test_a_reading_whose_client_leaves_stops_at_its_next_pause_point(paused):
    """It runs on alone, or is paused while a short request runs, when its client leaves."""
    clock = Clock()
    queue, steps, go_on = FairQueue(clock), [], threading.Event()
    turn = Turn("gone", "long")

    def work() -> None:
        steps.append("begun")
        assert go_on.wait(60)
        clock.now += 1
        queue.pause(turn)
        steps.append("went on")

    async def scene() -> None:
        reading = asyncio.create_task(queue.run(turn, work))
        while not steps:
            await asyncio.sleep(0.001)
        if paused:
            short = asyncio.create_task(queue.run(Turn("there"), lambda: queue.leave(turn)))
            await asyncio.sleep(0)
        else:
            queue.leave(turn)
        go_on.set()
        with pytest.raises(ReaderLeftError):
            await reading
        if paused:
            await short
        assert await queue.run(Turn("next"), lambda: "free") == "free"

    asyncio.run(scene())
    assert steps == ["begun"]


def test_an_error_of_the_work_frees_the_model():
    def fails() -> None:
        raise ZeroDivisionError

    async def scene() -> str:
        queue = FairQueue()
        with pytest.raises(ZeroDivisionError):
            await queue.run(Turn("a", "long"), fails)
        return await queue.run(Turn("a", "long"), lambda: "free")

    assert asyncio.run(scene()) == "free"


def test_a_full_line_refuses_the_next_request(monkeypatch):
    monkeypatch.setattr(fair_queue, "LINE", 4)

    async def scene() -> tuple[list[str], list[Any]]:
        held = Held()
        for client, what in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"), ("c", "5"), ("d", "6")):
            held.ask(client, what)
            await asyncio.sleep(0)
        order = await held.free()
        return order, [task.exception() for task in held.tasks]

    order, errors = asyncio.run(scene())
    assert sorted(order) == ["1", "2", "3", "4"]
    refused = [index for index, error in enumerate(errors) if isinstance(error, HTTPException)]
    assert refused == [4, 5]
    assert (errors[4].status_code, errors[4].detail) == (503, fair_queue.FULL)
