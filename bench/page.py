"""The page's server on the embedded model: ``python bench/page.py --out bench/results/page-cpu.json``.

Every time is a person's: from the request to the whole answer, over HTTP on this machine, the server in a process of
its own. Beside each wall time stands the processor time that the server took for it, which a busy machine does not
stretch as much. ``--seconds`` is how long the students type.

What is asked: a sentence of 64 tokens until its first pattern; all heads' thumbnails of 512 tokens; tiles of a deep
zoom, each over at most 2,048 × 2,048 pairs of a text of 4,096 tokens; a text of 16,384 tokens, its overview the first
time and again; 64 students with one settled edit every ten seconds, each of four requests, and one running code; 64
clients that send short texts as fast as they are answered, alone and beside two clients with texts of 4,096 tokens, in
turn, so that a change of the machine's load meets both, and how long the long ones take to their end; a short text
right after a reading of 14,000 tokens was left by its client, and how long the server goes on computing. These last, in
minutes: ``--parts students,mixed,queue,left``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import measure

from headscope.app.server import sandbox
from headscope.app.wire import unpack

STORY = (
    "my white horse drank at the river and old man who kept a ferry by bend of road counted planks again in evening "
    "while nobody had ever seen him cross one winter water froze there was no work for lamp on landing burned until "
    "morning she said come back before dark with bread butter wine milk"
)
STUDENTS, EVERY = 64, 10.0
LONG_CLIENTS, LONG_WORDS, VERY_LONG_WORDS = 2, 3_600, 12_300
ROUNDS, EACH = 5, 1  # of alone and beside, and texts of every client in each
MOST_SLOWER = 1.5  # beside the long ones, p95 of the short ones against alone
GOALS = {
    "first pattern, 64 tokens": 150, "grid of all heads, 512 tokens": 300, "tiles over 2,048² pairs, p95": 50,
    "64 students, p95": 150, "reading of 14,000 tokens left, until the server is idle, p95": 200,
}  # fmt: skip
SERVER = """
import sys
from headscope.app.server import ServeOptions, serve
from headscope.app.pages.microscope import Session
from headscope.app.model_registry import ModelRegistry
from headscope.scope import load
serve(ModelRegistry(Session(load())), ServeOptions(port=int(sys.argv[1]), open_browser=False))
"""


class Asked:
    """One server, and its clock."""

    def __init__(self, address: str, process: int) -> None:
        self.http = httpx.Client(base_url=address, timeout=600)
        self.process = process

    @cached_property
    def head(self) -> str:
        """A head in the upper half of this model."""
        sites = self.http.get("/api/model").raise_for_status().json()["sites"]
        return f"{sites[len(sites) * 2 // 3]['name']}.0"

    def post(self, path: str, **body: Any) -> bytes:
        answer = self.http.post(f"/api/{path}", json=body)
        answer.raise_for_status()
        return answer.content

    def look(self, text: str) -> str:
        return str(unpack(self.post("look", text=text)).values["look"])

    def timed(self, work: Callable[[], object]) -> tuple[float, float]:
        """Wall and processor milliseconds of the server for one piece of work."""
        before, began = self.processor(), time.perf_counter()
        work()
        return (time.perf_counter() - began) * 1e3, self.processor() - before

    def processor(self) -> float:
        return time.clock_gettime((~self.process << 3) | 2) * 1e3  # as clock_getcpuclockid(3) names its clock

    def resident(self) -> float:
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 2**10


@contextmanager
def server() -> Iterator[Asked]:
    from headscope.app.server import listen

    with listen() as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)])
    try:
        asked = Asked(f"http://127.0.0.1:{port}", process.pid)
        for _ in range(600):
            try:
                asked.http.get("/api/model").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield asked
    finally:
        process.terminate()
        process.wait()


def text_of(words: int, seed: int) -> str:
    chance, words_of = random.Random(seed), STORY.split()
    return " ".join(chance.choice(words_of) for _ in range(words))


def spread(name: str, runs: list[tuple[float, float]], **more: Any) -> dict[str, Any]:
    walls, processor = sorted(wall for wall, _ in runs), sorted(spent for _, spent in runs)
    middle, high = len(walls) // 2, min(len(walls) - 1, round(0.95 * (len(walls) - 1)))
    row = {
        "what": name, "runs": len(runs), "median_ms": round(walls[middle], 1), "p95_ms": round(walls[high], 1),
        "processor_ms": round(processor[middle], 1), **more,
    }  # fmt: skip
    print(json.dumps(row))
    return row


def short_texts(asked: Asked) -> Iterator[dict[str, Any]]:
    def first(seed: int) -> Callable[[], object]:
        def work() -> None:
            look = asked.look(text_of(58, seed))
            asked.post("weights", look=look, head=asked.head, rows=[0, 512], columns=[0, 512])

        return work

    for seed in range(3):
        first(1000 + seed)()
    yield spread("first pattern, 64 tokens", [asked.timed(first(seed)) for seed in range(20)])
    grid = [asked.timed(lambda seed=seed: asked.look(text_of(445, 50 + seed))) for seed in range(6)]
    yield spread("text of 512 tokens read, with the grid of all heads", grid)
    name = asked.look(text_of(445, 50))
    again = [asked.timed(lambda: asked.post("look", look=name)) for _ in range(10)]
    yield spread("grid of all heads, 512 tokens", again)


def long_texts(asked: Asked) -> Iterator[dict[str, Any]]:
    names: list[str] = []
    yield spread("text of 4,096 tokens read", [asked.timed(lambda: names.append(asked.look(text_of(3_600, 7))))])
    chance = random.Random(0)
    tiles = []
    for _ in range(60):
        span, heads = chance.choice([2048, 1024, 512]), [chance.randrange(8), chance.randrange(8)]
        row, column = sorted((chance.randrange(0, 4000 - span), chance.randrange(0, 4000 - span)), reverse=True)
        body = {
            "look": names[0], "head": f"{heads[0]}.{heads[1]}", "rows": [row, row + span],
            "columns": [column, column + span], "pool": span // 512,
        }  # fmt: skip
        tiles.append(asked.timed(lambda body=body: asked.post("weights", **body)))
    yield spread("tiles over 2,048² pairs, p95", tiles)


def longest_text(asked: Asked) -> Iterator[dict[str, Any]]:
    names: list[str] = []
    yield spread("text of 16,384 tokens read", [asked.timed(lambda: names.append(asked.look(text_of(14_500, 8))))])
    whole = {"look": names[0], "head": asked.head, "rows": [0, 16_384], "columns": [0, 16_384], "pool": 32}
    yield spread("overview of 16,384 tokens, first time", [asked.timed(lambda: asked.post("weights", **whole))])
    again = [asked.timed(lambda: asked.post("weights", **whole)) for _ in range(5)]
    yield spread("overview of 16,384 tokens, kept", again)


async def students(address: str, head: str, seconds: float) -> tuple[list[float], list[str]]:
    """Each types on for a while; how long each settled edit took until everything about it was there."""
    taken: list[float] = []
    errors: list[str] = []

    async def student(number: int) -> None:
        await asyncio.sleep(EVERY * number / STUDENTS)
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:  # a cookie of its own
            (await http.get("/icon.svg")).raise_for_status()

            async def ask(path: str, **body: Any) -> bytes:
                answer = await http.post(f"/api/{path}", json=body)
                answer.raise_for_status()
                return answer.content

            for edit in range(int(seconds / EVERY)):
                began = time.perf_counter()
                try:
                    card = unpack(await ask("look", text=text_of(12, 1000 * number + edit))).values
                    look, last = card["look"], len(card["tokens"]) - 1
                    await ask("weights", look=look, head=head, rows=[0, last + 1], columns=[0, last + 1])
                    await asyncio.gather(
                        ask("attribution", look=look, site=head.rpartition(".")[0], position=last),
                        ask("predict", look=look, position=last, off=[head]),
                    )
                    taken.append((time.perf_counter() - began) * 1e3)
                except httpx.HTTPError as error:
                    errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(max(0.0, EVERY - (time.perf_counter() - began)))

    async def coder() -> None:
        """One of them runs a lesson's code: in their own browser, so the server hands over Python's files, once."""
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            for file in sorted(sandbox.FOLDER.iterdir()):
                (await http.get(f"/python/{file.name}")).raise_for_status()

    await asyncio.gather(coder(), *(student(number) for number in range(STUDENTS)))
    return taken, errors


def classroom(asked: Asked, seconds: float) -> Iterator[dict[str, Any]]:
    before, began = asked.processor(), time.perf_counter()
    taken, errors = asyncio.run(students(str(asked.http.base_url), asked.head, seconds))
    busy = (asked.processor() - before) / (time.perf_counter() - began) / 1e3
    runs = [(each, (asked.processor() - before) / max(1, len(taken))) for each in taken]
    yield spread("64 students, p95", runs, errors=errors, server_busy=round(busy, 2), seconds=seconds)


async def short_clients(address: str, seed: int, long: bool) -> tuple[list[float], list[float]]:
    """Milliseconds of every short text, and of the long ones that were finished beside them."""
    short: list[float] = []
    finished: list[float] = []

    async def look(http: httpx.AsyncClient, words: int, number: int, taken: list[float]) -> None:
        began = time.perf_counter()
        answer = await http.post("/api/look", json={"text": text_of(words, number)})
        answer.raise_for_status()
        taken.append((time.perf_counter() - began) * 1e3)

    async def client(number: int, words: int, taken: list[float], again: Callable[[int], bool]) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=600) as http:  # a cookie of its own
            (await http.get("/icon.svg")).raise_for_status()
            text = 0
            while again(text):
                await look(http, words, seed + 1_000 * number + text, taken)
                text += 1

    numbers = range(900, 900 + LONG_CLIENTS * long)
    most = EACH * STUDENTS
    slow = [asyncio.create_task(client(each, LONG_WORDS, finished, lambda _: len(short) < most)) for each in numbers]
    if long:
        await asyncio.sleep(1.0)  # they have begun
    await asyncio.gather(*(client(number, 12, short, lambda text: text < EACH) for number in range(STUDENTS)))
    await asyncio.gather(*slow)  # each ends the text that it is at
    return short, finished


def mixed(asked: Asked) -> Iterator[dict[str, Any]]:
    taken: dict[bool, list[list[float]]] = {False: [], True: []}
    spent: dict[bool, list[float]] = {False: [], True: []}  # processor milliseconds of the server per short text
    finished: list[float] = []
    for turn in range(ROUNDS):
        for long in (False, True):
            seed = 10_000_000 * (1 + 2 * turn + long)
            before = asked.processor()
            short, ended = asyncio.run(short_clients(str(asked.http.base_url), seed, long))
            spent[long].append((asked.processor() - before) / len(short))
            taken[long].append(short)
            finished += ended
    names = ("64 clients, short texts without a pause", "the same beside two clients of 4,096 tokens")
    rows = {
        long: spread(name, [(each, cost) for cost, some in zip(spent[long], taken[long], strict=True) for each in some])
        for long, name in zip((False, True), names, strict=True)
    }
    ratios = [p95(beside) / p95(alone) for alone, beside in zip(taken[False], taken[True], strict=True)]
    yield rows[False]
    yield rows[True] | {"long_texts_finished": len(finished)} | compared(ratios)
    yield spread("texts of 4,096 tokens beside them", [(each, 0.0) for each in finished])


def compared(ratios: list[float]) -> dict[str, Any]:
    slower = round(sorted(ratios)[len(ratios) // 2], 2)
    return {
        "p95_times_alone_by_round": [round(each, 2) for each in ratios], "p95_times_alone": slower,
        "goal_times_alone": MOST_SLOWER, "met": slower <= MOST_SLOWER,
    }  # fmt: skip


def p95(taken: list[float]) -> float:
    return sorted(taken)[round(0.95 * (len(taken) - 1))]


async def queued(session: Any, seed: int, long: bool) -> list[tuple[float, float]]:
    """Processor milliseconds of this process while each short text waited and was read, in the server's own queue."""
    from headscope.app.pages.microscope import LONG_REQUEST, LookRequest
    from headscope.app.server.fair_queue import FairQueue, Turn

    queue, taken = FairQueue(), []

    async def client(number: int, words: int, slow: bool) -> None:
        for text in range(100 if slow else EACH):
            asked = LookRequest(text=text_of(words, seed + 1_000 * number + text))
            before = time.process_time()
            kind = "long" if session.text_size(asked) > LONG_REQUEST else "short"
            await queue.run(Turn(str(number), kind), lambda asked=asked: session.look(asked))
            if not slow:
                taken.append((time.process_time() - before) * 1e3)

    slow = [asyncio.create_task(client(900 + number, LONG_WORDS, True)) for number in range(LONG_CLIENTS * long)]
    await asyncio.sleep(1.0 * long)
    await asyncio.gather(*(client(number, 12, False) for number in range(STUDENTS)))
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return [(each, each) for each in taken]


