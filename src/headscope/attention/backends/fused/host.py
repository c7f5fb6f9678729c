"""From tensors and masks to kernel launches, and the reasons not to launch. Triton itself is loaded on first use."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.backends.fused.flash import Flash, attend, interpreted
from headscope.attention.backends.fused.intervals import Intervals, intervals, refuse_mask
from headscope.attention.observation import PerRow, Rows, Statistic, Strongest
from headscope.attention.questions import Groups, Question, Single, single_or_groups
from headscope.attention.scores import Scores

WIDEST = 256
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def refuse(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> str | None:
    """Why this backend will not take the request, or None. ``scores`` is bound."""
    if not interpreted() and q.device.type != "cuda":
        return f"fused needs CUDA, got {q.device.type}"
    if importlib.util.find_spec("triton") is None:
        return "fused needs Triton, which is not installed"
    if q.dtype not in DTYPES:
        return f"fused takes bfloat16, float16 and float32, got {q.dtype}"
    if q.shape[-1] > WIDEST:
        return f"fused takes d_head up to {WIDEST}, got {q.shape[-1]}"
    if v.shape[-1] != q.shape[-1]:
        return f"fused needs values as wide as keys, got {v.shape[-1]} and {q.shape[-1]}"
    if 0 in q.shape or 0 in k.shape:
        return f"fused needs at least one query and key, got {q.shape[2]} and {k.shape[2]}"
    return refuse_scores(scores) or refuse_mask(scores.mask)


def refuse_scores(scores: Scores) -> str | None:
    if scores.bias is not None:
        return f"fused adds no bias to the scores, got {type(scores.bias).__name__}"
    if scores.sinks is not None:
        return "fused knows no learned sinks"
    if scores.scale is None or scores.scale <= 0:
        return f"fused needs a scale above zero, got {scores.scale}"
    return None


def observe(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    questions: Mapping[str, Question],
    statistics: Set[Statistic],
) -> Rows:
    """Every statistic from one flash pass; the questions afterwards, from its log-sum-exp. ``scores`` is bound."""
    call = Call.prepare(q, k, v, scores)
    flash = attend(call, statistics)
    strongest = None
    if flash.weight is not None and flash.tile is not None:
        strongest = Strongest(call.strongest_keys(flash), flash.weight)
    mass = call.masses(questions, flash.logsumexp)
    return Rows(flash.output, flash.logsumexp, flash.entropy, flash.distance, strongest, mass)


@dataclass(frozen=True)
class Call:
    """One request, ready for the kernels: rows contiguous along d_head, and the mask as one interval of keys a row."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    v: Float[Tensor, "batch kv key d_head"]
    seen: Intervals
    scale: float
    softcap: float | None

    @classmethod
    def prepare(cls, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Call:
        assert scores.scale is not None
        q, k, v = (_rows_contiguous(tensor.detach()) for tensor in (q, k, v))
        seen = intervals(scores.mask, q.shape[2], k.shape[2], q.device)
        log2e = math.log2(math.e)
        # With a softcap, tanh(x) = 1 − 2 / (2^(2x·log2 e) + 1).
        scale = scores.scale * log2e if scores.softcap is None else 2 * scores.scale * log2e / scores.softcap
        softcap = None if scores.softcap is None else scores.softcap * log2e
        return cls(q, k, v, seen, scale, softcap)

    @property
    def common(self) -> dict[str, object]:
        """What every kernel is told."""
        d_head = self.q.shape[-1]
        return {
            "GROUP": self.q.shape[1] // self.k.shape[1],
            "D": d_head,
            "DP": max(16, 1 << (d_head - 1).bit_length()),
            "HAS_SOFTCAP": self.softcap is not None,
        }

    @property
    def precision(self) -> str:
        return "ieee" if self.q.dtype == torch.float32 else "tf32"

    @property
    def tile(self) -> int:
        """Rows and keys at once where few keys count; without tensor cores more would not fit the registers."""
        return 32 if self.q.dtype == torch.float32 and not interpreted() else 64

    def blank(self, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(self.q.shape[:3], dtype=dtype, device=self.q.device)

    def strongest_keys(self, flash: Flash) -> Int[Tensor, "batch head query"]:
        """Each row goes back to its best tile, rows with the same one together, and finds the key there."""
        from headscope.attention.backends.fused import kernels

        assert flash.tile is not None
        batch, n_heads, n_query, _ = self.q.shape
        n_tiles = -(-self.k.shape[2] // flash.tile_size)
        last = batch * n_heads * (n_tiles + 1)
        small = torch.int16 if last < 2**15 else torch.int32  # sorting takes as many passes as the numbers have bytes
        heads = torch.arange(0, last, n_tiles + 1, dtype=small, device=self.q.device)
        order = (flash.tile.view(-1, n_query).to(small) + heads[:, None]).view(-1).argsort()
        keys = self.blank(torch.int64)
        kernels.strongest[(-(-n_query // self.tile), batch * n_heads)](
            self.q, self.k, keys, order, flash.tile, self.seen.low, self.seen.high, n_query, self.k.shape[2], n_heads,
            self.scale, self.softcap or 0.0, self.seen.stride, flash.tile_size,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=self.tile, BN=self.tile, PRECISION=self.precision,
            num_warps=4, **self.common,
        )  # fmt: skip
        return keys

    def masses(self, questions: Mapping[str, Question], lse: PerRow) -> dict[str, PerRow]:
        """One kernel for all single-pair questions, and one for each of the others, over its matching keys."""
        found: dict[str, PerRow] = {}
        single: dict[str, Single] = {}
        for name, question in questions.items():
            cheapest = single_or_groups(question, self.q.device)
            if isinstance(cheapest, Single):
                single[name] = cheapest
            else:
                found[name] = self._listed(question, self._listing(question, cheapest), lse)
        if single:
            found |= self._single(single, lse)
        return {name: found[name] for name in questions}

    def _listing(self, question: Question, groups: Groups) -> Listing:
        """Worked out once for these labels and this mask: the layers of a model share both."""
        what = (str(self.q.device), "listing")
        seen, listing = question.cached(what, lambda: (self.seen, self._matching(question, groups)))
        return listing if seen is self.seen else self._matching(question, groups)

    def _matching(self, question: Question, groups: Groups) -> Listing:
        """Rows sorted by label; the keys of a label stand together in order, so a row's own are one stretch of them."""
        n_query, n_key = self.q.shape[2], self.k.shape[2]
        batch = max(len(groups.order), len(self.seen.low))
        order = groups.order.expand(batch, -1)
        start, stop = groups.start.expand(batch, -1), groups.stop.expand(batch, -1)
        labels = question.key.to(self.q.device).long().expand(batch, -1).gather(1, order)
        # Keys numbered by (where their label begins, place): increasing, so a bound on the place is one search.
        numbered = torch.searchsorted(labels.contiguous(), labels.contiguous()) * n_key + order
        low, high = (bound.expand(batch, n_query).long() for bound in (self.seen.low, self.seen.high))
        first = torch.searchsorted(numbered, start * n_key + low)
        last = torch.searchsorted(numbered, start * n_key + high)
        last = torch.where(stop > start, last, first)
        ranked, rows = first.sort(dim=-1)
        return Listing(*(t.to(torch.int32).contiguous() for t in (rows, order, ranked, last.gather(1, rows))))

    def _single(self, plans: Mapping[str, Single], lse: PerRow) -> dict[str, PerRow]:
        from headscope.attention.backends.fused import kernels

        batch, n_heads, n_query, _ = self.q.shape
        items = max(len(plan.target) for plan in plans.values())
        targets = torch.stack([plan.target.expand(items, -1) for plan in plans.values()], 1).to(torch.int32)
        mass = torch.empty(len(plans), *self.q.shape[:3], dtype=torch.float32, device=self.q.device)
        rows = 64 if interpreted() else 8
        kernels.single[(-(-n_query // rows), batch * n_heads)](
            self.q, self.k, lse, targets, mass, self.seen.low, self.seen.high, n_query, self.k.shape[2], n_heads,
            self.scale, self.softcap or 0.0, self.seen.stride, targets.stride(0) if items > 1 else 0,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=rows, N=len(plans), num_warps=4, **self.common,
        )  # fmt: skip
        return dict(zip(plans, mass.unbind(), strict=True))

    def _listed(self, question: Question, listing: Listing, lse: PerRow) -> PerRow:
        from headscope.attention.backends.fused import kernels

        batch, n_heads, n_query, _ = self.q.shape
        rows, keys = listing.rows, listing.keys
        mass = self.blank()
        kernels.listed[(-(-n_query // self.tile), batch * n_heads)](
            self.q, self.k, lse, mass, rows, keys, listing.start, listing.stop, n_query, self.k.shape[2], n_heads,
            self.scale, self.softcap or 0.0, n_query if len(rows) > 1 else 0, keys.shape[1] if len(keys) > 1 else 0,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=self.tile, BN=self.tile, EXCLUDE_SELF=question.exclude_self,
            PRECISION=self.precision, num_warps=4, **self.common,
        )  # fmt: skip
        return mass


@dataclass(frozen=True)
class Listing:
    """Rows in a chosen order, keys in another, and for each row the stretch of those keys that it meets."""

    rows: Int[Tensor, "item query"]
    keys: Int[Tensor, "item key"]
    start: Int[Tensor, "item query"]
    stop: Int[Tensor, "item query"]


def _rows_contiguous(tensor: Tensor) -> Tensor:
    """The kernels step along d_head by one and count places in 32 bits."""
    fits = tensor.stride(-1) == 1 and tensor.stride(2) * tensor.shape[2] < 2**31
    return tensor if fits else tensor.contiguous()
