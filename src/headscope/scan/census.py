"""The census of a scan: one row per head and question with null and interval, examples, and the recipe."""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.files import parsing
from headscope.heads.head_table import HeadTable
from headscope.models.protocol import Token
from headscope.names import Head, HeadName
from headscope.scan.shards import SCHEMA_VERSION, Recipe
from headscope.scan.tally import BEFORE, NO_TOKEN, TRAITS, Tally, TallyLayout

_NUMBERS = ("mean", "variance", "minimum", "maximum", "low", "high", "null_mean", "null_low", "null_high")


@dataclass(frozen=True)
class _CensusRow:
    """One head's attention mass on one question, or one of its traits, over all counted queries.

    ``low`` and ``high`` bound the middle 95 % of bootstrap means; None where all counted queries are of one document.
    """

    head: Head
    question: str
    kind: str
    count: int
    mean: float
    variance: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None
    null_mean: float | None
    null_low: float | None
    null_high: float | None
    histogram: list[int] | None


class Census(HeadTable):
    """Every head and question of a scan. ``to_arrow()`` gives the whole table."""

    _column, _by = "mean", "question"

    def __init__(
        self, tally: Tally, recipe: Recipe, tokens_of: Callable[[Tensor], tuple[Token, ...]] | None = None
    ) -> None:
        self.tally, self.recipe = tally, recipe
        self._examples = None if tokens_of is None else _example_table(tally, tokens_of)

    @classmethod
    def load(cls, folder: str | Path) -> Census:
        """Load a census from its folder, or from the archive of one."""
        path = Path(folder)
        files = read_census(path)
        with parsing(f"the census in {path}", "scan again into another folder"):
            recipe, digests = Recipe.from_json(files["recipe.json"].decode("utf-8")).without_digests()
            census = cls(Tally.from_bytes(files["tally.safetensors"]), recipe)
            census._examples = pq.read_table(pa.BufferReader(files["examples.parquet"])).cast(_EXAMPLE_SCHEMA)
            repr(census), census.title  # what its page begins with
            found = _digests({**files, "recipe.json": recipe.to_json().encode()})
            if wrong := [name for name, digest in (digests or {}).items() if found.get(name) != digest]:
                raise InputError(f"{wrong[0]} in {path} is not what the scan wrote (its SHA-256 differs); scan again")
        if digests is None and path.is_dir():  # an archive has checksums of its own
            warnings.warn(f"{path} was written without digests of its data: not verified", stacklevel=2)
        return census

    @property
    def layout(self) -> TallyLayout:
        return self.tally.layout

    @property
    def model_name(self) -> str:
        return str(self.recipe.data["model"]["name"])

    @property
    def corpus_name(self) -> str:
        """The corpus, such as ``wiki.txt``, ``2 files`` or ``22 texts``."""
        first, *more = self.recipe.data["corpus"]
        texts = "1 text" if first.get("texts") == 1 else f"{first.get('texts')} texts"
        name = first.get("file") or first.get("stream") or first.get("dataset") or texts
        return f"{1 + len(more)} files" if more else Path(str(name)).name

    @property
    def title(self) -> str:
        return f"{self.model_name} on {self.corpus_name}"

    @property
    def problems(self) -> list[str]:
        """What could not be read in the corpus, with file and line."""
        return list(self.recipe.data.get("result", {}).get("problems", []))

    @property
    def questions(self) -> tuple[str, ...]:
        return self.layout.questions

    def heads(self) -> list[Head]:
        return self.layout.heads()

    @cached_property
    def rows(self) -> list[_CensusRow]:
        """In the order of the heads; sites that no text reached are left out."""
        return list(_rows(self.tally))

    def row(self, head: HeadName, question: str) -> _CensusRow:
        """The row of one head and question or trait."""
        wanted = Head.parse(head)
        found = [row for row in self.rows if row.head == wanted and row.question == question]
        if not found:
            asked = ", ".join((*TRAITS, *self.questions))
            raise InputError(f"this census has no row for {wanted} and {question!r}; questions are {asked}")
        return found[0]

    def top(self, question: str, count: int = 5) -> list[_CensusRow]:
        """The heads with the highest mean."""
        rows = [row for row in self.rows if row.question == question]
        return sorted(rows, key=lambda row: -row.mean)[:count]

    def _rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return found

    def _title(self) -> str:
        return self.title

    def to_arrow(self) -> pa.Table:
        """One row per head and question."""
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
        """The strongest examples of each head and question, as text."""
        assert self._examples is not None
        return self._examples

    def files(self) -> dict[str, bytes]:
        """The files of this census's folder, in the order of writing: with the last one, the census is complete."""
        files = {
            "tally.safetensors": self.tally.to_bytes(),
            "examples.parquet": _parquet(self.examples()),
            "recipe.json": self.recipe.to_json().encode(),
            "census.parquet": _parquet(self.to_arrow()),
        }
        return {**files, "recipe.json": self.recipe.with_digests(_digests(files)).to_json().encode()}

    def __str__(self) -> str:
        result = self.recipe.data.get("result", {})
        trouble = f"; stopped early: {self.problems[0]}" if self.problems else ""
        return (
            f"Census({self.model_name}: {self.layout.n_heads} heads, {len(self.questions)} questions, "
            f"{result.get('tokens', 0):,} tokens in {result.get('documents', 0):,} documents{trouble})"
        )


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _rows(tally: Tally) -> Iterator[_CensusRow]:
    layout, counts = tally.layout, tally.head_counts()
    low, high = tally.intervals()
    shown = {"mean": tally.means(), "variance": tally.variances(), "minimum": tally.smallest, "maximum": tally.largest}
    shown |= {"low": low, "high": high}
    histograms = {"entropy": tally.entropy, "distance": tally.distance}
    nulls = dict(zip(layout.questions, layout.nulls, strict=True)) if layout.nulls else {}
    listed = {key: part.tolist() for key, part in shown.items()}  # at once: each number by itself takes longer
    queries, bins = counts.tolist(), {name: part.tolist() for name, part in histograms.items()}
    places = {name: number for number, name in enumerate(layout.quantities)}
    for column, head in enumerate(layout.heads()):
        for name in (*TRAITS, *layout.questions):
            at = places[name]
            if not queries[at][column]:
                continue
            null = places[nulls[name]] if name in nulls else None
            numbers: dict[str, Any] = {key: part[at][column] for key, part in listed.items()}
            numbers |= {
                f"null_{key}": None if null is None else listed[key][null][column] for key in ("mean", "low", "high")
            }
            numbers = {key: None if value != value else value for key, value in numbers.items()}
            kind = "trait" if name in TRAITS else "question"
            histogram = bins[name][column] if name in bins else None
            yield _CensusRow(head, name, kind, queries[at][column], **numbers, histogram=histogram)