def in_the_queue(_: Asked) -> Iterator[dict[str, Any]]:
    """The mixed load once more without HTTP, by the processor's clock, which a busy machine does not stretch."""
    import torch

    from headscope.app.pages.microscope import Session
    from headscope.scope import load

    torch.set_num_threads(1)
    session = Session(load())
    asyncio.run(queued(session, 1, False))  # warm
    runs = []
    for turn in range(3):
        alone = asyncio.run(queued(session, 1_000_000 * (2 * turn + 2), False))
        runs.append((alone, asyncio.run(queued(session, 1_000_000 * (2 * turn + 3), True))))
    ratios = [p95([wall for wall, _ in beside]) / p95([wall for wall, _ in alone]) for alone, beside in runs]
    yield spread("64 short texts in the queue, by processor time", [run for alone, _ in runs for run in alone])
    row = spread("the same beside two of 4,096 tokens", [run for _, beside in runs for run in beside])
    yield row | compared(ratios)


def left(asked: Asked) -> Iterator[dict[str, Any]]:
    """A short text whose turn comes when a long reading, left a moment before, has stopped."""

    def short(seed: int) -> float:
        return asked.timed(lambda: asked.look(text_of(12, seed)))[0]

    def leave(number: int) -> None:
        patience = httpx.Timeout(60, read=1.0 + 0.7 * (number % 8))
        with suppress(httpx.ReadTimeout):
            text = text_of(VERY_LONG_WORDS, 78_000 + number)
            httpx.post(asked.http.base_url.join("/api/look"), json={"text": text}, timeout=patience)

    yield spread("short text, alone", [(short(77_000 + number), 0.0) for number in range(20)])
    after = []
    for number in range(8):
        leave(number)
        after.append((short(79_000 + number), 0.0))
    yield spread("short text, right after a reading of 14,000 tokens was left", after)
    stopped = []
    for number in range(8, 16):
        leave(number)
        stopped.append(until_idle(asked))
    yield spread("reading of 14,000 tokens left, until the server is idle, p95", stopped)


