"""Mergeable sums for every head and question: what a scan keeps of a corpus.

Counts, sums, squares, extremes, histograms, top examples, and the sums of every bootstrap replicate. All of them can
be merged, so shards, workers and machines may be combined in any way. Means are computed only when read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.bootstrap import percentile_interval, poisson_weights
from headscope.names import Head
from headscope.scan.corpus.packing import PackedRows, Piece

TRAITS = ("entropy", "distance", "spread", "strongest")
ENTROPY_BINS, DISTANCE_BINS = 32, 24


@dataclass(frozen=True)
class SiteValues:
    """One site's values for one batch, per query, quantity and head. The first quantities are the traits."""

    values: Float[Tensor, "row position quantity head"]
    valid: Bool[Tensor, "row position quantity"]
    strongest: Int[Tensor, "row position head"]
    """The column of the key that each query attends to most."""
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class SiteSums:
    """What a tally needs of a site's values: sums per piece, totals, histograms, and the best query of every piece."""

    count: Int[Tensor, "piece quantity"]
    sums: Float[Tensor, "piece quantity head"]
    squares: Float[Tensor, "quantity head"]
    largest: Float[Tensor, "quantity head"]
    smallest: Float[Tensor, "quantity head"]
    entropy: Int[Tensor, "head entropy_bin"]
    distance: Int[Tensor, "head distance_bin"]
    top_score: Float[Tensor, "question head piece"]
    top_column: Int[Tensor, "question head piece"]
    top_key: Int[Tensor, "question head piece"]

    def to_host(self) -> SiteSums:
        """Copy to the CPU without waiting: from a GPU the copies are valid after its stream has reached them."""
        return SiteSums(**{part.name: getattr(self, part.name).to("cpu", non_blocking=True) for part in fields(self)})


def reduce(site: SiteValues, n_questions: int, context: int) -> SiteSums:
    """Sum one site of one batch. The first ``n_questions`` quantities after the traits also give best queries.

    Nothing here synchronises with a GPU: the sums are copied to the host while the next batch runs.
    """
    valid = site.valid[..., None]
    wide = site.values.double() * valid
    parts = [(piece.row, slice(piece.start, piece.stop)) for piece in site.pieces]
    high, low = (site.values.masked_fill(~valid, fill) for fill in (-math.inf, math.inf))
    masses = high[:, :, len(TRAITS) : len(TRAITS) + n_questions]
    tops = [masses[part].max(0) for part in parts]
    entropy, distance = (site.values[:, :, TRAITS.index(name)] for name in ("entropy", "distance"))
    far = distance.abs().clamp(min=2.0**-8)
    keys = [site.strongest[part].gather(0, top.indices) for part, top in zip(parts, tops, strict=True)]
    return SiteSums(
        count=torch.stack([site.valid[part].sum(0) for part in parts]),
        sums=torch.stack([wide[part].sum(0) for part in parts]),
        squares=wide.square().sum((0, 1)),
        largest=high.amax((0, 1)).double(),
        smallest=low.amin((0, 1)).double(),
        entropy=_histogram((entropy / entropy_width(context)).long(), site.valid[..., 0], ENTROPY_BINS),
        distance=_histogram(torch.log2(far).floor().long() + 2, site.valid[..., 0], DISTANCE_BINS),
        top_score=torch.stack([top.values for top in tops], dim=2).float(),
        top_column=torch.stack([top.indices + part[1].start for part, top in zip(parts, tops, strict=True)], dim=2),
        top_key=torch.stack(keys, dim=2),
    )


def entropy_edges(context: int) -> list[float]:
    """Bin edges in equal steps from 0 to log(context), the entropy of uniform attention."""
    return [i * math.log(context) / ENTROPY_BINS for i in range(ENTROPY_BINS + 1)]


def distance_edges() -> list[float]:
    """Bin edges at powers of two: 0, ½, 1, 2, 4 …"""
    return [0.0, *(2.0 ** (i - 1) for i in range(DISTANCE_BINS))]


def entropy_width(context: int) -> float:
    """The width of a bin of entropies."""
    return math.log(max(context, 2)) / ENTROPY_BINS


