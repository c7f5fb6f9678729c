"""Turn an attention computation that was found in a module into headscope's own ``Call``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import masks
from headscope.attention.masks import Allowed, Columns, Mask, Part, Rows
from headscope.attention.observer import Call
from headscope.attention.scores import BiasBlock, Scores
from headscope.errors import ModelError
from headscope.models.any_torch.axes import HeadAxes
from headscope.models.any_torch.function_mode import FoundCall
from headscope.models.any_torch.learning import LearnedSite, query_and_key, why_no_pattern
from headscope.models.huggingface.masks import RealKeys, split_mask

LARGEST_SCORE = {torch.float64: 1e10}
"""Past this (1e3 in float32), q·k plus the rest of a score would lose the digits that it should keep."""

ROWS = 512
"""Rows of a mask that are compared at once."""


def as_call(found: FoundCall, learned: LearnedSite) -> Call:
    """The call with axes ``[batch, head, position, d]``; raise an error if the layout is not the one learned."""
    layout = learned.layout
    assert layout is not None
    if len(found.lead) != len(layout.kinds) or layout.n_heads(found.lead) != learned.n_heads:
        raise ModelError(
            f"{learned.name}: this input gives z the shape {found.shape}, in which the {learned.n_heads} heads of "
            f"{learned.shape} are not to be found; load the model with inputs like this one"
        )
    if found.eager:
        return _eager_call(found, learned, layout)
    if found.dropout:
        raise ModelError(f"{learned.name}: {why_no_pattern(found)}")
    q, k, v = _by_head(found, layout)
    n_query, n_key = q.shape[2], k.shape[2]
    if found.flex is not None:
        score_mod, mask_mod = found.flex
        bias = _FlexBias(score_mod, q, k, float(found.scale or 1.0))
        scores = Scores(scale=found.scale, mask=Mask((_FlexMask(mask_mod, q.shape[0], q.shape[1]),)), bias=bias)
        return Call(found.module, q, k, v, scores)
    mask, added = read_mask(_mask_by_head(found, layout), n_query, n_key)
    if found.causal:
        mask = mask & (masks.causal() if n_query == n_key else Mask((_UpToQuery(),)))
    return Call(found.module, q, k, v, Scores(scale=found.scale, mask=mask, bias=added))


def _by_head(found: FoundCall, layout: HeadAxes) -> tuple[Tensor, Tensor, Tensor]:
    assert found.q is not None
    assert found.k is not None
    q, k, v = found.q, found.k, found.v
    if layout.kinds == ("batch", "head") and k.ndim == 4 and q.ndim == 4:
        batch = found.lead[0]
        q = q.expand(batch, found.lead[1], *q.shape[2:])
        return q, k.expand(batch, *k.shape[1:]), v.expand(batch, *v.shape[1:])
    if k.shape[:-2] != q.shape[:-2] and k.ndim == q.ndim and k.shape[-3] not in (1, q.shape[-3]):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))  # grouped KV heads

    def by_head(t: Tensor) -> Tensor:
        return layout.to_heads(t.expand(*found.lead, *t.shape[-2:]), found.lead)

    return by_head(q), by_head(k), by_head(v)


def _mask_by_head(found: FoundCall, layout: HeadAxes) -> Tensor | None:
    mask = found.mask
    if mask is None:
        return None
    mask = mask[(None,) * (len(found.lead) + 2 - mask.ndim)]
    if layout.kinds == ("batch", "head"):
        return mask
    lead = tuple(mask.shape[:-2])
    shared = all(size == 1 for size in lead)
    return mask.reshape(1, 1, *mask.shape[-2:]) if shared else layout.to_heads(
        mask.expand(*found.lead, *mask.shape[-2:]), found.lead
    )  # fmt: skip


def read_mask(mask: Tensor | None, n_query: int, n_key: int) -> tuple[Mask, Tensor | None]:
    """A mask of sdpa as a ``Mask`` and a bias; causality and padding are recognised and not stored whole."""
    if mask is None:
        return masks.full(), None
    if mask.shape[-2] == 1 and mask.shape[1] == 1:
        real = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        if mask.dtype == torch.bool or not bool(mask.masked_fill(~real, 0.0).any()):
            everything = bool(real.all())
            return masks.full() if everything else Mask((RealKeys(real[:, 0, 0].expand(-1, n_key)),)), None
    if n_query == n_key > 1 and _is_causal(mask):
        return masks.causal(), None
    return split_mask(mask, n_query, n_key)


def _is_causal(mask: Tensor) -> bool:
    """Whether a mask hides what is ahead of each query and nothing else, some rows at a time."""
    n_query, n_key = mask.shape[-2:]
    if n_query != n_key or mask.shape[:2].numel() > 1:
        return False
    lowest = None if mask.dtype == torch.bool else torch.finfo(mask.dtype).min / 2
    columns = torch.arange(n_key, device=mask.device)
    for start in range(0, n_query, ROWS):
        part = mask[0, 0, start : start + ROWS]
        behind = columns[None] <= columns[start : start + ROWS, None]
        same = part == behind if lowest is None else ((part <= lowest) != behind) & ((part == 0) | ~behind)
        if not bool(same.all()):
            return False
    return True


def _eager_call(found: FoundCall, learned: LearnedSite, layout: HeadAxes) -> Call:
    """From the pattern that the code made: its logarithm is the scores, less q·k where that was found."""
    assert found.weights is not None
    if why := why_no_pattern(found):
        raise ModelError(f"{learned.name}: {why}")

    def by_head(t: Tensor) -> Tensor:
        return layout.to_heads(t.expand(*found.lead, *t.shape[-2:]), found.lead)

    weights, v = by_head(found.weights), by_head(found.v)
    hidden = weights <= 0
    scores = torch.where(hidden, 1.0, weights).to(torch.promote_types(v.dtype, torch.float32)).log()
    mask = masks.dense(~hidden) if bool(hidden.any()) else masks.full()
    pair = _query_and_key(found, learned)
    if pair is None:
        nothing = v.new_zeros(*weights.shape[:3], v.shape[-1]), torch.zeros_like(v)
        return Call(found.module, *nothing, v, Scores(scale=0.0, mask=mask, bias=scores.masked_fill(hidden, 0.0)))
    q, k = (by_head(t).to(v.dtype) for t in pair)
    product = learned.factor * (q.to(scores.dtype) @ k.to(scores.dtype).mT)
    size = float(product.detach().masked_fill(hidden, 0.0).abs().max())
    if not size < LARGEST_SCORE.get(scores.dtype, 1e3):
        return Call(found.module, q, k, v, Scores(scale=0.0, mask=mask, bias=scores.masked_fill(hidden, 0.0)))
    rest = (scores - product).masked_fill(hidden, float("-inf"))
    rest = (rest - rest.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)).masked_fill(hidden, 0.0)
    exactness = 1e-5 if v.dtype in (torch.float32, torch.float64) else 1e-2
    seen = weights.detach() > 1e-6  # the logarithm of a weight that is nearly 0 is not exact
    bias = rest if float((rest.detach().abs() * seen).max()) > exactness * max(1.0, size) else None
    return Call(found.module, q, k, v, Scores(scale=learned.factor, mask=mask, bias=bias))


def _query_and_key(found: FoundCall, learned: LearnedSite) -> tuple[Tensor, Tensor] | None:
    products = () if found.softmax is None else found.softmax.products
    if learned.product is None or learned.product >= len(products):
        return None
    return query_and_key(products[-1 - learned.product], found)


@dataclass(frozen=True)
class _UpToQuery(Part):
    """Keys up to the query's number, both counted from the first: causality as sdpa counts for unequal lengths."""

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return (columns[None, :] <= rows[:, None])[None, None]


