"""Mergeable sums for every head and question: what a scan keeps of a corpus.

Counts, sums, squares, extremes, histograms, top examples, and the sums of every bootstrap replicate. All of them can
be merged, so shards, workers and machines may be combined in any way. Means are computed only when read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from jaxtyping import Float, Int
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.bootstrap import percentile_interval, poisson_weights
from headscope.names import Head
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.tally.examples import TopExamples, top_examples
from headscope.scan.tally.reduction import DISTANCE_BINS, ENTROPY_BINS, TRAITS, SiteSums

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TallyLayout:
    """The axes of a tally. Tallies of equal layouts can be merged."""

    sites: tuple[tuple[str, int], ...]
    """The name and the number of heads of each site."""
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

    def heads(self) -> list[Head]:
        return [Head(site, index) for site, n_heads in self.sites for index in range(n_heads)]


@dataclass
class Tally:
    """Sums per quantity and head, histograms and top examples. ``drawn_…`` are the sums of every bootstrap replicate.

    The tensors are stored under these names; those of the examples as ``best.…``.
    """

    layout: TallyLayout
    count: Int[Tensor, "quantity site"]
    sums: Float[Tensor, "quantity head"]
    squares: Float[Tensor, "quantity head"]
    largest: Float[Tensor, "quantity head"]
    smallest: Float[Tensor, "quantity head"]
    drawn_count: Float[Tensor, "replicate quantity site"]
    drawn_sums: Float[Tensor, "replicate quantity head"]
    entropy: Int[Tensor, "head entropy_bin"]
    distance: Int[Tensor, "head distance_bin"]
    examples: TopExamples

    @classmethod
    def zero(cls, layout: TallyLayout) -> Tally:
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
            examples=TopExamples.empty(len(layout.questions), h, layout.examples),
        )

    def add(self, site: str, batch: SiteSums, rows: PackedRows, units: Sequence[int], n_sites: int = 1) -> None:
        """Add one batch of a site, or of so many one after the other, with their heads side by side.

        The bootstrap draws pieces with equal ``units`` together.
        """
        index = [name for name, _ in self.layout.sites].index(site)
        sizes = [n_heads for _, n_heads in self.layout.sites]
        sites = slice(index, index + n_sites)
        heads = slice(sum(sizes[:index]), sum(sizes[: index + n_sites]))
        self.count[:, sites] += batch.count.sum(0)[:, None]
        self.sums[:, heads] += batch.sums.sum(0)
        self.squares[:, heads] += batch.squares
        self.largest[:, heads] = torch.maximum(self.largest[:, heads], batch.largest)
        self.smallest[:, heads] = torch.minimum(self.smallest[:, heads], batch.smallest)
        self.entropy[heads] += batch.entropy
        self.distance[heads] += batch.distance
        weights = poisson_weights(units, self.layout.replicates, self.layout.seed)
        self.drawn_count[:, :, sites] += (weights @ batch.count.double())[:, :, None]
        self.drawn_sums[:, :, heads] += torch.einsum("rp,pqh->rqh", weights, batch.sums)
        tops = (batch.top_score, batch.top_column, batch.top_key)
        self.examples.merge_heads(heads, top_examples(tops, rows, self.layout.examples))

    def merge(self, other: Tally) -> Tally:
        if self.layout != other.layout:
            raise InputError("these two tallies count different things; merge tallies of one scan only")
        return replace(
            self,
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMMED},
            largest=torch.maximum(self.largest, other.largest),
            smallest=torch.minimum(self.smallest, other.smallest),
            examples=self.examples.merge(other.examples),
        )

    def to_bytes(self) -> bytes:
        """Serialise as safetensors; equal tallies give equal bytes."""
        arrays = {name: getattr(self, name).contiguous() for name in _ARRAYS} | self.examples.arrays()
        about = json.dumps({"schema_version": SCHEMA_VERSION, "layout": asdict(self.layout)}, sort_keys=True)
        return save_tensors(arrays, {"headscope": about})

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        arrays = load_tensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header["__metadata__"]["headscope"])
        if about["schema_version"] != SCHEMA_VERSION:
            raise InputError(
                f"a tally of schema version {about['schema_version']}; this headscope reads version {SCHEMA_VERSION}"
            )
        layout = about["layout"]
        layout |= {"sites": tuple((site, heads) for site, heads in layout["sites"])}
        layout |= {key: tuple(layout[key]) for key in ("questions", "nulls")}
        axes = TallyLayout(**layout)
        with torch.device("meta"):
            expected = cls.zero(axes)
        for name, array in ({name: getattr(expected, name) for name in _ARRAYS} | expected.examples.arrays()).items():
            if (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
                raise InputError(
                    f"{name} of a tally has shape {tuple(arrays[name].shape)} and {arrays[name].dtype}, and its axes "
                    f"make {tuple(array.shape)} and {array.dtype}; it is damaged: scan again"
                )
        examples = TopExamples.from_arrays(arrays)
        return cls(axes, **{name: arrays[name] for name in _ARRAYS}, examples=examples)

    def head_counts(self) -> Int[Tensor, "quantity head"]:
        """How many queries each sum is over."""
        return self._per_head(self.count)

    def means(self) -> Float[Tensor, "quantity head"]:
        """NaN where no query was counted."""
        return self.sums / self.head_counts()

    def variances(self) -> Float[Tensor, "quantity head"]:
        return (self.squares / self.head_counts() - self.means().square()).clamp(min=0.0)

    def replicate_means(self) -> Float[Tensor, "replicate quantity head"]:
        """The mean in every bootstrap replicate; NaN where it drew no counted query, or all are of one document.

        Of one document, every replicate counts a multiple of its queries, and all have the same mean.
        """
        one = (self.drawn_count % self.count == 0).all(0)
        return self.drawn_sums / self._per_head(self.drawn_count.masked_fill(one, math.nan))

    def intervals(self) -> tuple[Float[Tensor, "quantity head"], Float[Tensor, "quantity head"]]:
        """The percentile bootstrap interval: the middle 95 % of the replicates' means."""
        return percentile_interval(self.replicate_means())

    def _per_head(self, by_site: Tensor) -> Tensor:
        """Repeat the last axis from one entry per site to one per head."""
        return by_site.repeat_interleave(torch.tensor([heads for _, heads in self.layout.sites]), dim=-1)


_SUMMED = ("count", "sums", "squares", "drawn_count", "drawn_sums", "entropy", "distance")
_ARRAYS = (*_SUMMED, "largest", "smallest")
