"""Compare two censuses: which heads changed between two checkpoints, or between two corpora."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.heads.bootstrap import percentile_interval
from headscope.heads.head_table import HeadTable, of_head
from headscope.names import Head
from headscope.scan.census import Census
from headscope.scan.tally import TRAITS


@dataclass(frozen=True)
class _Change:
    """One head and question in both censuses. ``low`` and ``high`` bound the middle 95 % of bootstrap differences.

    They are NaN where a census counted one document.
    """

    head: Head
    question: str
    before: float
    after: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero, without a correction for testing many heads."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, repr=False)
class Comparison(HeadTable):
    """Every head and question that both censuses have, largest change first."""

    _column, _by, _signed = "difference", "question", True
    names: tuple[str, str]
    changes: tuple[_Change, ...]

    def of(self, question: str) -> list[_Change]:
        return [change for change in self.changes if change.question == question]

    def _rows(self) -> list[dict[str, Any]]:
        """A row per head and question: before, after, their difference and its interval."""
        names = ("question", "before", "after", "difference", "low", "high", "clear")
        return [{**of_head(each.head), **{name: getattr(each, name) for name in names}} for each in self.changes]

    def ranked_rows(self) -> list[dict[str, Any]]:
        """All rows: scores before traits, the largest change first."""
        return self._rows()

    def _title(self) -> str:
        return "Change between two models or corpora"

    def listed(self, count: int = 10) -> str:
        """The ``count`` largest changes as lines, under what was compared."""
        clear = sum(change.clear for change in self.changes if change.question not in TRAITS)
        names = f"{self.names[0]} → {self.names[1]}: {clear} clear changes among {len(self.changes)} rows"
        return f"{names}\n{super().listed(count)}"


def compare(a: Census | str | Path, b: Census | str | Path) -> Comparison:
    """Compare two checkpoints, or one model on two corpora. Both censuses must have the same heads.

    Replicates depend on document and seed: over one corpus they are paired, which makes the interval narrower.
    """
    before, after = (one if isinstance(one, Census) else Census.load(one) for one in (a, b))
    if before.layout.sites != after.layout.sites:
        raise InputError(
            f"one census is of {_shape(before)}, the other of {_shape(after)}: their heads do not correspond; compare "
            "two checkpoints of one model, or one model on two corpora"
        )
    shared = [name for name in (*TRAITS, *before.questions) if name in (*TRAITS, *after.questions)]
    changes = [change for name in shared for change in _changes(before, after, name)]
    changes.sort(key=lambda change: (change.question in TRAITS, -abs(change.difference)))
    return Comparison((before.title, after.title), tuple(changes))


def _changes(before: Census, after: Census, question: str) -> list[_Change]:
    means, drawn = [], []
    for census in (before, after):
        index = census.layout.quantities.index(question)
        means.append(census.tally.means()[index])
        drawn.append(census.tally.replicate_means()[:, index])
    replicates = min(len(one) for one in drawn)
    moved = drawn[1][:replicates] - drawn[0][:replicates]
    low, high = percentile_interval(moved)
    return [
        _Change(head, question, *(float(part[column]) for part in (*means, low, high)))
        for column, head in enumerate(before.heads())
        if not (means[0][column].isnan() or means[1][column].isnan())
    ]


def _shape(census: Census) -> str:
    return f"{census.model_name} ({census.layout.n_heads} heads in {len(census.layout.sites)} sites)"