@dataclass(frozen=True, eq=False)
class _FlexMask(Part):
    """``mask_mod`` of flex attention, computed for the rows and columns that are asked for."""

    mask_mod: Any
    batch: int
    n_heads: int
    head: int | None = None

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        places = _places(self.batch, self.n_heads, self.head, rows, columns)
        allowed: Tensor = _everywhere(self.mask_mod, False)(*places)
        return allowed.expand(*(len(place) for place in places))

    def only(self, head: int) -> _FlexMask:
        return _FlexMask(self.mask_mod, self.batch, self.n_heads, head)


@dataclass(frozen=True, eq=False)
class _FlexBias:
    """What ``score_mod`` of flex attention adds to a score; computed for the rows and columns that are asked for."""

    score_mod: Any
    q: Float[Tensor, "batch head query d"]
    k: Float[Tensor, "batch kv key d"]
    scale: float
    head: int | None = None

    def block(self, rows: Rows, columns: Columns, offset: int) -> BiasBlock:
        group = self.q.shape[1] // self.k.shape[1]
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        k = self.k[:, :, columns].repeat_interleave(group, 1)[:, heads]
        scores = (self.q[:, heads][:, :, rows].float() @ k.float().mT) * self.scale
        places = _places(self.q.shape[0], self.q.shape[1], self.head, rows, columns)
        changed: Tensor = _everywhere(self.score_mod, True)(scores, *places)
        return changed - scores

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        return None

    def only(self, head: int) -> _FlexBias:
        return _FlexBias(self.score_mod, self.q, self.k, self.scale, head)


def _places(batch: int, n_heads: int, head: int | None, rows: Tensor, columns: Tensor) -> tuple[Tensor, ...]:
    heads = torch.arange(n_heads, device=rows.device) if head is None else torch.tensor([head], device=rows.device)
    return torch.arange(batch, device=rows.device), heads, rows, columns


def _everywhere(function: Any, scores: bool) -> Any:
    """A function of one cell as a function of whole axes: batch, head, query and key."""
    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = torch.vmap(function, in_dims=(0, *axes) if scores else axes)
    return function


def flex_reference(q: Tensor, k: Tensor, v: Tensor, score_mod: Any, mask_mod: Any, scale: float) -> Tensor:
    """Flex attention written out, for a first pass on short inputs."""
    n_query, n_key = q.shape[2], k.shape[2]
    rows, columns = torch.arange(n_query, device=q.device), torch.arange(n_key, device=q.device)
    group = q.shape[1] // k.shape[1]
    scores = (q.float() @ k.repeat_interleave(group, 1).float().mT) * scale
    scores = scores + _FlexBias(score_mod, q, k, scale).block(rows, columns, 0)
    allowed = _FlexMask(mask_mod, q.shape[0], q.shape[1]).block(rows, columns, 0)
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1).nan_to_num(0.0)
    return (weights @ v.repeat_interleave(group, 1).float()).to(v.dtype)
