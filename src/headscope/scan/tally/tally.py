"""Mergeable sums for every head: what a scan keeps of a billion tokens.

Counts, sums, squares, extremes, histograms, best examples, and bootstrap replicates of the sums. All of them add up,
so shards, workers and machines may be joined in any way; a mean appears only when somebody asks for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.errors import InputError
from headscope.files import reading
from headscope.scan.tally.examples import Best, Span, best_of
from headscope.scan.tally.poisson_bootstrap import poisson_weights
from headscope.scan.tally.reduction import DISTANCE_BINS, ENTROPY_BINS, TRAITS, Reduced

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a tally has room for. Two tallies of one layout can be merged."""

    sites: tuple[tuple[str, int], ...]
    """Names of the sites and how many heads each has."""
    questions: tuple[str, ...]
    nulls: tuple[str, ...] = ()
    context: int = 1024
    replicates: int = 200
    examples: int = 5
    seed: int = 0

    @property
    def quantities(self) -> tuple[str, ...]:
        return (*TRAITS, *self.questions, *self.nulls)

    @property
    def n_heads(self) -> int:
        return sum(heads for _, heads in self.sites)

    def heads_of(self, site: str) -> slice:
        start = 0
        for name, heads in self.sites:
            if name == site:
                return slice(start, start + heads)
            start += heads
        raise KeyError(site)

    def index_of(self, site: str) -> int:
        return [name for name, _ in self.sites].index(site)


@dataclass(frozen=True)
class Source:
    """Where the numbers of a batch come from."""

    ids: Int[Tensor, "row position"]
    spans: Sequence[Span]
    units: Sequence[int]
    """What each span belongs to for the bootstrap: spans of one unit are drawn together."""


