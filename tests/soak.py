"""Looks, edits, exports, scans and attacks at once, as long as one likes: ``python -m tests.soak --minutes 30``.

The real server runs in this process on the embedded model. Clients ask it over the network as a page does, one thread
exports looks as files, and one scans. Hostile clients hold half-open connections, leave what they asked for, send texts
that are refused, and call the server by other names. Every few seconds the resident memory, threads and open files are
written down.

Memory is flat when it does not rise after the warm-up. The looks that a session keeps are filled up first, with
texts as they come later; then the first third is left out, and of the rest the second half's median may lie at most 3 %
above the first half's. Medians, since one long text more moves single samples. Before each reading, garbage is
collected and the allocator gives back pages that nobody uses: what it hoards grows for minutes, and is no leak.
At the end, with the server stopped, no thread and no open file may be left over.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import torch

import headscope
from bench import measure
from headscope.app.export.html import save_html
from headscope.app.pages.kept_looks import KEPT_LOOKS
from headscope.app.pages.microscope import LookRequest, Session
from headscope.app.server import HOST
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.scan.options import ScanOptions
from headscope.scope import Scope
from tests.e2e.conftest import served

WORDS = re.findall(r"\w+", "The old lamp on the landing burned until morning and Mary gave John a book in the shop")
LENGTHS = (3, 12, 40, 120)
RISE = 1.03
WORKS = {"look", "edit", "export", "scan", "half-open", "left", "refused"}
SCAN = ScanOptions(context=64, batch=2, threads=1, replicates=4, examples=1)


@dataclass
class Record:
    """What was done, and how large the process was meanwhile."""

    done: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def sample(self) -> None:
        process = psutil.Process()
        gc.collect()
        _give_back()
        self.memory.append(process.memory_info().rss / 2**20)
        self.threads.append(process.num_threads())
        self.files.append(process.num_fds())

    @property
    def rise(self) -> float:
        """The second half of what follows the warm-up against its first half."""
        kept = self.memory[len(self.memory) // 3 :]
        half = len(kept) // 2
        return statistics.median(kept[half:]) / statistics.median(kept[:half])


def _give_back() -> None:
    """The allocator's free pages go back to the system, where its C library can (glibc)."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def text(chance: random.Random, number: int) -> str:
    """Long and short in turn, so that the looks which are kept weigh the same at any time."""
    return " ".join(chance.choices(WORDS, k=LENGTHS[number % len(LENGTHS)]))


def ask_like_a_page(address: str, chance: random.Random, record: Record) -> None:
    """One visit: the page, a look, rectangles and parts of it, heads switched off."""
    with httpx.Client(base_url=address, timeout=120) as person:
        person.get("/").raise_for_status()
        heads = [f"{site['name']}.0" for site in person.get("/api/model").raise_for_status().json()["sites"]]
        asked = {"text": text(chance, record.done["look"])}
        told = unpack(person.post("/api/look", json=asked).raise_for_status().content).values
        record.done["look"] += 1
        last = len(told["tokens"]) - 1
        span = {"rows": [0, last + 1], "columns": [0, last + 1]}
        for head in chance.sample(heads, 2):
            body = {"look": told["look"], "head": head, "pool": chance.choice((1, 4)), **span}
            person.post("/api/weights", json=body).raise_for_status()
        site = heads[0].rpartition(".")[0]
        person.post("/api/attribution", json={"look": told["look"], "site": site, "position": last}).raise_for_status()
        off = chance.sample(heads, 2)
        person.post("/api/predict", json={"look": told["look"], "position": last, "off": off}).raise_for_status()
        record.done["edit"] += 1
        assert person.post("/api/look", json={"look": "gone"}).status_code == 422


def hold_connections(address: str, chance: random.Random, record: Record) -> None:
    """Half a request on many connections, and a body that never ends."""
    half = (
        b"",
        b"GET / HTTP/1.1\r\nHost: loc",
        b"POST /api/look HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
    )
    with ExitStack() as held:
        for _ in range(40):
            line = held.enter_context(socket.create_connection((HOST, int(address.rstrip("/").rpartition(":")[2])), 60))
            line.sendall(chance.choice(half))
        httpx.get(address, timeout=120).raise_for_status()
    record.done["half-open"] += 1


def leave(address: str, chance: random.Random, record: Record) -> None:
    """A long text and arms to be trained, whose answers are not awaited."""
    long = " ".join(chance.choices(WORDS, k=1_500))
    arms = {"experiment": "arms", "task": chance.randrange(2), "seeds": 1}
    for path, body in (("look", {"text": long}), ("lab/one-or-many", arms)):
        try:
            patience = httpx.Timeout(60, read=chance.uniform(0.01, 0.5))
            answer = httpx.post(f"{address}api/{path}", json=body, timeout=patience)
            assert answer.status_code != 500, (path, answer.text)  # it may be refused while many wait
        except httpx.ReadTimeout:
            record.done["left"] += 1


