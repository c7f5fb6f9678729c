"""Where a long reading may pause, and that nobody sees what another one has changed for a while."""

from __future__ import annotations

import asyncio
import itertools
import threading
import traceback
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch

from headscope.app.pages.explain import TraceRequest, WhyRequest
from headscope.app.pages.microscope import ImportanceRequest, LookRequest, Session
from headscope.app.pages.predictions import PredictRequest
from headscope.app.server import fair_queue
from headscope.app.server.fair_queue import FairQueue, ReaderLeftError, Turn
from headscope.attention import engine
from headscope.attention.backends import blockwise
from headscope.attention.progress import may_be_interrupted, pausing, report_progress
from headscope.heads.look import activation_cache
from headscope.heads.roles.run import shuffled_weights

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
OTHER = "stairs below it were as bright as river and landing , until morning it burned"


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_was_taken_for_short_pauses_where_it_tells_its_progress_once_it_takes_long():
    """Four thousand bytes can be four thousand tokens, and one question about them a minute."""
    log: list[str] = []
    clock, begun, asked = Clock(), threading.Event(), threading.Event()
    queue = FairQueue(clock)

    def work() -> None:
        begun.set()
        assert asked.wait(60)
        clock.now += fair_queue.SHORT
        report_progress("reading the text", 1, 2)
        log.append("end")

    async def scene() -> None:
        reading = asyncio.create_task(queue.run(Turn("slow"), work))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        short = asyncio.create_task(queue.run(Turn("short"), lambda: log.append("short")))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(reading, short)

    asyncio.run(scene())
    assert log == ["short", "end"]


def test_interleaved_readings_equal_readings_alone_bit_for_bit(session: Session, monkeypatch):
    """Handed over at every pause point: a look, a look at another text, and a prediction under edits."""
    monkeypatch.setattr(engine, "SHORT", 0)  # read in bands, as a long text is
    monkeypatch.setattr(blockwise, "ROWS", 2)
    look = session.look(LookRequest(text=TEXT))[0].look
    ablated = PredictRequest(look=look, position=3, off=["0.1", "1.4"], how="mean")

    def reading(kind: int) -> list[np.ndarray]:
        fresh = Session(session.scope)
        if kind < 2:
            return list(fresh.look(LookRequest(text=(TEXT, OTHER)[kind]))[1].values())
        fresh.look(LookRequest(text=TEXT))
        return [np.array(fresh.predict(ablated).without)]

    async def run(kinds: tuple[int, ...]) -> tuple[list[Any], int]:
        ticks = itertools.count()
        queue, handed = FairQueue(lambda: float(next(ticks))), []
        hand_over = queue._hand_over

        def count(turn: Turn) -> None:
            handed.append(turn.client)
            hand_over(turn)

        queue._hand_over = count  # type: ignore[method-assign]

        work = [queue.run(Turn(str(kind), "long"), lambda kind=kind: reading(kind)) for kind in kinds]
        return await asyncio.gather(*work), len(set(handed)) * len(handed)

    alone = [asyncio.run(run((kind,)))[0][0] for kind in range(3)]
    together, handed = asyncio.run(run((0, 1, 2)))
    assert handed > 3 * 30, "they did take turns"
    for one, other in zip(alone, together, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("leaves", [False, True])
def test_weights_that_are_shuffled_for_a_while_are_seen_by_no_one_else_and_restored(session: Session, leaves: bool):
    model = session.scope.model
    own = [weight.detach().clone() for weight in model.model.parameters()]
    ids, seen = model.prepare(TEXT).inputs, []
    expected = model.run(ids).logits
    queue, inside, asked = FairQueue(), threading.Event(), threading.Event()
    turn = Turn("battery", "long")

    def battery() -> None:
        with shuffled_weights(model, 0):
            inside.set()
            assert asked.wait(60)
            report_progress("control with shuffled weights", 1, 2)
            assert not torch.equal(model.run(ids).logits, expected)
            report_progress("control with shuffled weights", 2, 2)

    async def scene() -> None:
        working = asyncio.create_task(queue.run(turn, battery))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        short = asyncio.create_task(queue.run(Turn("short"), lambda: seen.append(model.run(ids).logits)))
        await asyncio.sleep(0)
        if leaves:
            queue.leave(turn)
        asked.set()
        done = await asyncio.gather(working, short, return_exceptions=True)
        assert isinstance(done[0], ReaderLeftError) == leaves

    asyncio.run(scene())
    assert torch.equal(seen[0], expected), "whoever waited got the model's own weights"
    assert all(torch.equal(before, now) for before, now in zip(own, model.model.parameters(), strict=True))


def stopped(work: Callable[[FairQueue, Turn], None]) -> None:
    """Run work that its client leaves while it runs."""
    queue, turn = FairQueue(), Turn("gone", "long")
    with pytest.raises(ReaderLeftError):
        asyncio.run(queue.run(turn, lambda: work(queue, turn)))


def test_a_look_pauses_between_layers_and_between_bands_of_rows(session: Session, monkeypatch):
    monkeypatch.setattr(engine, "SHORT", 0)  # read in bands, as a long text is
    monkeypatch.setattr(blockwise, "ROWS", 2)
    queue, at, layers = FairQueue(), [], len(session.scope.shape.sites)
    monkeypatch.setattr(queue, "pause", lambda turn: at.append(turn.progress))
    found = asyncio.run(queue.run(Turn("a", "long"), lambda: session.look(LookRequest(text=TEXT))))
    bands = -(-len(found[0].tokens) // 2)
    between = 1  # before the layer is counted, and once it is
    assert [done for _, done, _ in at].count(0) == between + 1 + bands + between
    assert len(at) == layers * (between + 1 + bands)


def test_a_prediction_under_edits_pauses_between_layers(session: Session, monkeypatch):
    look = session.look(LookRequest(text=TEXT))[0].look
    queue, pauses = FairQueue(), []
    monkeypatch.setattr(queue, "pause", pauses.append)
    asked = PredictRequest(look=look, position=3, off=["0.1"])
    asyncio.run(queue.run(Turn("a", "long"), lambda: session.predict(asked)))
    assert len(pauses) == len(session.scope.shape.sites)


def test_no_reading_pauses_where_it_holds_the_lock_of_a_cached_property(session: Session, monkeypatch):
    """Up to Python 3.11 whoever runs meanwhile would wait for that lock, with the model in hand. Nothing is kept."""
    monkeypatch.setattr(activation_cache, "BUDGET", 0)
    paused: list[bool] = []

    def pause() -> None:
        frames = [frame.f_code for frame, _ in traceback.walk_stack(None)]
        paused.append(may_be_interrupted() and cached_property.__get__.__code__ in frames)

    with pausing(pause):
        look = session.look(LookRequest(text=TEXT))[0].look
        session.predict(PredictRequest(look=look, position=3, off=["0.1"]))
        session.why(WhyRequest(look=look, head="1.1", query=9, key=2))
        session.trace(TraceRequest(look=look, position=9, token=3))
        session.importance(ImportanceRequest(look=look))
    assert paused
    assert not any(paused)
