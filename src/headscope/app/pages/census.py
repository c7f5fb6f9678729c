"""The census page: scans of a corpus, each with a number.

The server is started with their folders, and shows the embedded model's census where none is given. A client may scan a
pasted text; that census belongs to the client.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow.compute as pc
from pydantic import Field

from headscope.app.lru import LRU
from headscope.app.pages.schema import QUESTIONS, Request, Response, Unit
from headscope.app.wire import Arrays
from headscope.errors import InputError
from headscope.names import Head
from headscope.scan.census import DESCRIPTIONS, Census, archive_of
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.tally import TRAITS, distance_edges, entropy_edges
from headscope.scope import EMBEDDED, Scope

SHIPPED = EMBEDDED / "census.zip"  # made by python -m bench.census
SHIPPED_CORPUS = "stories, a licence and code"
LONGEST_TEXT = 100_000  # characters: some 25,000 tokens; nothing pauses the tokenizer meanwhile
KEPT_SCANS = 96  # pasted texts' censuses: a class of 64 has one each; the least recently used one goes
KEPT_OF_ONE = 3  # of them one client's
PASTED = ScanOptions(batch=1, replicates=100)  # row by row: progress is told, and a scan stops, after each
UNITS: dict[str, Unit] = {"entropy": "nats", "distance": "tokens", "spread": "tokens"}
TITLES = {question.name: question.title.partition(",")[0] for question in QUESTIONS} | {
    "spread": "Spread",
    "strongest": "Strongest key",
}
COLUMNS = {
    "mean": "mean",
    "low": "low",
    "high": "high",
    "null": "null_mean",
    "null_low": "null_low",
    "null_high": "null_high",
    "smallest": "minimum",
    "largest": "maximum",
    "count": "count",
}


class Quantity(Response):
    """A question or a trait that every head of a census has a number for."""

    name: str
    title: str
    words: str
    kind: Literal["question", "trait"]
    unit: Unit


class CensusSite(Response):
    name: str
    n_heads: int


class CensusSummary(Response):
    """A census by its number, its model and its corpus."""

    number: int
    title: str
    model: str
    corpus: str
    tokens: int
    documents: int
    heads: int


class ScanRequest(Request):
    """A text to scan."""

    text: Annotated[str, Field(min_length=1)]


class CensusResponse(CensusSummary):
    """A whole census. Arrays [quantity, head], NaN where no row could answer: ``mean``, ``low``, ``high``, ``null``,
    ``null_low``, ``null_high``, ``smallest``, ``largest``, ``count``."""

    context: int
    interval_over: str
    sites: list[CensusSite]
    quantities: list[Quantity]
    problems: list[str]
    notes: list[str]
    recipe: str


class CensusExample(Response):
    """A window of text: ``tokens[at]`` is the query; ``target`` its strongest key, None where that is outside."""

    score: float
    document: int
    position: int
    key: int
    at: int
    target: int | None
    tokens: list[str]


class Histogram(Response):
    """Counts of a head's rows by their value, between edges."""

    name: str
    edges: list[float]
    counts: list[int]


class CensusHead(Response):
    """One head's best examples of one question, and its histograms."""

    head: str
    question: str
    examples: list[CensusExample]
    spreads: list[Histogram]


class ComparisonResponse(Response):
    """Two censuses. Arrays [quantity, head]: ``before``, ``after``, and ``low``, ``high`` of the difference."""

    before: CensusSummary
    after: CensusSummary
    sites: list[CensusSite]
    quantities: list[Quantity]


class Censuses:
    """The censuses that the server was started with, numbered from 1, and after them those of a client's own scans.

    Started with none, it shows the embedded model's. Safe to use from several threads.
    """

    def __init__(self, folders: Iterable[str | Path] = ()) -> None:
        self._given = [_OpenedCensus(number, Census.load(folder)) for number, folder in enumerate(folders, 1)]
        self._scanned: LRU[tuple[str, int], _OpenedCensus] = LRU(KEPT_SCANS)
        self._lock = threading.Lock()

    def summaries(self, client: str = "") -> list[CensusSummary]:
        return [each.summary for each in self.opened(client).values()]

    def opened(self, client: str = "") -> dict[int, _OpenedCensus]:
        """A client's censuses by number, in the order of the page's list."""
        with self._lock:
            given = {each.number: each for each in self._given or _shipped()}
            return given | {number: self._scanned[who, number] for who, number in list(self._scanned) if who == client}

    def scan(self, scope: Scope, asked: ScanRequest, client: str = "", n_threads: int = 1) -> CensusSummary:
        """Scan a pasted text, and keep its census for the client."""
        if len(asked.text) > LONGEST_TEXT:
            raise InputError(
                f"this text has {len(asked.text):,} characters, and the page scans up to {LONGEST_TEXT:,}; put it in a "
                "file and scan that: headscope scan --corpus text.txt --out census"
            )
        census = scope.scan([asked.text], options=replace(PASTED, threads=n_threads))
        with self._lock:
            own = sorted(number for who, number in self._scanned if who == client)
            number = 1 + max([*own, len(self._given) or 1])
            self._scanned[client, number] = opened = _OpenedCensus(number, census, _first_words(asked.text))
            for old in own[: len(own) + 1 - KEPT_OF_ONE]:
                self._scanned.pop((client, old), None)
        return opened.summary

    def get(self, number: int, client: str = "") -> _OpenedCensus:
        """A census by its number."""
        opened = self.opened(client)
        if number not in opened:
            numbers = ", ".join(map(str, sorted(opened))) or "none"
            raise InputError(
                f"there is no census {number} on this page; it has {numbers}. The scan of a pasted text is gone when "
                f"the program is started again, and of each reader's the last {KEPT_OF_ONE} are kept"
            )
        return opened[number]

    def compare(self, before: int, after: int, client: str = "") -> tuple[ComparisonResponse, Arrays]:
        """Two censuses, head by head."""
        one, two = self.get(before, client), self.get(after, client)
        shared = {each.name for each in two.quantities}
        quantities = [each for each in one.quantities if each.name in shared]
        names = [each.name for each in quantities]
        parts = ("before", "after", "low", "high")
        arrays = one.arrays(parts, names)
        for change in compare(one.census, two.census).changes:
            for part in parts:
                arrays[part][names.index(change.question), one.columns[str(change.head)]] = getattr(change, part)
        found = ComparisonResponse(before=one.summary, after=two.summary, sites=one.sites, quantities=quantities)
        return found, arrays


