"""Prepare inputs for the Triton kernels and launch them, or say why they cannot run. Triton loads on first use."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.backends.fused.flash import FlashResult, attend, interpreted, on_gpu_of
from headscope.attention.backends.fused.intervals import Intervals, intervals, refuse_mask
from headscope.attention.observation import PerRow, Rows, Statistic, Strongest
from headscope.attention.questions import Groups, Question, Single, single_or_groups
from headscope.attention.scores import Scores

WIDEST = 256
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def refuse(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> str | None:
    """Return why this backend cannot run the request, or None. ``scores`` is bound."""
    if not interpreted() and q.device.type != "cuda":
        return f"fused needs CUDA, got {q.device.type}"
    if not _has_triton():
        return "fused needs Triton, which is not installed"
    if not interpreted() and (capability := _capability(q.device)) < (8, 0):
        return (
            f"fused needs a GPU of compute capability 8.0 or later, as Triton does, got {capability[0]}.{capability[1]}"
        )
    if q.dtype not in DTYPES:
        return f"fused takes bfloat16, float16 and float32, got {q.dtype}"
    if q.shape[-1] > WIDEST:
        return f"fused takes d_head up to {WIDEST}, got {q.shape[-1]}"
    if v.shape[-1] != q.shape[-1]:
        return f"fused needs values as wide as keys, got {v.shape[-1]} and {q.shape[-1]}"
    if 0 in q.shape or 0 in k.shape:
        return f"fused needs at least one query and key, got {q.shape[2]} and {k.shape[2]}"
    return refuse_scores(scores) or refuse_mask(scores.mask)


@lru_cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@lru_cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def refuse_scores(scores: Scores) -> str | None:
    """Return why this backend cannot compute these scores, or None."""
    if scores.bias is not None:
        return f"fused has no bias, got {type(scores.bias).__name__}"
    if scores.sinks is not None:
        return "fused has no learned sinks"
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
    """Compute every statistic in one flash pass, and the questions from its log-sum-exp. ``scores`` is bound."""
    with on_gpu_of(q):
        inputs = KernelInputs.prepare(q, k, v, scores)
        flash = attend(inputs, statistics)
        strongest = None if flash.weight is None else Strongest(inputs.strongest_keys(flash), flash.weight)
        mass = inputs.masses(questions, flash.logsumexp)
    return Rows(flash.output, flash.logsumexp, flash.entropy, flash.distance, strongest, mass)


@dataclass(frozen=True)
class KernelInputs:
    """One request, ready for the kernels: rows contiguous along d_head, the mask as one interval of keys per row."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    v: Float[Tensor, "batch kv key d_head"]
    visible: Intervals
    scale: float
    softcap: float | None

    @classmethod
    def prepare(cls, q: Tensor, k: Tensor, v: Tensor, scores: Scores, visible: Intervals | None = None) -> KernelInputs:
        """``visible`` is the mask as intervals, where they are known already."""
        assert scores.scale is not None
        q, k, v = (_rows_contiguous(tensor.detach()) for tensor in (q, k, v))
        if visible is None:
            visible = intervals(scores.mask, q.shape[2], k.shape[2], q.device)
        log2e = math.log2(math.e)
        # With a softcap, tanh(x) = 1 − 2 / (2^(2x·log2 e) + 1).
        scale = scores.scale * log2e if scores.softcap is None else 2 * scores.scale * log2e / scores.softcap
        softcap = None if scores.softcap is None else scores.softcap * log2e
        return cls(q, k, v, visible, scale, softcap)

    @property
    def common(self) -> dict[str, object]:
        """The compile-time constants that all kernels share."""
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
        """Rows and keys at once in kernels over few keys; in float32, more would not fit the registers."""
        return 32 if self.q.dtype == torch.float32 and not interpreted() else 64

    def empty(self, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(self.q.shape[:3], dtype=dtype, device=self.q.device)

    def strongest_keys(self, flash: FlashResult) -> Int[Tensor, "batch head query"]:
        """Find each row's strongest key inside its best tile, for rows with the same tile together."""
        from headscope.attention.backends.fused import kernels

        assert flash.tile is not None
        batch, n_heads, n_query, _ = self.q.shape
        n_tiles = -(-self.k.shape[2] // flash.tile_size)
        last = batch * n_heads * (n_tiles + 1)
        small = torch.int16 if last < 2**15 else torch.int32  # a radix sort makes one pass per byte
        heads = torch.arange(0, last, n_tiles + 1, dtype=small, device=self.q.device)
        order = (flash.tile.view(-1, n_query).to(small) + heads[:, None]).view(-1).argsort()
        keys = self.empty(torch.int64)
        kernels.strongest[(-(-n_query // self.tile), batch * n_heads)](
            self.q, self.k, keys, order, flash.tile, self.visible.low, self.visible.high, n_query, self.k.shape[2],
            n_heads, self.scale, self.softcap or 0.0, self.visible.stride, flash.tile_size,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=self.tile, BN=self.tile, PRECISION=self.precision,
            num_warps=4, **self.common,
        )  # fmt: skip
        return keys

    def masses(self, questions: Mapping[str, Question], lse: PerRow) -> dict[str, PerRow]:
        """Launch one kernel for all questions with single matching keys, and one for each of the others."""
        plans = {name: single_or_groups(question, self.q.device) for name, question in questions.items()}
        single = {name: plan for name, plan in plans.items() if isinstance(plan, Single)}
        mass = self._single(single, lse) if single else {}
        for name, plan in plans.items():
            if isinstance(plan, Groups):
                mass[name] = self._listed(questions[name], self._key_ranges(questions[name], plan), lse)
        return {name: mass[name] for name in questions}

    def _key_ranges(self, question: Question, groups: Groups) -> KeyRanges:
        """Return the matching keys of each row, cached for the layers of a model, which share labels and mask."""
        visible, ranges = question.cached(
            (str(self.q.device), "key ranges"), lambda: (self.visible, self._sort_by_label(question, groups))
        )
        return ranges if visible is self.visible else self._sort_by_label(question, groups)

    def _sort_by_label(self, question: Question, groups: Groups) -> KeyRanges:
        """Sort keys by label, then position: each row's matching keys are then one range. Sort rows by its start."""
        n_query, n_key = self.q.shape[2], self.k.shape[2]
        batch = max(len(groups.order), len(self.visible.low))
        order = groups.order.expand(batch, -1)
        start, stop = groups.start.expand(batch, -1), groups.stop.expand(batch, -1)
        labels = question.key.to(self.q.device).long().expand(batch, -1).gather(1, order)
        # Keys numbered by (where their label begins, position): increasing, so a bound on the position is one search.
        numbered = torch.searchsorted(labels.contiguous(), labels.contiguous()) * n_key + order
        low, high = (bound.expand(batch, n_query).long() for bound in (self.visible.low, self.visible.high))
        first = torch.searchsorted(numbered, start * n_key + low)
        last = torch.searchsorted(numbered, start * n_key + high)
        last = torch.where(stop > start, last, first)
        ranked, rows = first.sort(dim=-1)
        return KeyRanges(*(t.to(torch.int32).contiguous() for t in (rows, order, ranked, last.gather(1, rows))))

    def _single(self, plans: Mapping[str, Single], lse: PerRow) -> dict[str, PerRow]:
        from headscope.attention.backends.fused import kernels

        batch, n_heads, n_query, _ = self.q.shape
        items = max(len(plan.target) for plan in plans.values())
        targets = torch.stack([plan.target.expand(items, -1) for plan in plans.values()], 1).to(torch.int32)
        mass = torch.empty(len(plans), *self.q.shape[:3], dtype=torch.float32, device=self.q.device)
        rows = 64 if interpreted() else 8
        kernels.single[(-(-n_query // rows), batch * n_heads)](
            self.q, self.k, lse, targets, mass, self.visible.low, self.visible.high, n_query, self.k.shape[2], n_heads,
            self.scale, self.softcap or 0.0, self.visible.stride, targets.stride(0) if items > 1 else 0,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=rows, N=len(plans), num_warps=4, **self.common,
        )  # fmt: skip
        return dict(zip(plans, mass.unbind(), strict=True))

    def _listed(self, question: Question, ranges: KeyRanges, lse: PerRow) -> PerRow:
        from headscope.attention.backends.fused import kernels

        batch, n_heads, n_query, _ = self.q.shape
        rows, keys = ranges.rows, ranges.keys
        mass = self.empty()
        kernels.listed[(-(-n_query // self.tile), batch * n_heads)](
            self.q, self.k, lse, mass, rows, keys, ranges.start, ranges.stop, n_query, self.k.shape[2], n_heads,
            self.scale, self.softcap or 0.0, n_query if len(rows) > 1 else 0, keys.shape[1] if len(keys) > 1 else 0,
            *self.q.stride()[:3], *self.k.stride()[:3], BM=self.tile, BN=self.tile, EXCLUDE_SELF=question.exclude_self,
            PRECISION=self.precision, num_warps=4, **self.common,
        )  # fmt: skip
        return mass


@dataclass(frozen=True)
class KeyRanges:
    """Sorted rows, sorted keys, and for each sorted row the range ``start:stop`` of the sorted keys that match it."""

    rows: Int[Tensor, "item query"]
    keys: Int[Tensor, "item key"]
    start: Int[Tensor, "item query"]
    stop: Int[Tensor, "item query"]


def _rows_contiguous(tensor: Tensor) -> Tensor:
    """Copy a tensor unless d_head has stride 1 and positions fit 32 bits, as the kernels need."""
    fits = tensor.stride(-1) == 1 and tensor.stride(2) * tensor.shape[2] < 2**31
    return tensor if fits else tensor.contiguous()
