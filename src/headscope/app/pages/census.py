"""Censuses as the page is told them. The server was started with their folders: a page names them by number only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from headscope.app.pages.head_scores import QUESTIONS
from headscope.app.pages.schema import Unit
from headscope.app.pages.schema_census import (
    CensusCard,
    CensusExample,
    CensusHead,
    CensusLine,
    CensusLines,
    CensusSite,
    ComparisonCard,
    Quantity,
    Spread,
)
from headscope.app.wire import Arrays
from headscope.errors import InputError
from headscope.names import Head
from headscope.scan.census import Census
from headscope.scan.census_page import DESCRIPTIONS
from headscope.scan.compare import compare
from headscope.scan.tally.reduction import TRAITS, distance_edges, entropy_edges

UNITS: dict[str, Unit] = {"entropy": "nats", "distance": "tokens", "spread": "tokens"}
TITLES = {card.name: card.title.partition(",")[0] for card in QUESTIONS} | {
    "spread": "Spread",
    "strongest": "Strongest key",
}
NUMBERS = {
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


class Censuses:
    """The censuses a page may open, in the order they were given, numbered from 1."""

    def __init__(self, folders: Iterable[str | Path] = ()) -> None:
        self._open = [_Opened(number, Census.load(folder)) for number, folder in enumerate(folders, 1)]

    def lines(self) -> CensusLines:
        return CensusLines(censuses=[each.line for each in self._open])

    def table(self, number: int) -> tuple[CensusCard, Arrays]:
        """Every head and quantity."""
        return self._at(number).table

    def head(self, number: int, head: str, question: str) -> CensusHead:
        """Where one head answers one question most, and how its rows are spread."""
        return self._at(number).head(head, question)

    def compare(self, before: int, after: int) -> tuple[ComparisonCard, Arrays]:
        """From one to the other, head by head."""
        one, two = self._at(before), self._at(after)
        found = compare(one.census, two.census)
        names = [each.name for each in one.quantities if each.name in {other.name for other in two.quantities}]
        columns = {str(head): column for column, head in enumerate(one.census.heads())}
        parts = ("before", "after", "low", "high")
        arrays: Arrays = {part: np.full((len(names), len(columns)), np.nan, np.float32) for part in parts}
        for change in found.changes:
            for part in parts:
                arrays[part][names.index(change.question), columns[str(change.head)]] = getattr(change, part)
        quantities = [each for each in one.quantities if each.name in names]
        return ComparisonCard(before=one.line, after=two.line, sites=one.sites, quantities=quantities), arrays

    def _at(self, number: int) -> _Opened:
        if not 1 <= number <= len(self._open):
            raise InputError(f"there is no census {number} on this page; it was started with {len(self._open)}")
        return self._open[number - 1]


class _Opened:
    """One census, and what the page asks of it, computed once."""

    def __init__(self, number: int, census: Census) -> None:
        self.number, self.census = number, census
        self.result: dict[str, Any] = census.recipe.data.get("result", {})

    @property
    def line(self) -> CensusLine:
        return CensusLine(
            number=self.number,
            title=self.census.title,
            model=self.census.model_name,
            corpus=self.census.corpus_name,
            tokens=int(self.result.get("tokens", 0)),
            documents=int(self.result.get("documents", 0)),
            heads=self.census.layout.n_heads,
        )

    @property
    def sites(self) -> list[CensusSite]:
        return [CensusSite(name=name, n_heads=heads) for name, heads in self.census.layout.sites]

    @property
    def quantities(self) -> list[Quantity]:
        return [_quantity(name) for name in (*self.census.questions, *TRAITS)]

    @cached_property
    def table(self) -> tuple[CensusCard, Arrays]:
        census, names = self.census, [each.name for each in self.quantities]
        columns = {str(head): column for column, head in enumerate(census.heads())}
        arrays: Arrays = {name: np.full((len(names), len(columns)), np.nan, np.float32) for name in NUMBERS}
        for row in census.rows:
            place = names.index(row.question), columns[str(row.head)]
            for name, stored in NUMBERS.items():
                value = getattr(row, stored)
                arrays[name][place] = np.nan if value is None else value
        line = self.line.model_dump(exclude={"heads"})
        card = CensusCard(
            **line,
            context=census.layout.context,
            interval_over=str(self.result.get("interval_over", "document")),
            sites=self.sites,
            quantities=self.quantities,
            problems=census.problems,
            notes=[str(note) for note in self.result.get("notes", [])],
            recipe=census.recipe.to_json(),
        )
        return card, arrays

    def head(self, name: str, question: str) -> CensusHead:
        head = Head.parse(name)
        if head not in self.census.heads():
            raise InputError(f"this census has no head {name}; its heads are {_range(self.census)}")
        if question not in {each.name for each in self.quantities}:
            asked = ", ".join(each.name for each in self.quantities)
            raise InputError(f"this census does not ask {question!r}; it asks {asked}")
        table = self.census.examples()
        mine = pc.and_(pc.equal(table["head"], str(head)), pc.equal(table["question"], question))
        examples = [_example(row) for row in table.filter(mine).to_pylist()]
        return CensusHead(head=str(head), question=question, examples=examples, spreads=self._spreads(head))

    def _spreads(self, head: Head) -> list[Spread]:
        edges = {"entropy": entropy_edges(self.census.layout.context), "distance": distance_edges()}
        kept = {"entropy": self.census.tally.entropy, "distance": self.census.tally.distance}
        column = self.census.heads().index(head)
        return [
            Spread(name=name, edges=edges[name], counts=[int(count) for count in kept[name][column]]) for name in edges
        ]


def _quantity(name: str) -> Quantity:
    kind: Literal["question", "trait"] = "trait" if name in TRAITS else "question"
    words = DESCRIPTIONS.get(name, "attention mass on a class of tokens given to the scan")
    return Quantity(name=name, title=TITLES.get(name, name), words=words, kind=kind, unit=UNITS.get(name, "share"))


def _example(row: dict[str, Any]) -> CensusExample:
    target = int(row["at"]) + int(row["key"]) - int(row["position"])
    told = {name: row[name] for name in ("score", "document", "position", "key", "at", "tokens")}
    return CensusExample(**told, target=target if 0 <= target < len(row["tokens"]) else None)


def _range(census: Census) -> str:
    heads = census.heads()
    return f"{heads[0]} to {heads[-1]}"
