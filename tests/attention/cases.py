"""One table of attention problems and their exact results, with which every implementation is compared.

``truth`` computes in float64 from the inputs as rounded to the dtype under test, by ``reference.py``, one head at a
time. ``plain`` is attention in plain PyTorch in that dtype: half precision may err at most twice as much.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from headscope.attention import reference
from headscope.attention.masks import causal, dense, documents, full, padding, window
from headscope.attention.scores import Alibi, Relative, Scores


class QKV(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor


class Truth(NamedTuple):
    """z ``[batch, head, query, d_head]`` and the pattern ``[batch, head, query, key]``, in float64."""

    output: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Case:
    name: str
    scores: Scores
    n_query: int = 97
    n_key: int | None = None
    n_heads: int = 4
    n_kv_heads: int = 4
    d_head: int = 16
    batch: int = 1

    @property
    def keys(self) -> int:
        return self.n_query if self.n_key is None else self.n_key

    @property
    def is_cross(self) -> bool:
        return self.n_key is not None

    def qkv(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> QKV:
        """The same numbers every time, drawn in float64 and rounded."""
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()))

        def draw(heads: int, length: int) -> Tensor:
            shape = (self.batch, heads, length, self.d_head)
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)

        return QKV(draw(self.n_heads, self.n_query), draw(self.n_kv_heads, self.keys), draw(self.n_kv_heads, self.keys))

    def allowed(self) -> Tensor:
        """The mask of every batch item and head."""
        mask = self.scores.mask.bind(self.batch, self.n_heads, self.n_query, self.keys)
        grid = mask.dense(self.n_query, self.keys)
        return grid.expand(self.batch, self.n_heads, self.n_query, self.keys)


CAUSAL = Scores(mask=causal())
FULL = Scores(mask=full())
MASKED_ROWS = torch.ones(97, 97, dtype=torch.bool).tril()
MASKED_ROWS[[0, 41]] = False
PER_HEAD = torch.rand(2, 4, 31, 57, generator=torch.Generator().manual_seed(1)) < 0.4
PACKED = torch.tensor([0] * 40 + [1] * 1 + [2] * 56)
COMPOSED = causal() & window(20) & padding([97, 50], side="left") & documents(PACKED)
SLOPES = 2.0 ** -torch.arange(1, 5)
TABLE = torch.randn(4, 257, generator=torch.Generator().manual_seed(2))
SINKS = torch.tensor([-1.0, 0.0, 0.5, 3.0])

MASK_CASES = (
    Case("length-1", CAUSAL, 1),
    Case("length-2", CAUSAL, 2, batch=3),
    Case("length-97", CAUSAL, 97, batch=2),
    Case("length-257", CAUSAL, 257),
    Case("length-1025", CAUSAL, 1025, n_heads=2, n_kv_heads=1),
    Case("full", FULL, 97),
    Case("d-head-17", CAUSAL, d_head=17),
    Case("d-head-32", CAUSAL, d_head=32),
    Case("d-head-64", CAUSAL, d_head=64),
    Case("d-head-80", CAUSAL, d_head=80),
    Case("d-head-128", CAUSAL, d_head=128),
    Case("d-head-256", CAUSAL, n_heads=2, n_kv_heads=2, d_head=256),
    Case("grouped", CAUSAL, 257, n_heads=8, n_kv_heads=2, d_head=32, batch=2),
    Case("multi-query", CAUSAL, n_heads=6, n_kv_heads=1, d_head=24, batch=2),
    Case("cross-long", FULL, 31, n_key=97, batch=2),
    Case("cross-short", FULL, 97, n_key=5, n_heads=4, n_kv_heads=2),
    Case("after-a-cache", CAUSAL, 3, n_key=97),
    Case("one-after-a-cache", CAUSAL, 1, n_key=97, batch=2),
    Case("window", Scores(mask=causal() & window(16)), 257),
    Case("window-of-one", Scores(mask=causal() & window(1))),
    Case("window-both-sides", Scores(mask=window(9)), n_heads=4, n_kv_heads=2),
    Case("window-after-a-cache", Scores(mask=causal() & window(16)), 5, n_key=97),
    Case("padding-right", Scores(mask=padding([97, 40, 1])), batch=3),
    Case("padding-left", Scores(mask=causal() & padding([97, 40, 1], side="left")), batch=3, n_kv_heads=2),
    Case("padding-whole", Scores(mask=padding([97, 0])), batch=2),
    Case("documents", Scores(mask=causal() & documents(PACKED)), batch=2),
    Case("fully-masked-row", Scores(mask=dense(MASKED_ROWS))),
    Case("any-mask", Scores(mask=dense(PER_HEAD)), 31, n_key=57, batch=2),
    Case("everything-composed", Scores(mask=COMPOSED), batch=2),
)

SCORE_CASES = (
    Case("scale", Scores(mask=causal(), scale=1.0)),
    Case("softcap", Scores(mask=causal(), softcap=2.0), n_kv_heads=2),
    Case("alibi", Scores(mask=causal(), bias=Alibi(SLOPES))),
    Case("alibi-both-sides", Scores(bias=Alibi(SLOPES)), 31, n_key=57),
    Case("relative", Scores(bias=Relative(TABLE, 128)), 97, batch=2),
    Case("dense-bias", Scores(mask=causal(), bias=torch.sin(torch.arange(97.0)[:, None] * torch.arange(97.0)))),
    Case("sinks", Scores(mask=causal(), sinks=SINKS), n_kv_heads=2),
    Case("sinks-and-fully-masked-row", Scores(mask=dense(MASKED_ROWS), sinks=SINKS)),
    Case("all-of-it", Scores(mask=causal() & window(20), bias=Alibi(SLOPES), softcap=3.0, sinks=SINKS), batch=2),
)

CASES = MASK_CASES + SCORE_CASES


@lru_cache(maxsize=16)
def truth(case: Case, dtype: torch.dtype = torch.float64) -> Truth:
    """Every batch item and head on its own, by the definition."""
    q, k, v = (tensor.double() for tensor in case.qkv(dtype))
    allowed, group = case.allowed(), case.n_heads // case.n_kv_heads
    output = torch.empty_like(q)
    weights = torch.empty(allowed.shape, dtype=torch.float64)
    for item in range(case.batch):
        for head in range(case.n_heads):
            one_k, one_v = k[item, head // group], v[item, head // group]
            scores = logits(case.scores, item, head, q[item, head], one_k)
            weights[item, head], output[item, head] = one_head(case, head, scores, one_v, allowed[item, head])
    return Truth(output, weights)


def one_head(case: Case, head: int, scores: Tensor, v: Tensor, allowed: Tensor) -> reference.Attended:
    """One head from its scores on, with its sink if it has one."""
    if case.scores.sinks is None:
        return reference.weigh(scores, v, allowed)
    # A sink is a key that is never masked and whose value is zero.
    sink = case.scores.sinks[head].double().expand(len(scores), 1)
    seen = reference.weigh(
        torch.cat((scores, sink), 1),
        torch.cat((v, torch.zeros_like(v[:1]))),
        torch.cat((allowed, torch.ones_like(allowed[:, :1])), 1),
    )
    return reference.Attended(seen.weights[:, :-1], seen.z)


def logits(scores: Scores, item: int, head: int, q: Tensor, k: Tensor) -> Tensor:
    """Scores of one head before the mask."""
    scale = q.shape[-1] ** -0.5 if scores.scale is None else scores.scale
    grid = (q @ k.T) * scale
    if scores.softcap is not None:
        grid = torch.tanh(grid / scores.softcap) * scores.softcap
    position = torch.arange(len(q))[:, None] + len(k) - len(q)
    ahead = torch.arange(len(k))[None, :] - position
    if isinstance(scores.bias, Alibi):
        grid = grid - float(scores.bias.slopes[head]) * ahead.abs()
    elif isinstance(scores.bias, Relative):
        grid = grid + scores.bias.table[head].double()[ahead + scores.bias.zero]
    elif scores.bias is not None:
        values = scores.bias.values
        grid = grid + values[min(item, len(values) - 1), min(head, values.shape[1] - 1)].double()
    return grid


def plain(case: Case, dtype: torch.dtype) -> Tensor:
    """Attention as one would write it in PyTorch, all of it in ``dtype``."""
    q, k, v = case.qkv(dtype)
    group = case.n_heads // case.n_kv_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = [
        logits(case.scores, item, head, q[item, head], k[item, head]).to(dtype)
        for item in range(case.batch)
        for head in range(case.n_heads)
    ]
    scores = torch.stack(rows).view(case.batch, case.n_heads, case.n_query, case.keys)
    scores = scores.masked_fill(~case.allowed(), float("-inf"))
    if case.scores.sinks is not None:
        sink = case.scores.sinks.to(dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sink), -1)
    return torch.softmax(scores, -1).nan_to_num(0.0)[..., : case.keys] @ v


def assert_within_twice(ours: Tensor, exact: Tensor, theirs: Tensor) -> None:
    """flash-attention's rule: our error is at most twice plain PyTorch's (or what rounding the truth itself costs)."""
    rounding = (exact.to(ours.dtype).double() - exact).abs().max()
    allowed = 2 * torch.maximum((theirs.double() - exact).abs().max(), rounding)
    error = (ours.double() - exact).abs().max()
    assert error <= allowed, f"error {error:.3g} against the reference; twice plain PyTorch's is {allowed:.3g}"