def until_idle(asked: Asked, idle: float = 0.5) -> tuple[float, float]:
    """Milliseconds until the server takes no more than its event loop does, and the processor time until then."""
    began = last = time.perf_counter()
    first = busy = spent = asked.processor()
    while time.perf_counter() - last < idle and last - began < 60:
        time.sleep(0.005)
        now = asked.processor()
        if now - spent >= 1:  # of 5 ms; the event loop takes some .3 ms ten times a second
            last, busy = time.perf_counter(), now
        spent = now
    return (last - began) * 1e3, busy - first


def with_goal(row: dict[str, Any]) -> dict[str, Any]:
    goal = GOALS.get(row["what"])
    if goal is None:
        return row
    reached = row["p95_ms" if row["what"].endswith("p95") else "median_ms"]
    return row | {"goal_ms": goal, "met": reached <= goal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--parts", default="short,students,long,longest,mixed,queue,left")
    parser.add_argument("--note", default="", help="what else the machine was doing, for whoever reads the numbers")
    chosen = parser.parse_args()
    about = measure.machine() | {
        "torch_threads": 1, "clock": "wall, and processor time of the server", "note": chosen.note,
    }  # fmt: skip
    parts = {
        "short": short_texts, "students": lambda asked: classroom(asked, chosen.seconds), "long": long_texts,
        "longest": longest_text, "mixed": mixed, "left": left, "queue": in_the_queue,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    with server() as asked:
        for part in chosen.parts.split(","):
            for row in parts[part](asked):
                rows.append(
                    with_goal(row) | {"load": round(os.getloadavg()[0], 1), "resident_mib": round(asked.resident())}
                )
                if chosen.out:
                    measure.write(chosen.out, benchmark="page", about=about, rows=rows)


if __name__ == "__main__":
    main()
