"""A census: one row for every head and question, with its null and interval, examples, and the recipe it came from."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.files import reading
from headscope.models.protocol import Token
from headscope.names import Head
from headscope.scan.recipe import SCHEMA_VERSION, Recipe
from headscope.scan.tally.examples import BEFORE, NO_TOKEN
from headscope.scan.tally.reduction import TRAITS
from headscope.scan.tally.tally import Layout, Tally

FILES = ("tally.safetensors", "examples.parquet", "report.html", "recipe.json", "census.parquet")
"""In the order in which they are written: the last one says that the census is whole."""

_NUMBERS = ("mean", "variance", "minimum", "maximum", "low", "high", "null_mean", "null_low", "null_high")


@dataclass(frozen=True)
class Row:
    """What one head answers to one question. ``low`` and ``high`` bound the middle 95 % of bootstrap means."""

    head: Head
    question: str
    kind: str
    count: int
    mean: float
    variance: float
    minimum: float
    maximum: float
    low: float
    high: float
    null_mean: float | None
    null_low: float | None
    null_high: float | None
    histogram: list[int] | None


class Census:
    """Every head and question of a scan. ``census.to_arrow()`` is the whole table."""

    def __init__(
        self, tally: Tally, recipe: Recipe, tokens_of: Callable[[Tensor], tuple[Token, ...]] | None = None
    ) -> None:
        self.tally, self.recipe = tally, recipe
        self._examples = None if tokens_of is None else _example_table(tally, tokens_of)

    @classmethod
    def load(cls, folder: str | Path) -> Census:
        """A census from its folder."""
        path = Path(folder)
        missing = [name for name in FILES if not (path / name).is_file()]
        if missing:
            unfinished = (path / "work").is_dir()
            hint = "its scan is not finished: run it again" if unfinished else "give the folder that a scan wrote"
            raise InputError(f"{path} holds no census ({missing[0]} is missing); {hint}")
        with reading(f"the census in {path}", "scan again into another folder"):
            recipe = Recipe.from_json((path / "recipe.json").read_text(encoding="utf-8"))
            census = cls(Tally.load(str(path / "tally.safetensors")), recipe)
            census._examples = pq.read_table(path / "examples.parquet").cast(pa.schema(list(_EXAMPLE_TYPES.items())))
        return census

    @property
    def layout(self) -> Layout:
        return self.tally.layout

    @property
    def model_name(self) -> str:
        return str(self.recipe.words["model"]["name"])

    @property
    def problems(self) -> list[str]:
        """What could not be read in the corpus, with file and line."""
        return list(self.recipe.words.get("result", {}).get("problems", []))

    @property
    def questions(self) -> tuple[str, ...]:
        return self.layout.questions

    def heads(self) -> list[Head]:
        return [Head(site, index) for site, n_heads in self.layout.sites for index in range(n_heads)]

    @cached_property
    def rows(self) -> list[Row]:
        """In the order of the heads; sites that the text did not reach are left out."""
        return list(_rows(self.tally))

    def row(self, head: str | Head, question: str) -> Row:
        """What one head answers to one question, or one of its traits."""
        wanted = Head.parse(head)
        found = [row for row in self.rows if row.head == wanted and row.question == question]
        if not found:
            asked = ", ".join((*TRAITS, *self.questions))
            raise InputError(f"this census has no row for {wanted} and {question!r}; questions are {asked}")
        return found[0]

    def top(self, question: str, count: int = 5) -> list[Row]:
        """The heads with the highest mean."""
        rows = [row for row in self.rows if row.question == question]
        return sorted(rows, key=lambda row: -row.mean)[:count]

    def to_arrow(self) -> pa.Table:
        """One row for every head and question."""
        columns: dict[str, Any] = {
            "head": pa.array([str(row.head) for row in self.rows]),
            "site": pa.array([row.head.site for row in self.rows]),
            "index": pa.array([row.head.head for row in self.rows], pa.int32()),
            "question": pa.array([row.question for row in self.rows]),
            "kind": pa.array([row.kind for row in self.rows]),
            "count": pa.array([row.count for row in self.rows], pa.int64()),
        }
        columns |= {name: pa.array([getattr(row, name) for row in self.rows], pa.float64()) for name in _NUMBERS}
        columns["histogram"] = pa.array([row.histogram for row in self.rows], pa.list_(pa.int64()))
        about = {"schema_version": str(SCHEMA_VERSION), "recipe": self.recipe.to_json()}
        return pa.table(columns).replace_schema_metadata(about)

    def examples(self) -> pa.Table:
        """The places where each head answers each question most, as text."""
        assert self._examples is not None
        return self._examples

    def files(self) -> dict[str, bytes]:
        """The folder of this census, file by file."""
        from headscope.scan.census_page import page

        made: dict[str, Callable[[], bytes]] = {
            "tally.safetensors": self.tally.to_bytes,
            "examples.parquet": lambda: _parquet(self.examples()),
            "report.html": lambda: page(self).encode(),
            "recipe.json": lambda: self.recipe.to_json().encode(),
            "census.parquet": lambda: _parquet(self.to_arrow()),
        }
        return {name: made[name]() for name in FILES}

    def __repr__(self) -> str:
        result = self.recipe.words.get("result", {})
        trouble = f"; stopped early: {self.problems[0]}" if self.problems else ""
        return (
            f"Census({self.model_name}: {self.layout.n_heads} heads, {len(self.questions)} questions, "
            f"{result.get('tokens', 0):,} tokens in {result.get('documents', 0):,} documents{trouble})"
        )


def _rows(tally: Tally) -> Iterator[Row]:
    layout, counts = tally.layout, tally.head_counts()
    low, high = tally.intervals()
    shown = {"mean": tally.means(), "variance": tally.variances(), "minimum": tally.smallest, "maximum": tally.largest}
    shown |= {"low": low, "high": high}
    heads = [Head(site, index) for site, n_heads in layout.sites for index in range(n_heads)]
    nulls = dict(zip(layout.questions, layout.nulls, strict=True)) if layout.nulls else {}
    for column, head in enumerate(heads):
        for name in (*TRAITS, *layout.questions):
            at = (layout.quantities.index(name), column)
            if not int(counts[at]):
                continue
            null = (layout.quantities.index(nulls[name]), column) if name in nulls else None
            numbers: dict[str, Any] = {key: float(part[at]) for key, part in shown.items()}
            numbers |= {
                f"null_{key}": None if null is None else float(shown[key][null]) for key in ("mean", "low", "high")
            }
            kind = "trait" if name in TRAITS else "question"
            yield Row(head, name, kind, int(counts[at]), **numbers, histogram=_histogram(tally, name, column))


def _histogram(tally: Tally, name: str, head: int) -> list[int] | None:
    kept = {"entropy": tally.entropy, "distance": tally.distance}.get(name)
    return None if kept is None else [int(count) for count in kept[head]]


def _example_table(tally: Tally, tokens_of: Callable[[Tensor], tuple[Token, ...]]) -> pa.Table:
    """Examples with their tokens as text: ``tokens[at]`` is the one that asks."""
    rows: dict[str, list[Any]] = {name: [] for name in _EXAMPLE_TYPES}
    heads = [Head(site, index) for site, n_heads in tally.layout.sites for index in range(n_heads)]
    reads: dict[int, str] = {}
    for column, head in enumerate(heads):
        for number, question in enumerate(tally.layout.questions):
            for rank, one in enumerate(tally.best.at(number, column)):
                ids = [token for token in one.tokens if token != NO_TOKEN]
                at = sum(token != NO_TOKEN for token in one.tokens[:BEFORE])
                for token in set(ids) - reads.keys():
                    reads[token] = _read(tokens_of, token)
                texts = [reads[token] for token in ids]
                values = (str(head), question, rank, one.score, one.document, one.position, one.key, at, texts)
                for name, value in zip(_EXAMPLE_TYPES, values, strict=True):
                    rows[name].append(value)
    return pa.table({name: pa.array(rows[name], kind) for name, kind in _EXAMPLE_TYPES.items()})


def _read(tokens_of: Callable[[Tensor], tuple[Token, ...]], token: int) -> str:
    try:
        return tokens_of(torch.tensor([token]))[0].text
    except (ValueError, OverflowError, LookupError) as error:
        raise InputError(
            f"an example holds token {token}, which this model does not have; a shard is broken"
        ) from error


_EXAMPLE_TYPES = {
    "head": pa.string(),
    "question": pa.string(),
    "rank": pa.int32(),
    "score": pa.float32(),
    "document": pa.int64(),
    "position": pa.int64(),
    "key": pa.int64(),
    "at": pa.int32(),
    "tokens": pa.list_(pa.string()),
}


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
