"""Compute attention with exact statistics of every head and row, on the fastest backend that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Num
from torch import Tensor

from headscope.attention.backends import blockwise, dense, fused, sdpa
from headscope.attention.observation import ALL_STATISTICS, Observation, Rows, Statistic
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import BackendError, ShapeError


@dataclass(frozen=True)
class _Backend:
    """An implementation of ``observe``; ``refuse`` returns why it cannot run a request, or None."""

    name: str
    refuse: Callable[[Tensor, Tensor, Tensor, Scores], str | None]
    observe: Callable[[Tensor, Tensor, Tensor, Scores, Mapping[str, Question], Set[Statistic]], Rows]


SHORT = 2**16  # weights of a text, whatever the batch: up to there dense takes .4 to .9 of blockwise's time on a CPU

# Fastest first, but for short texts on a CPU.
BACKENDS = {
    backend.name: backend
    for backend in (
        _Backend("fused", fused.refuse, fused.observe),
        _Backend("blockwise", blockwise.refuse, blockwise.observe),
        _Backend("dense", dense.refuse, dense.observe),
    )
}


def observe(
    q: Num[Tensor, "batch head query d_head"],
    k: Num[Tensor, "batch_k kv key d_key"],
    v: Num[Tensor, "batch_v kv_v key_v d_value"],
    *,
    scores: Scores = Scores(),  # noqa: B008 - frozen
    questions: Mapping[str, Question] | None = None,
    statistics: Set[Statistic] = ALL_STATISTICS,
    backend: str | None = None,
) -> Observation:
    """Compute attention over q, k and v, with statistics of every head and row.

    ``questions`` ask for the attention mass on keys with matching labels. ``backend`` is a name from ``BACKENDS``; by
    default the fastest that can.
    """
    _check(q, k, v)
    questions = questions or {}
    for question in questions.values():
        question.check(q.shape[0], q.shape[2], k.shape[2])
    bound = scores.bind(q, k)
    chosen = choose(q, k, v, bound, backend)
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        rows = chosen.observe(q, k, v, bound, questions, statistics)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        rows = replace(rows, output=sdpa.attention(q, k, v, scores))
    return Observation(rows, chosen.name, q.detach(), k.detach(), bound)


Heads = Num[Tensor, "_ _ _ _"]  # batch, head, position, width


def choose(q: Heads, k: Heads, v: Heads, scores: Scores, backend: str | None = None) -> _Backend:
    """Return the backend of that name, or the fastest that can run the request; a BackendError says why one cannot."""
    if backend is not None and backend not in BACKENDS:
        raise BackendError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    bound = scores.bind(q, k)
    fastest = next(each for each in BACKENDS.values() if each.refuse(q, k, v, bound) is None)
    if fastest.name == "blockwise" and q.device.type == "cpu" and q[0, ..., 0].numel() * k.shape[2] <= SHORT:
        fastest = BACKENDS["dense"]
    if backend in (None, fastest.name):
        return fastest
    if (reason := BACKENDS[backend].refuse(q, k, v, bound)) is not None:
        raise BackendError(f"{reason}; try {fastest.name!r}")
    return BACKENDS[backend]


def refusals(q: Heads, k: Heads, v: Heads, scores: Scores) -> dict[str, str | None]:
    """Return why each backend cannot run this request, or None where it can."""
    bound = scores.bind(q, k)
    return {name: backend.refuse(q, k, v, bound) for name, backend in BACKENDS.items()}


def _check(q: Float[Tensor, "..."] | Num[Tensor, "..."], k: Tensor, v: Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} holds {tensor.dtype}; attention works on floating-point vectors")
    if q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"q {tuple(q.shape)} and k {tuple(k.shape)} differ in batch or d_head")
    if k.shape[:3] != v.shape[:3]:
        raise ShapeError(f"k {tuple(k.shape)} and v {tuple(v.shape)} differ in batch, KV heads or length")
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        raise ShapeError(
            f"q, k and v differ: {q.dtype} on {q.device}, {k.dtype} on {k.device}, {v.dtype} on {v.device}"
        )