def _histogram(
    bins: Int[Tensor, "row position head"], counted: Bool[Tensor, "row position"], n_bins: int
) -> Int[Tensor, "head bin"]:
    n_heads = bins.shape[2]
    index = bins.clamp(0, n_bins - 1) + torch.arange(n_heads, device=bins.device) * n_bins
    # Transposed, because positions are contiguous in the memory of a scan's values.
    ones = counted[:, None].expand(-1, n_heads, -1).long()
    empty = torch.zeros(n_heads * n_bins, dtype=torch.long, device=bins.device)
    return empty.scatter_add_(0, index.transpose(1, 2).flatten(), ones.flatten()).view(n_heads, n_bins)


BEFORE, AFTER = 24, 8
WINDOW = BEFORE + 1 + AFTER
"""Tokens kept with an example: some before it, itself, some after."""
NO_TOKEN = -1


@dataclass
class TopExamples:
    """The strongest examples, in decreasing order of score; an empty slot has score −1 and document −1."""

    score: Float[Tensor, "question head slot"]
    document: Int[Tensor, "question head slot"]
    position: Int[Tensor, "question head slot"]
    key: Int[Tensor, "question head slot"]
    tokens: Int[Tensor, "question head slot window"]

    @classmethod
    def empty(cls, n_questions: int, n_heads: int, slots: int) -> TopExamples:
        shape = (n_questions, n_heads, slots)
        document, position, key = (torch.full(shape, -1, dtype=torch.long) for _ in range(3))
        tokens = torch.full((*shape, WINDOW), NO_TOKEN, dtype=torch.int32)
        return cls(torch.full(shape, -1.0), document, position, key, tokens)

    def merge(self, other: TopExamples) -> TopExamples:
        """The strongest of both. Equal scores are ordered by position, so the order of merging does not matter."""
        both = [torch.cat(pair, dim=2) for pair in zip(self._parts(), other._parts(), strict=True)]
        order = _order(*both[:3])[..., : self.score.shape[2]]
        tokens = both[4].gather(2, order[..., None].expand(*order.shape, WINDOW))
        score, document, position, key = (part.gather(2, order) for part in both[:4])
        return TopExamples(score, document, position, key, tokens)

    def merge_heads(self, heads: slice, other: TopExamples) -> None:
        """Merge the examples of some heads into this table."""
        merged = TopExamples(*(part[:, heads] for part in self._parts())).merge(other)
        for mine, theirs in zip(self._parts(), merged._parts(), strict=True):
            mine[:, heads] = theirs

    def arrays(self) -> dict[str, Tensor]:
        return {f"best.{name}": getattr(self, name).contiguous() for name in _PARTS}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Tensor]) -> TopExamples:
        return cls(**{name: arrays[f"best.{name}"] for name in _PARTS})

    def _parts(self) -> list[Tensor]:
        return [getattr(self, name) for name in _PARTS]


_PARTS = ("score", "document", "position", "key", "tokens")


def top_examples(tops: tuple[Tensor, Tensor, Tensor], rows: PackedRows, slots: int) -> TopExamples:
    """The strongest examples of one batch, from the best query of every piece: score, column, and column of its key.

    Each of ``tops`` is ``[question, head, piece]``; a score of −inf means that no query of the piece can answer.
    """
    pieces = torch.tensor(rows.pieces)
    fields = [part.expand_as(tops[0]) for part in pieces.unbind(1)]
    # As ``_order``, with what is the same for every head sorted once.
    by_place = _order(torch.zeros(len(pieces)), *pieces.T[3:])
    order = by_place[tops[0][..., by_place].argsort(dim=2, descending=True, stable=True)[..., :slots]]
    score, column, key = (part.gather(2, order) for part in tops)
    row, start, stop, document, offset = (part.gather(2, order) for part in fields)
    window = column[..., None] + torch.arange(-BEFORE, AFTER + 1)
    inside = (window >= start[..., None]) & (window < stop[..., None])
    tokens = torch.where(inside, rows.ids[row[..., None], window.clamp(0, rows.ids.shape[1] - 1)], NO_TOKEN).int()
    found = TopExamples(score, document, column - start + offset, key - start + offset, tokens)
    unanswered = score.isneginf()
    for part in found._parts():
        part[unanswered] = -1
    return found


def _order(score: Tensor, document: Tensor, position: Tensor) -> Int[Tensor, "*axes slot"]:
    """By decreasing score, then document, then position: stable sorts, last criterion first."""
    order = position.argsort(dim=-1, stable=True)
    order = order.gather(-1, document.gather(-1, order).argsort(dim=-1, stable=True))
    return order.gather(-1, score.gather(-1, order).argsort(dim=-1, descending=True, stable=True))


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
        """Add one batch of a site, or of ``n_sites`` consecutive sites with their heads side by side.

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