@dataclass
class Tally:
    """Sums by quantity and head (``[quantity, head]``), their replicates, histograms and best examples."""

    layout: Layout
    count: Int[Tensor, "quantity site"]
    sums: Float[Tensor, "quantity head"]
    squares: Float[Tensor, "quantity head"]
    largest: Float[Tensor, "quantity head"]
    smallest: Float[Tensor, "quantity head"]
    drawn_count: Float[Tensor, "replicate quantity site"]
    drawn_sums: Float[Tensor, "replicate quantity head"]
    entropy: Int[Tensor, "head entropy_bin"]
    distance: Int[Tensor, "head distance_bin"]
    best: Best

    @classmethod
    def zero(cls, layout: Layout) -> Tally:
        """Nothing seen yet."""
        q, h, s, r = len(layout.quantities), layout.n_heads, len(layout.sites), layout.replicates
        wide = torch.float64
        return cls(
            layout,
            count=torch.zeros(q, s, dtype=torch.long),
            sums=torch.zeros(q, h, dtype=wide),
            squares=torch.zeros(q, h, dtype=wide),
            largest=torch.full((q, h), -math.inf, dtype=wide),
            smallest=torch.full((q, h), math.inf, dtype=wide),
            drawn_count=torch.zeros(r, q, s, dtype=wide),
            drawn_sums=torch.zeros(r, q, h, dtype=wide),
            entropy=torch.zeros(h, ENTROPY_BINS, dtype=torch.long),
            distance=torch.zeros(h, DISTANCE_BINS, dtype=torch.long),
            best=Best.none(len(layout.questions), h, layout.examples),
        )

    def add(self, site: str, seen: Reduced, source: Source) -> None:
        """Count one batch of a site."""
        heads, index = self.layout.heads_of(site), self.layout.index_of(site)
        self.count[:, index] += seen.rows.sum(0)
        self.sums[:, heads] += seen.sums.sum(0)
        self.squares[:, heads] += seen.squares
        self.largest[:, heads] = torch.maximum(self.largest[:, heads], seen.largest)
        self.smallest[:, heads] = torch.minimum(self.smallest[:, heads], seen.smallest)
        self.entropy[heads] += seen.entropy
        self.distance[heads] += seen.distance
        weights = poisson_weights(source.units, self.layout.replicates, self.layout.seed)
        self.drawn_count[:, :, index] += weights @ seen.rows.double()
        self.drawn_sums[:, :, heads] += torch.einsum("rp,pqh->rqh", weights, seen.sums)
        tops = (seen.top_score, seen.top_column, seen.top_looks_at)
        best = best_of(tops, source.ids, source.spans, self.layout.examples)
        self.best.set(heads, self.best.only(heads).merge(best))

    def merge(self, other: Tally) -> Tally:
        """Both together."""
        if self.layout != other.layout:
            raise InputError("these two tallies count different things; merge tallies of one scan only")
        return replace(
            self,
            count=self.count + other.count,
            sums=self.sums + other.sums,
            squares=self.squares + other.squares,
            largest=torch.maximum(self.largest, other.largest),
            smallest=torch.minimum(self.smallest, other.smallest),
            drawn_count=self.drawn_count + other.drawn_count,
            drawn_sums=self.drawn_sums + other.drawn_sums,
            entropy=self.entropy + other.entropy,
            distance=self.distance + other.distance,
            best=self.best.merge(other.best),
        )

    def to_bytes(self) -> bytes:
        """safetensors; equal tallies give equal bytes."""
        arrays = {name: getattr(self, name).contiguous() for name in _ARRAYS} | self.best.arrays()
        about = json.dumps({"schema_version": SCHEMA_VERSION, "layout": asdict(self.layout)}, sort_keys=True)
        return save_tensors(arrays, {"headscope": about})

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        with reading("this tally", "make it again"):
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length])
            return cls._read(header["__metadata__"]["headscope"], _tensors(data))

    @classmethod
    def load(cls, path: str) -> Tally:
        with reading(str(path), "give a tally that a scan wrote"), safe_open(path, framework="pt") as file:
            return cls._read(file.metadata()["headscope"], {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118

    @classmethod
    def _read(cls, about: str, arrays: dict[str, Tensor]) -> Tally:
        read = json.loads(about)
        if read["schema_version"] != SCHEMA_VERSION:
            raise InputError(
                f"a tally of version {read['schema_version']}; this headscope reads version {SCHEMA_VERSION}"
            )
        words = read["layout"]
        words |= {"sites": tuple((name, heads) for name, heads in words["sites"])}
        words |= {key: tuple(words[key]) for key in ("questions", "nulls")}
        return cls(Layout(**words), **{name: arrays[name] for name in _ARRAYS}, best=Best.from_arrays(arrays))

    def head_counts(self) -> Int[Tensor, "quantity head"]:
        """How many rows stand behind each number."""
        return torch.cat(
            [self.count[:, i : i + 1].expand(-1, heads) for i, (_, heads) in enumerate(self.layout.sites)], 1
        )

    def means(self) -> Float[Tensor, "quantity head"]:
        """NaN where nothing was seen."""
        return self.sums / self.head_counts()

    def variances(self) -> Float[Tensor, "quantity head"]:
        return (self.squares / self.head_counts() - self.means().square()).clamp(min=0.0)

    def drawn_means(self) -> Float[Tensor, "replicate quantity head"]:
        """The mean in every bootstrap replicate; NaN where a replicate drew nothing."""
        sizes = [heads for _, heads in self.layout.sites]
        return self.drawn_sums / self.drawn_count.repeat_interleave(torch.tensor(sizes), dim=2)

    def intervals(self, level: float = 0.95) -> tuple[Float[Tensor, "quantity head"], Float[Tensor, "quantity head"]]:
        """The middle ``level`` of the replicates' means."""
        drawn = self.drawn_means()
        edge = (1 - level) / 2
        return torch.nanquantile(drawn, edge, dim=0), torch.nanquantile(drawn, 1 - edge, dim=0)


_ARRAYS = (
    "count", "sums", "squares", "largest", "smallest", "drawn_count", "drawn_sums", "entropy", "distance",
)  # fmt: skip


def _tensors(data: bytes) -> dict[str, Tensor]:
    from safetensors.torch import load

    return load(data)
