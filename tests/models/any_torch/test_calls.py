"""Any attention that was found becomes a call with batch and head axes that computes the same z."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from headscope.attention import masks, observe
from headscope.attention.observer import plain
from headscope.models.any_torch.axes import HeadAxes
from headscope.models.any_torch.calls import ROWS, as_call, flex_reference, read_mask
from headscope.models.any_torch.function_mode import FoundCall, ScoreProduct, Softmax
from headscope.models.any_torch.learning import LearnedSite
from headscope.models.huggingface.masks import RealKeys

QUERIES, KEYS, D, D_VALUE = 4, 6, 5, 7
LOWEST = torch.finfo(torch.float32).min
LAYOUTS = [
    (HeadAxes(("batch", "head"), 1), (2, 3)),
    (HeadAxes(("head", "batch"), 1), (3, 2)),
    (HeadAxes(("batch", "batch", "head"), 1), (2, 4, 3)),
    (HeadAxes(("batch head",), 3), (6,)),
]
by_layout = pytest.mark.parametrize(("layout", "lead"), LAYOUTS, ids=str)


def learned(layout: HeadAxes, lead: tuple[int, ...], **more: Any) -> LearnedSite:
    return LearnedSite("a.site", nn.Identity(), (*lead, 9, D_VALUE), False, layout=layout, **more)


def found(lead: tuple[int, ...], q: Tensor, k: Tensor, v: Tensor, **more: Any) -> FoundCall:
    return FoundCall(nn.Identity(), "a.site", lead, q.shape[-2], v, lambda: q, q=q, k=k, **more)


def qkv(lead: tuple[int, ...], n_key: int = KEYS) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(*lead, QUERIES, D), torch.randn(*lead, n_key, D), torch.randn(*lead, n_key, D_VALUE)


def some(*shape: int) -> Tensor:
    """A boolean mask with a key for every query."""
    made = torch.rand(*shape) < 0.6
    made[..., 0] = True
    return made


MASKS: dict[str, Callable[[tuple[int, ...]], Tensor | None]] = {
    "none": lambda lead: None,
    "of keys": lambda lead: some(KEYS)[None],
    "of queries and keys": lambda lead: some(QUERIES, KEYS),
    "of everything": lambda lead: some(*lead, QUERIES, KEYS),
    "of keys by item": lambda lead: some(*lead, 1, KEYS),
    "one for all": lambda lead: some(*(1 for _ in lead), QUERIES, KEYS),
    "a bias": lambda lead: torch.randn(*lead, QUERIES, KEYS),
    "a bias by the first axis": lambda lead: torch.randn(lead[0], *(1 for _ in lead[1:]), QUERIES, KEYS),
}


@by_layout
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [None, 0.7])
def test_sdpa_in_any_layout_is_the_same_call(layout: HeadAxes, lead: Any, mask: str, scale: float | None) -> None:
    q, k, v = qkv(lead)
    given = MASKS[mask](lead)
    own = F.scaled_dot_product_attention(q, k, v, given, scale=scale)
    call = as_call(found(lead, q, k, v, mask=given, scale=scale), learned(layout, lead))
    assert call.q.shape[:2].numel() == torch.Size(lead).numel()
    assert call.q.shape[1] == 3
    assert_close(layout.from_heads(plain(call), lead), own)


@by_layout
@pytest.mark.parametrize("n_key", [QUERIES, KEYS])
def test_causality_is_counted_as_sdpa_counts_it(layout: HeadAxes, lead: Any, n_key: int) -> None:
    q, k, v = qkv(lead, n_key)
    call = as_call(found(lead, q, k, v, causal=True), learned(layout, lead))
    own = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(layout.from_heads(plain(call), lead), own)
    assert (call.scores.mask == masks.causal()) == (n_key == QUERIES)


@pytest.mark.parametrize(
    ("layout", "lead", "kv"),
    [
        (HeadAxes(("batch", "head"), 1), (2, 6), (2, 3)),
        (HeadAxes(("batch", "head"), 1), (2, 6), (1, 3)),
        (HeadAxes(("batch", "batch", "head"), 1), (2, 4, 6), (2, 4, 3)),
        (HeadAxes(("batch", "batch", "head"), 1), (2, 4, 6), (2, 4, 1)),
        (HeadAxes(("batch", "batch", "head"), 1), (2, 4, 6), (1, 4, 6)),
        (HeadAxes(("head",), 1), (6,), (3,)),
        (HeadAxes(("head",), 1), (6,), ()),
    ],
    ids=str,
)
def test_groups_of_heads_share_their_keys(layout: HeadAxes, lead: Any, kv: Any) -> None:
    q, k, v = torch.randn(*lead, QUERIES, D), torch.randn(*kv, KEYS, D), torch.randn(*kv, KEYS, D_VALUE)
    call = as_call(found(lead, q, k, v), learned(layout, lead))
    repeats = lead[-1] // kv[-1] if kv else 1
    wide_k, wide_v = (t.repeat_interleave(repeats, -3) if kv else t for t in (k, v))
    own = F.scaled_dot_product_attention(q, wide_k.expand(*lead, KEYS, D), wide_v.expand(*lead, KEYS, D_VALUE))
    assert_close(layout.from_heads(plain(call), lead), own)


def parts(mask: Tensor | None, n_query: int, n_key: int) -> tuple[list[str], Tensor | None]:
    read, bias = read_mask(mask, n_query, n_key)
    return [type(part).__name__ for part in read.parts], bias


def test_padding_is_kept_as_one_number_per_key() -> None:
    real = torch.tensor([[1, 1, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]], dtype=torch.bool)
    low = torch.zeros(2, 6).masked_fill(~real, LOWEST)
    for mask in (real, low, low * 2, low * 0.6):
        read, bias = read_mask(mask[:, None, None], QUERIES, KEYS)
        (part,) = read.parts
        assert isinstance(part, RealKeys)
        assert torch.equal(part.real, real)
        assert bias is None
    wide, _ = read_mask(torch.tensor([[[[False]]], [[[True]]]]), QUERIES, KEYS)
    assert torch.equal(wide.parts[0].real, torch.tensor([[False], [True]]).expand(2, KEYS))  # type: ignore[attr-defined]


def causal_mask(n: int, low: float | None = None) -> Tensor:
    seen = torch.ones(1, 1, n, n, dtype=torch.bool).tril()
    return seen if low is None else torch.zeros(1, 1, n, n).masked_fill(~seen, low)


@pytest.mark.parametrize("n", [2, 5, ROWS + 3])
@pytest.mark.parametrize("low", [None, float("-inf"), LOWEST, 0.6 * LOWEST])
def test_a_causal_mask_is_recognised_and_not_stored(n: int, low: float | None) -> None:
    assert read_mask(causal_mask(n, low), n, n) == (masks.causal(), None)


def eager(
    layout: HeadAxes, lead: tuple[int, ...], *, extra: Tensor | float = 0.0, size: float = 1.0, **more: Any
) -> tuple[FoundCall, LearnedSite]:
    """Eager code that scores by 0.3 q·kᵀ and something more, and what was learned of it."""
    q, k, v = qkv(lead)
    q = q * size
    scores = 0.3 * (q @ k.mT) + extra
    other = ScoreProduct(k, q.mT, None)
    softmax = Softmax(scores, (other, ScoreProduct(q, k.mT, None), other))
    weights = scores.softmax(-1)
    call = FoundCall(nn.Identity(), "a.site", lead, QUERIES, v, lambda: weights @ v, weights=weights, softmax=softmax)
    return replace(call, **more), learned(layout, lead, product=1, factor=0.3)


HIDDEN = torch.zeros(QUERIES, KEYS).masked_fill(~some(QUERIES, KEYS), float("-inf"))


@by_layout
@pytest.mark.parametrize(
    ("extra", "size", "scale", "has_bias"),
    [
        (0.0, 1.0, 0.3, False),
        (HIDDEN, 1.0, 0.3, False),
        (torch.randn(QUERIES, KEYS), 1.0, 0.3, True),
        (HIDDEN + torch.randn(QUERIES, KEYS), 1.0, 0.3, True),
        (torch.randn(QUERIES, KEYS) * 1e-3, 1.0, 0.3, True),
        (0.0, 1e4, 0.0, True),
        (torch.full((QUERIES, 1), 3.0), 1.0, 0.3, False),
    ],
    ids=["plain", "masked", "biased", "masked and biased", "hardly biased", "large", "one number by query"],
)
def test_eager_code_is_split_into_q_k_mask_and_bias(
    layout: HeadAxes, lead: Any, extra: Any, size: float, scale: float, has_bias: bool
) -> None:
    call, site = eager(layout, lead, extra=extra, size=size)
    made = as_call(call, site)
    assert made.scores.scale == scale
    assert (made.scores.bias is not None) == has_bias
    assert made.scores.mask.is_full == (
        extra is not HIDDEN and not torch.as_tensor(extra).isinf().any() and size == 1.0
    )
    seen = observe(made.q, made.k, made.v, scores=made.scores)
    assert call.weights is not None
    assert_close(seen.weights(), layout.to_heads(call.weights, lead))
    assert_close(layout.from_heads(plain(made), lead), call.own())


def test_rows_that_see_nothing_are_hidden_whole() -> None:
    layout, lead = LAYOUTS[0]
    call, site = eager(layout, lead)
    assert call.weights is not None
    call.weights[1, 2, 3] = 0.0
    made = as_call(call, site)
    assert_close(observe(made.q, made.k, made.v, scores=made.scores).weights(), call.weights)


@pytest.mark.parametrize("product", [None, 3])
def test_without_q_and_k_the_scores_are_the_logarithm_of_the_pattern(product: int | None) -> None:
    layout, lead = LAYOUTS[0]
    call, site = eager(layout, lead, extra=HIDDEN)
    site.product = product
    made = as_call(call, site)
    assert not made.q.any()
    assert not made.k.any()
    assert made.scores.scale == 0.0
    assert call.weights is not None
    assert_close(observe(made.q, made.k, made.v, scores=made.scores).weights(), call.weights)
    assert as_call(replace(call, softmax=None), site).scores.scale == 0.0


def tilted(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return 2 * score + 0.1 * j - 0.2 * i + 0.3 * h + 0.5 * b * j


def stepped(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (j <= i + h) & (j != b)


def flex_scores(q: Tensor, k: Tensor) -> Tensor:
    """``tilted`` and ``stepped`` with a scale of 0.4, written out."""
    b, h, i, j = (
        torch.arange(n).view([-1 if axis == at else 1 for axis in range(4)]) for at, n in enumerate((2, 6, 4, 6))
    )
    scores = tilted(0.4 * (q @ k.repeat_interleave(2, 1).mT), b, h, i, j)
    return scores.masked_fill(~stepped(b, h, i, j), float("-inf"))


def test_flex_attention_is_computed_with_its_functions() -> None:
    q, k, v = torch.randn(2, 6, 4, D), torch.randn(2, 3, 6, D), torch.randn(2, 3, 6, D_VALUE)
    own = flex_scores(q, k).softmax(-1).nan_to_num(0.0)
    z = own @ v.repeat_interleave(2, 1)
    assert_close(flex_reference(q, k, v, tilted, stepped, 0.4), z)
    half = flex_reference(q.half(), k.half(), v.half(), tilted, stepped, 0.4)
    assert half.dtype == torch.float16
    lead = (2, 6)
    given = found(lead, q, k, v, flex=(tilted, stepped), scale=0.4)
    call = as_call(given, learned(HeadAxes(("batch", "head"), 1), lead))
    seen = observe(call.q, call.k, call.v, scores=call.scores)
    assert_close(seen.weights(), own)
    for head in (0, 5):
        alone = observe(
            call.q[:, head : head + 1],
            call.k[:, head // 2 : head // 2 + 1],
            call.v[:, head // 2 : head // 2 + 1],
            scores=call.scores.only(head),
        )
        assert_close(alone.weights()[:, 0], own[:, head])