@cache
def _shipped() -> list[_OpenedCensus]:
    """The embedded model's census, read when it is first asked for."""
    return [_OpenedCensus(1, Census.load(SHIPPED), SHIPPED_CORPUS)] if SHIPPED.is_file() else []


def _first_words(text: str) -> str:
    """A pasted text's name: how it begins."""
    words = " ".join(text[:200].split())
    return f"“{words}”" if len(words) <= 32 else f"“{words[:32].rstrip()}…”"


class _OpenedCensus:
    """One census and its responses. ``corpus`` names a text that has no name of its own."""

    def __init__(self, number: int, census: Census, corpus: str | None = None) -> None:
        self.number, self.census, self.corpus = number, census, corpus or census.corpus_name
        self.result: dict[str, Any] = census.recipe.data.get("result", {})
        self.columns = {str(head): column for column, head in enumerate(census.heads())}
        self.sites = [CensusSite(name=name, n_heads=heads) for name, heads in census.layout.sites]
        self.quantities = [_quantity(name) for name in (*census.questions, *TRAITS)]

    @property
    def summary(self) -> CensusSummary:
        return CensusSummary(
            number=self.number,
            title=f"{self.census.model_name} on {self.corpus}",
            model=self.census.model_name,
            corpus=self.corpus,
            tokens=int(self.result.get("tokens", 0)),
            documents=int(self.result.get("documents", 0)),
            heads=self.census.layout.n_heads,
        )

    def arrays(self, parts: Iterable[str], names: list[str]) -> Arrays:
        """Arrays [quantity, head] to be filled."""
        return {part: np.full((len(names), len(self.columns)), np.nan, np.float32) for part in parts}

    @cached_property
    def table(self) -> tuple[CensusResponse, Arrays]:
        """Every head and quantity."""
        names = [each.name for each in self.quantities]
        arrays = self.arrays(COLUMNS, names)
        for row in self.census.rows:
            place = names.index(row.question), self.columns[str(row.head)]
            for name, column in COLUMNS.items():
                value = getattr(row, column)
                arrays[name][place] = np.nan if value is None else value
        found = CensusResponse(
            **self.summary.model_dump(),
            context=self.census.layout.context,
            interval_over=str(self.result.get("interval_over", "document")),
            sites=self.sites,
            quantities=self.quantities,
            problems=self.census.problems,
            notes=[str(note) for note in self.result.get("notes", [])],
            recipe=self.census.recipe.to_json(),
        )
        return found, arrays

    def head(self, name: str, question: str) -> CensusHead:
        """One head's best examples of a question, and the histograms of its rows."""
        head = str(Head.parse(name))
        if head not in self.columns:
            heads = list(self.columns)
            raise InputError(f"this census has no head {name}; its heads are {heads[0]} to {heads[-1]}")
        if question not in {each.name for each in self.quantities}:
            asked = ", ".join(each.name for each in self.quantities)
            raise InputError(f"this census does not ask {question!r}; it asks {asked}")
        table = self.census.examples()
        mine = pc.and_(pc.equal(table["head"], head), pc.equal(table["question"], question))
        examples = [_example(row) for row in table.filter(mine).to_pylist()]
        return CensusHead(head=head, question=question, examples=examples, spreads=self._histograms(head))

    def archive(self) -> bytes:
        """The census's files in a zip archive, which ``headscope serve --census`` opens."""
        return archive_of(self.census.files())

    def _histograms(self, head: str) -> list[Histogram]:
        tally, column = self.census.tally, self.columns[head]
        kept = {
            "entropy": (entropy_edges(self.census.layout.context), tally.entropy),
            "distance": (distance_edges(), tally.distance),
        }
        return [
            Histogram(name=name, edges=edges, counts=[int(count) for count in counts[column]])
            for name, (edges, counts) in kept.items()
        ]


def _quantity(name: str) -> Quantity:
    kind: Literal["question", "trait"] = "trait" if name in TRAITS else "question"
    words = DESCRIPTIONS.get(name, "attention on a class of tokens given to the scan")
    return Quantity(name=name, title=TITLES.get(name, name), words=words, kind=kind, unit=UNITS.get(name, "share"))


def _example(row: dict[str, Any]) -> CensusExample:
    target = int(row["at"]) + int(row["key"]) - int(row["position"])
    fields = {name: row[name] for name in ("score", "document", "position", "key", "at", "tokens")}
    return CensusExample(**fields, target=target if 0 <= target < len(row["tokens"]) else None)