def send_refused(address: str, chance: random.Random, record: Record) -> None:
    """Texts without a word, requests for another host and in chunks: all refused."""
    empty = {"text": "\u2003" * chance.randrange(100_000, 1_000_000)}
    assert httpx.post(f"{address}api/look", json=empty, timeout=120).status_code == 422
    assert httpx.get(f"{address}api/model", headers={"Host": "evil.example"}, timeout=120).status_code == 400
    record.done["refused"] += 1


def export(scope: Scope, folder: Path, chance: random.Random, record: Record) -> None:
    save_html(scope.look(" ".join(chance.choices(WORDS, k=8))), folder / "look.html")
    record.done["export"] += 1


def scan(scope: Scope, folder: Path, chance: random.Random, record: Record) -> None:
    scope.scan([text(chance, number) for number in range(4)], options=SCAN)
    record.done["scan"] += 1


def fill(session: Session) -> None:
    """As many looks as a session keeps, long and short as they will come."""
    chance = random.Random(7)
    for number in range(KEPT_LOOKS):
        session.look(LookRequest(text=text(chance, number)))


def keep_doing(work: Callable[[], None], stop: threading.Event, record: Record) -> None:
    while not stop.is_set():
        try:
            work()
        except Exception as error:
            record.troubles.append(f"{type(error).__name__}: {error}"[:300])
            stop.set()


def soak(minutes: float, seed: int = 0, every: float = 2.0) -> Record:
    """Everything at once for this long."""
    record, stop = Record(), threading.Event()
    with headscope.load() as scope, tempfile.TemporaryDirectory() as name:
        folder, session = Path(name), Session(scope)
        fill(session)
        with served(session) as address:
            chances = [random.Random(seed + number) for number in range(7)]
            works: list[Callable[[], None]] = [
                lambda: ask_like_a_page(address, chances[0], record),
                lambda: ask_like_a_page(address, chances[1], record),
                lambda: export(scope, folder, chances[2], record),
                lambda: scan(scope, folder, chances[3], record),
                lambda: hold_connections(address, chances[4], record),
                lambda: leave(address, chances[5], record),
                lambda: send_refused(address, chances[6], record),
            ]
            workers = [threading.Thread(target=keep_doing, args=(work, stop, record)) for work in works]
            for worker in workers:
                worker.start()
            end = time.monotonic() + 60 * minutes
            while time.monotonic() < end and not stop.is_set():
                record.sample()
                stop.wait(every)
            stop.set()
            for worker in workers:
                worker.join()
    record.sample()
    return record


def judge(record: Record, threads_before: int, files_before: int) -> list[str]:
    """What does not hold."""
    found = list(record.troubles)
    if record.rise > RISE:
        found.append(f"memory rises: {record.rise:.3f} after the warm-up, and at most {RISE} is flat")
    if record.threads[-1] > threads_before:
        found.append(f"{record.threads[-1] - threads_before} threads were left: {threading.enumerate()}")
    if record.files[-1] > files_before:
        left = [file.path for file in psutil.Process().open_files()]
        found.append(f"{record.files[-1] - files_before} open files were left: {left}")
    missing = WORKS - {name for name, count in record.done.items() if count}
    return [*found, *(f"no {name} was finished" for name in sorted(missing))]


def run(minutes: float, seed: int = 0) -> tuple[Record, list[str]]:
    """A short round first, so that what every process loads once is there before the counting begins."""
    torch.set_num_threads(1)
    first = soak(min(0.2, minutes / 3), seed)
    if first.troubles:
        return first, first.troubles
    gc.freeze()  # as the server does when it starts
    record = soak(minutes, seed + 100)
    return record, judge(record, first.threads[-1], first.files[-1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="write what was recorded here, as JSON")
    options.add_argument("--note", default="", help="what else the machine was doing, for whoever reads the numbers")
    given = options.parse_args()
    about = measure.machine() | {"torch_threads": 1, "clock": "wall", "note": given.note}
    record, found = run(given.minutes, given.seed)
    if given.out:
        write(given.out, record, given.minutes, about)
    sys.stdout.write(
        f"{dict(record.done)}; memory {record.memory[0]:.0f} → {record.memory[-2]:.0f} MiB, rise {record.rise:.3f}; "
        f"threads {max(record.threads)} at most, {record.threads[-1]} left; "
        f"files {max(record.files)} at most, {record.files[-1]} left\n"
    )
    if found:
        raise InputError("the soak found: " + "; ".join(found))


def write(path: Path, record: Record, minutes: float, about: Mapping[str, Any]) -> None:
    """The record as a result of a benchmark; memory as sixty medians in order."""
    parts = [record.memory[n * len(record.memory) // 60 : (n + 1) * len(record.memory) // 60] for n in range(60)]
    row = {
        "minutes": minutes, "done": dict(record.done), "rise": round(record.rise, 4), "most_rise": RISE,
        "memory_mib": [round(statistics.median(part)) for part in parts if part],
        "memory_mib_after": round(record.memory[-1]),
        "most_threads": max(record.threads), "threads_after": record.threads[-1],
        "most_files": max(record.files), "files_after": record.files[-1], "troubles": record.troubles,
    }  # fmt: skip
    measure.write(path, benchmark="soak", about=about, rows=[row])


if __name__ == "__main__":
    main()
