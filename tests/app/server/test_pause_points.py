"""Where a long reading may pause, and that nobody sees what another one has changed for a while."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headscope.app.pages.microscope import LookRequest, Session
from headscope.app.pages.predictions import PredictRequest
from headscope.app.server import fair_queue
from headscope.app.server.fair_queue import FairQueue, ReaderLeftError, Turn
from headscope.attention.backends import sdpa
from headscope.attention.masks import causal, window
from headscope.attention.progress import may_be_interrupted, report_progress
from headscope.attention.scores import Scores
from headscope.heads.roles.shuffled_weights import shuffled_weights

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
OTHER = "stairs below it were as bright as river and landing , until morning it burned"


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Measured:
    """Something that is computed once, in several operations."""

    def __init__(self, log: list[str], asked: threading.Event) -> None:
        self.log, self.asked = log, asked

    @cached_property
    def value(self) -> float:
        self.log.append("computing")
        assert self.asked.wait(60)
        value = float(torch.zeros(2).exp().sum())
        self.log.append("computed")
        return value


def test_a_reading_does_not_pause_where_it_holds_the_lock_of_a_cached_property():
    """Whoever runs meanwhile could wait for that lock, with the model in hand."""
    log: list[str] = []
    queue, asked = FairQueue(), threading.Event()
    measured = Measured(log, asked)

    def work() -> None:
        assert measured.value == 2.0
        torch.zeros(1).exp()
        log.append("end")

    async def scene() -> None:
        reading = asyncio.create_task(queue.run(Turn("long", "long"), work))
        while not log:
            await asyncio.sleep(0.001)
        short = asyncio.create_task(queue.run(Turn("short"), lambda: log.append("short")))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(reading, short)

    asyncio.run(scene())
    assert log == ["computing", "computed", "short", "end"]


def test_what_was_taken_for_short_pauses_between_two_operations_once_it_takes_long():
    """Four thousand bytes can be four thousand tokens, and one question about them a minute."""
    log: list[str] = []
    clock, begun, asked = Clock(), threading.Event(), threading.Event()
    queue = FairQueue(clock)

    def work() -> None:
        begun.set()
        assert asked.wait(60)
        clock.now += fair_queue.SHORT
        torch.zeros(1).exp()
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


def test_what_a_request_cleans_up_before_it_begins_again_is_not_disturbed():
    """Its client has a long reading already: it waits for that one. What it had changed is put back at once."""
    log: list[str] = []
    clock, begun, asked = Clock(), threading.Event(), threading.Event()
    queue = FairQueue(clock)

    def long_work() -> None:
        begun.set()
        assert asked.wait(60)
        torch.zeros(1).exp()
        log.append("long ends")

    def work() -> None:
        try:
            clock.now += fair_queue.SHORT
            torch.zeros(1).exp()
        finally:
            torch.zeros(1).exp()
            log.append("cleaned up")

    async def scene() -> None:
        reading = asyncio.create_task(queue.run(Turn("a", "long"), long_work))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        other = asyncio.create_task(queue.run(Turn("a"), work))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(reading, other)

    asyncio.run(scene())
    assert log == ["cleaned up", "long ends", "cleaned up"]


def test_a_reading_does_not_pause_where_it_holds_the_lock_of_the_kept_looks(session: Session):
    seen: list[bool] = []
    session.kept.whole.looks.weigh = lambda _: 1 + len(seen.append(may_be_interrupted()) or ())
    session.look(LookRequest(text=TEXT))
    session.look(LookRequest(text=OTHER))
    session.kept.trim()
    assert seen
    assert not any(seen)


def test_a_large_matrix_product_has_pause_points_and_the_same_result(monkeypatch):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 3 * 8 * 5)
    queue, pauses = FairQueue(), []
    monkeypatch.setattr(queue, "pause", lambda turn: pauses.append(turn))
    x, layer = torch.randn(2, 7, 8), torch.nn.Linear(8, 5)

    def work() -> torch.Tensor:
        with torch.no_grad():
            return layer(x)

    found = asyncio.run(queue.run(Turn("a", "long"), work))
    torch.testing.assert_close(found, layer(x).detach())
    assert found.shape == (2, 7, 5)
    assert len(pauses) >= 5


@pytest.mark.parametrize("kv", [4, 2])
def test_long_causal_attention_has_pause_points_and_the_same_result(monkeypatch, kv):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 1)
    queue, pauses = FairQueue(), []
    monkeypatch.setattr(queue, "pause", lambda turn: pauses.append(turn))
    q, k, v = torch.randn(1, 4, 300, 8), torch.randn(1, kv, 300, 8), torch.randn(1, kv, 300, 8)
    mask = causal() if kv == 4 else causal() & window(100)

    def work() -> torch.Tensor:
        return sdpa.attention(q, k, v, Scores(mask=mask))

    found = asyncio.run(queue.run(Turn("a", "long"), work))
    torch.testing.assert_close(found, work())
    assert len(pauses) >= 5


def test_interleaved_readings_equal_readings_alone_bit_for_bit(session: Session):
    """Handed over at every operation: a look, a look at another text, and a prediction under edits."""
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
    assert handed > 3 * 300, "they did take turns"
    for one, other in zip(alone, together, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("leaves", [False, True])
def test_weights_that_are_shuffled_for_a_while_are_seen_by_nobody_else_and_restored(session: Session, leaves: bool):
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
            assert not torch.equal(model.run(ids).logits, expected)

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


def test_a_reading_that_is_left_at_the_end_of_no_grad_leaves_gradients_as_they_were():
    after = []

    def work(queue: FairQueue, turn: Turn) -> None:
        try:
            with torch.no_grad():
                queue.leave(turn)
            after.append(torch.is_grad_enabled())
            torch.zeros(1)
        finally:
            after.append(torch.is_grad_enabled())

    stopped(work)
    assert after == [True, True], "the thread is used again, and training needs gradients"


def test_weights_are_restored_where_the_client_leaves_at_their_end(session: Session):
    model = session.scope.model.model
    own = [weight.detach().clone() for weight in model.parameters()]

    def work(queue: FairQueue, turn: Turn) -> None:
        with shuffled_weights(session.scope.model, 0):
            queue.leave(turn)
        torch.zeros(1)

    stopped(work)
    assert all(torch.equal(before, now) for before, now in zip(own, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("rows", "largest", "parts"),
    [(3, 3 * 40, 0), (4, 3 * 40, 2), (6, 3 * 40, 2), (7, 3 * 40, 3), (2, 1, 2), (1, 1, 0), (4, 4 * 40 - 1, 2)],
)
def test_a_product_is_computed_in_parts_of_so_many_rows(monkeypatch, rows, largest, parts):
    """Each of at most so many multiplications, and of one row at least; 40 multiplications are a row."""
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", largest)
    pauses: list[int] = []
    mode = fair_queue._PauseMode(lambda: pauses.append(1))
    x, weight, bias = torch.randn(rows, 1, 8), torch.randn(5, 8), torch.randn(5)
    with torch.no_grad():
        torch.testing.assert_close(mode._linear(x, weight, bias), F.linear(x, weight, bias))
        assert mode._linear(x, weight, bias).shape == (rows, 1, 5)
    assert len(pauses) == 2 * parts
    assert mode._linear(x, weight, bias).shape == (rows, 1, 5)
    assert len(pauses) == 2 * parts, "with gradients it is computed whole"


@pytest.mark.parametrize("width", [1, 2])
def test_rows_of_one_number_are_counted_like_wider_ones(monkeypatch, width):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 3 * 5 * width)
    pauses: list[int] = []
    with torch.no_grad():
        fair_queue._PauseMode(lambda: pauses.append(1))._linear(torch.ones(4, width), torch.ones(5, width))
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("arguments", "named", "pauses"),
    [
        ((torch.ones(6, 8), torch.ones(5, 8)), {}, 4),
        ((torch.ones(6, 8),), {"weight": torch.ones(5, 8)}, 1),
        ((torch.ones(8), torch.ones(5, 8)), {}, 1),
        ((torch.ones(24, 8), torch.ones(8)), {}, 4),
    ],
    ids=["rows", "by keyword", "one vector", "one column"],
)
def test_products_of_rows_are_computed_in_parts_and_others_whole(monkeypatch, arguments, named, pauses):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 2 * 40)
    seen: list[int] = []
    with torch.no_grad():
        expected = F.linear(*arguments, **named)
        with fair_queue._PauseMode(lambda: seen.append(1)):
            found = F.linear(*arguments, **named)
    torch.testing.assert_close(found, expected)
    assert len(seen) == pauses


@pytest.mark.parametrize(
    ("length", "keys", "how", "parts"),
    [
        (100, 100, (None, 0.0, True), 0),
        (101, 101, (None, 0.0, True), 2),
        (200, 200, (None, 0.0, True), 2),
        (201, 201, (None, 0.0, True), 3),
        (201, 201, (), 0),
        (201, 201, (None, 0.0, False), 0),
        (201, 150, (None, 0.0, True), 0),
        (201, 201, (torch.ones(201, 201, dtype=torch.bool).tril(3), 0.0, False), 0),
    ],
    ids=["as long as a part", "longer", "two parts", "three", "not causal", "said so", "fewer keys", "a mask"],
)
def test_causal_attention_is_computed_in_parts_of_so_many_queries(monkeypatch, length, keys, how, parts):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 2 * 3 * 8 * length * 100)
    q, k, v = torch.randn(1, 3, length, 8), torch.randn(1, 3, keys, 8), torch.randn(1, 3, keys, 8)
    pauses: list[int] = []
    mode = fair_queue._PauseMode(lambda: pauses.append(1))
    torch.testing.assert_close(mode._attention(q, k, v, *how), F.scaled_dot_product_attention(q, k, v, *how))
    assert len(pauses) == parts


def test_parts_of_attention_have_64_queries_at_least(monkeypatch):
    monkeypatch.setattr(fair_queue, "LARGEST_PRODUCT", 1)
    x, pauses = torch.randn(1, 1, 65, 4), []
    fair_queue._PauseMode(lambda: pauses.append(1))._attention(
        x[..., :64, :], x[..., :64, :], x[..., :64, :], None, 0.0, True
    )
    assert not pauses
    fair_queue._PauseMode(lambda: pauses.append(1))._attention(x, x, x, None, 0.0, True, scale=0.5)
    assert len(pauses) == 2


@pytest.mark.parametrize("kind", ["short", "brief"])
def test_a_brief_request_pauses_where_it_reports_progress_alone(kind):
    """It has no mode that sees every operation, and still gives way and stops when its client leaves."""
    queue, turn, seen = FairQueue(), Turn("a", kind), []

    def work() -> None:
        queue.leave(turn)
        seen.append("left")
        torch.zeros(2).exp()
        seen.append("operation")
        report_progress("reading the text", 1, 2)
        seen.append("layer")

    with pytest.raises(ReaderLeftError):
        asyncio.run(queue.run(turn, work))
    assert seen == (["left", "operation"] if kind == "brief" else ["left"])
