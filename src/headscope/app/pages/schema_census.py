"""What the census page is told about the scans it was started with."""

from __future__ import annotations

from typing import Literal

from headscope.app.pages.schema import Strict, Unit


class Quantity(Strict):
    """A question or a trait that every head of a census has a number for."""

    name: str
    title: str
    words: str
    kind: Literal["question", "trait"]
    unit: Unit


class CensusLine(Strict):
    """A census in the list; its number names it."""

    number: int
    title: str
    model: str
    corpus: str
    tokens: int
    documents: int
    heads: int


class CensusLines(Strict):
    censuses: list[CensusLine]


class CensusSite(Strict):
    name: str
    n_heads: int


class CensusCard(Strict):
    """A whole census. Arrays [quantity, head], NaN where nothing could be asked: ``mean``, ``low``, ``high``,
    ``null``, ``null_low``, ``null_high``, ``smallest``, ``largest``, ``count``."""

    number: int
    title: str
    model: str
    corpus: str
    tokens: int
    documents: int
    context: int
    interval_over: str
    sites: list[CensusSite]
    quantities: list[Quantity]
    problems: list[str]
    notes: list[str]
    recipe: str


class CensusExample(Strict):
    """A window of text: ``tokens[at]`` asks; ``target`` is where it looks most, None where that is out of sight."""

    score: float
    document: int
    position: int
    key: int
    at: int
    target: int | None
    tokens: list[str]


class Spread(Strict):
    """How often a head's rows had which value: counts between edges."""

    name: str
    edges: list[float]
    counts: list[int]


class CensusHead(Strict):
    """One head's best examples of one question, and its histograms."""

    head: str
    question: str
    examples: list[CensusExample]
    spreads: list[Spread]


class ComparisonCard(Strict):
    """Two censuses. Arrays [quantity, head]: ``before``, ``after``, and ``low``, ``high`` of the difference."""

    before: CensusLine
    after: CensusLine
    sites: list[CensusSite]
    quantities: list[Quantity]
