"""The split of one attention score over the writers into query and key, as a result: numbers, tables, sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import uninterrupted
from headscope.heads.explain.why_words import explain
from headscope.names import Head

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.heads.explain.score_split import RowSplit

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Place:
    """A token of the text: its position and its text."""

    position: int
    token: str

    def to_dict(self) -> dict[str, Any]:
        return {"position": self.position, "token": self.token}


@dataclass(frozen=True)
class Read:
    """The key that a head read most from one position, and the weight on it."""

    place: Place
    weight: float


@dataclass(frozen=True)
class Share:
    """What one writer gives to a relative score; for a head, also what it read at that place."""

    name: str
    kind: str
    value: float
    position_part: float = 0.0
    """Of its value: what is due to the offset between query and key, beyond the mean over the row's offsets."""
    read: Read | None = None

    def to_dict(self) -> dict[str, Any]:
        """The share as plain values."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "value": self.value}
        found["position_part"] = self.position_part
        if self.read is not None:
            found["read"] = {**self.read.place.to_dict(), "weight": self.read.weight}
        return found


@dataclass(frozen=True)
class Pair:
    """What one writer at the query and one at the key give together."""

    query: str
    key: str
    value: float
    position_part: float = 0.0


@dataclass(frozen=True, repr=False)
class Why:
    """One arrow: ``total`` is the score minus ``baseline``, the sum of all pairs and of ``terms``."""

    head: Head
    group: tuple[Head, ...]
    """All heads that read the same keys."""
    query: Place
    key: Place
    weight: float
    score: float
    baseline: float
    minus: str
    n_visible: int
    sink: float | None
    """The weight that a learned sink takes, where there is one."""
    terms: Mapping[str, float]
    """What is not of any pair: ``distance`` (an additive bias) and ``cap`` (capped minus raw scores)."""
    error: float
    """|sum − score| relative to the sum of the sizes of all pairs."""
    terms_position: float
    arrow: tuple[RowSplit, int] = field(compare=False)
    """The row that it was split in, and its place there."""

    @cached_property
    def asked(self) -> tuple[Share, ...]:
        """Writers at the query, each summed over all writers at the key. With the terms, they sum to the total."""
        return self._shares[0]

    @cached_property
    def answered(self) -> tuple[Share, ...]:
        """Writers at the key, each summed over all writers at the query."""
        return self._shares[1]

    @cached_property
    def _shares(self) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
        row, index = self.arrow
        with uninterrupted():  # up to Python 3.11 a cached property holds a lock, which others would wait for
            return row.shares(index)

    @cached_property
    def pairs(self) -> Float[Tensor, "asked answered"]:
        """What each writer at the query and each at the key give together."""
        row, index = self.arrow
        return row.pairs(index)

    @cached_property
    def position_pairs(self) -> Float[Tensor, "asked answered"] | None:
        """Of the pairs, what is due to the offset; None where nothing is rotated."""
        row, index = self.arrow
        return row.position_pairs(index)

    @property
    def total(self) -> float:
        """The score minus its baseline."""
        return self.score - self.baseline

    @property
    def position_part(self) -> float:
        """What is due to the offset: of all pairs together, and of a position bias."""
        rotated = 0.0 if self.position_pairs is None else float(self.position_pairs.sum())
        return rotated + self.terms_position

    def strongest_pairs(self, count: int = 10) -> list[Pair]:
        """The pairs of the largest size, largest first."""
        flat = self.pairs.flatten()
        found = []
        for index in flat.abs().topk(min(count, flat.numel())).indices.tolist():
            a, b = divmod(index, self.pairs.shape[1])
            moved = 0.0 if self.position_pairs is None else float(self.position_pairs[a, b])
            found.append(Pair(self.asked[a].name, self.answered[b].name, float(flat[index]), moved))
        return found

    @property
    def sentence(self) -> str:
        """The split in one or two sentences."""
        return explain(self)

    def table(self) -> pa.Table:
        """An Arrow table with one row per writer and side."""
        import pyarrow as pa

        sides = [("query", share) for share in self.asked] + [("key", share) for share in self.answered]
        return pa.table(
            {
                "side": [side for side, _ in sides],
                "writer": [share.name for _, share in sides],
                "kind": [share.kind for _, share in sides],
                "value": [share.value for _, share in sides],
                "position_part": [share.position_part for _, share in sides],
            }
        )

    def to_dict(self, pairs: int = 20) -> dict[str, Any]:
        """The split as plain values, with its strongest pairs and what the others come to."""
        strongest = self.strongest_pairs(pairs)
        size = float(self.pairs.abs().sum())
        return {
            "schema_version": SCHEMA_VERSION,
            "head": str(self.head),
            "group": [str(head) for head in self.group],
            "query": self.query.to_dict(),
            "key": self.key.to_dict(),
            "weight": self.weight,
            "score": self.score,
            "baseline": self.baseline,
            "total": self.total,
            "minus": self.minus,
            "n_visible": self.n_visible,
            "sink": self.sink,
            "position_part": self.position_part,
            "asked": [share.to_dict() for share in by_size(self.asked)],
            "answered": [share.to_dict() for share in by_size(self.answered)],
            "terms": dict(self.terms),
            "pairs": [
                {"query": each.query, "key": each.key, "value": each.value, "position_part": each.position_part}
                for each in strongest
            ],
            "other_pairs": {
                "count": self.pairs.numel() - len(strongest),
                "sum": float(self.pairs.sum()) - sum(each.value for each in strongest),
                "size": size - sum(abs(each.value) for each in strongest),
            },
            "error": self.error,
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        for title, shares in (("who asked", self.asked), ("who answered", self.answered)):
            lines.append(f"{title} (sum {sum(share.value for share in shares):+.2f})")
            for share in by_size(shares)[:8]:
                read = "" if share.read is None else f"  read {share.read.place.token!r} {share.read.weight:.2f}"
                lines.append(f"  {share.name:<22} {share.value:+7.2f}{read}")
        lines += [f"{name}: {value:+.2f}" for name, value in self.terms.items()]
        return "\n".join(lines)

    __repr__ = __str__


def by_size(shares: Sequence[Share]) -> list[Share]:
    """Shares by absolute size, largest first."""
    return sorted(shares, key=lambda share: -abs(share.value))
