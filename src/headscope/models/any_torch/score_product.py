"""Find q and k in eager code: the product of two activations that the scores depend on, cell by cell."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headscope.models.any_torch.function_mode import FoundCall, ScoreProduct

NO_PRODUCT = "its weights come from no product of two activations: routing or pooling, not attention"
DROPOUT = "it drops weights at random (dropout is on); switch it off"


def why_no_pattern(found: FoundCall) -> str:
    """Why the weights of a call are no attention pattern; "" where they are one."""
    if found.dropout:
        return DROPOUT
    if found.weights is None:
        return ""
    weights = found.weights.detach()
    total = weights.double().sum(-1)
    off = torch.minimum((total - 1).abs(), total.abs())
    exactness = 1e-4 if weights.dtype in (torch.float32, torch.float64) else 2e-2
    if float(weights.min()) < 0 or not float(off.max()) <= exactness:
        low, high = float(total.min()), float(total.max())
        return (
            f"its weights are not a softmax over the keys (rows sum to {low:.3g}–{high:.3g}, the lowest is "
            f"{float(weights.min()):.2g}): heads are mixed, dropped or split after it, or part of it goes elsewhere"
        )
    return ""


def find_score_product(found: FoundCall) -> tuple[int | None, float, str]:
    """Which product is q·kᵀ (counted from the last), and its factor in the scores; or why there is none.

    Where the scores depend on a product, but not by one factor (a softcap), there is no index and no reason.
    """
    assert found.softmax is not None
    scores, products = found.softmax.scores, found.softmax.products
    if not scores.requires_grad:
        graphless = not products or all(product.leaf is None for product in products)
        return None, 1.0, "" if products and graphless else NO_PRODUCT
    direction = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0)).to(scores)
    depends = False
    for back, product in enumerate(reversed(products)):
        if product.leaf is None:
            continue
        (slope,) = torch.autograd.grad((scores * direction).sum(), product.leaf, retain_graph=True, allow_unused=True)
        if slope is None or not bool(slope.any()):
            continue
        depends = True
        factor = _factor(slope, direction, product, found)
        if factor is not None:
            return back, factor, ""
    return None, 1.0, "" if depends else NO_PRODUCT


def _factor(slope: Tensor, direction: Tensor, product: ScoreProduct, found: FoundCall) -> float | None:
    """The one factor between product and scores, where both have the same cells in the same order."""
    if slope.numel() != direction.numel() or query_and_key(product, found) is None:
        return None
    ratio = slope.reshape(direction.shape) / direction
    seen = ratio[(ratio != 0) & torch.isfinite(ratio)]
    if not seen.numel() or not float((seen - seen.median()).abs().max()) <= 1e-3 * float(seen.median().abs()):
        return None
    return float(seen.median())


def query_and_key(product: ScoreProduct, found: FoundCall) -> tuple[Tensor, Tensor] | None:
    """q ``[lead…, query, d]`` and k ``[lead…, key, d]`` of a product, with the leading axes of the call's z."""
    assert found.weights is not None
    q, k = product.a, product.b.mT
    n_query, n_key = found.weights.shape[-2:]
    if q.shape[-2] != n_query or k.shape[-2] != n_key:
        return None
    wide_q, wide_k = _with_lead(q, found.lead), _with_lead(k, found.lead)
    return None if wide_q is None or wide_k is None else (wide_q, wide_k)


def _with_lead(t: Tensor, lead: tuple[int, ...]) -> Tensor | None:
    """A tensor with these leading axes, broadcast or split into them; None where its own do not fit."""
    own = t.shape[:-2]
    if len(own) == len(lead) and all(size in (1, full) for size, full in zip(own, lead, strict=True)):
        return t.expand(*lead, *t.shape[-2:])
    return t.reshape(*lead, *t.shape[-2:]) if own.numel() == math.prod(lead) else None