def _example_table(tally: Tally, tokens_of: Callable[[Tensor], tuple[Token, ...]]) -> pa.Table:
    """The examples with their tokens as text; ``tokens[at]`` is the query. Column by column: a census may have 10⁵."""
    best, layout = tally.examples, tally.layout
    # From [question, head, slot] to rows by head, then question, then rank.
    score, document, position, key = (
        part.transpose(0, 1).numpy() for part in (best.score, best.document, best.position, best.key)
    )
    window = best.tokens.transpose(0, 1).numpy()
    there = document >= 0
    head, question, _ = there.nonzero()
    rank = (there.cumsum(2) - 1)[there]
    known, real = window[there], window[there] != NO_TOKEN
    ids, numbers = np.unique(known[real], return_inverse=True)
    texts = pa.array([_text_of(int(token), tokens_of) for token in ids], pa.string())
    starts = np.concatenate(([0], real.sum(1).cumsum()))
    heads, questions = pa.array([str(each) for each in layout.heads()]), pa.array(layout.questions, pa.string())
    columns = {
        "head": heads.take(pa.array(head)),
        "question": questions.take(pa.array(question)),
        "rank": rank,
        "score": score[there],
        "document": document[there],
        "position": position[there],
        "key": key[there],
        "at": real[:, :BEFORE].sum(1),
        "tokens": pa.ListArray.from_arrays(pa.array(starts, pa.int32()), texts.take(pa.array(numbers.reshape(-1)))),
    }
    return pa.table(columns, schema=_EXAMPLE_SCHEMA)


def _text_of(token: int, tokens_of: Callable[[Tensor], tuple[Token, ...]]) -> str:
    try:
        return tokens_of(torch.tensor([token]))[0].text
    except (ValueError, OverflowError, LookupError) as error:
        raise InputError(
            f"an example holds token {token}, which this model does not have; a shard is damaged"
        ) from error


_EXAMPLE_SCHEMA = pa.schema(
    {
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
)


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


FILES = ("tally.safetensors", "examples.parquet", "recipe.json", "census.parquet")
SUFFIX = ".zip"
LARGEST_FILE = 2**31  # bytes of one file in an archive; a tally of a thousand heads has some 30 million
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every file in an archive, so that equal censuses are equal bytes


def read_census(path: Path) -> dict[str, bytes]:
    """The files of a census, by name."""
    return _read_archive(path) if path.suffix == SUFFIX and path.is_file() else _read_folder(path)


def _read_folder(path: Path) -> dict[str, bytes]:
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        unfinished = (path / "work").is_dir()
        hint = "its scan is not finished: run it again" if unfinished else "give the folder that a scan wrote"
        raise InputError(f"{path} holds no census ({missing[0]} is missing); {hint}")
    return {name: (path / name).read_bytes() for name in FILES}


def _read_archive(path: Path) -> dict[str, bytes]:
    with parsing(f"the census in {path}", "download it again"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in FILES:
            if name not in names:
                raise InputError(f"{path} holds no census ({name} is missing); give an archive that the page made")
            size = archive.getinfo(name).file_size
            if size > LARGEST_FILE:
                raise InputError(f"{name} in {path} has {size:,} bytes; a census's files have at most {LARGEST_FILE:,}")
        return {name: archive.read(name) for name in FILES}


def archive_of(files: Mapping[str, bytes], *, smallest: bool = False, comment: str = "") -> bytes:
    """A zip archive of a census's files. The ``smallest`` one is LZMA, which not every program unpacks."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA if smallest else zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment.encode()
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, archive.compression)
    return buffer.getvalue()


DESCRIPTIONS = {
    "previous": "attention on the token before",
    "itself": "attention on the token itself",
    "first": "attention on the first token",
    "duplicate": "attention on earlier copies of this token",
    "induction": "attention on what followed earlier copies",
    "entropy": "entropy of the attention pattern, in nats",
    "distance": "mean distance to the attended tokens",
    "spread": "standard deviation of that distance",
    "strongest": "weight of the strongest key",
}
