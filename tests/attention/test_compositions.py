"""Every combination of masks, biases, softcap and sinks equals the definition, on every CPU path."""

from __future__ import annotations

from functools import reduce
from operator import and_

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.backends import sdpa
from headscope.attention.engine import observe
from headscope.attention.masks import Mask, causal, dense, full, padding, window
from headscope.attention.scores import Alibi, Bias, Relative, Scores
from tests.attention.cases import SINKS, SLOPES, TABLE, Case, truth
from tests.attention.expected import assert_statistics, questions

backends = pytest.mark.parametrize("backend", ["blockwise", "dense"])


def drawn(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


EDGES = (
    Case("two-after-a-cache", Scores(mask=causal()), 2, n_key=70, n_kv_heads=2),
    Case("more-queries-than-keys", Scores(mask=causal()), 23, n_key=5, n_kv_heads=2),
    Case("more-queries-than-keys-capped", Scores(mask=causal(), softcap=2.0), 23, n_key=5),
    Case("window-before-every-key", Scores(mask=window(3)), 23, n_key=5),
    Case("window-and-sinks-before-every-key", Scores(mask=causal() & window(3), sinks=SINKS), 23, n_key=5),
    Case("bias-by-head", Scores(mask=causal(), bias=drawn(4, 19, 19)), 19, batch=2),
    Case("bias-by-item", Scores(mask=causal(), bias=drawn(2, 1, 19, 19)), 19, batch=2, n_kv_heads=2),
    Case("bias-by-item-and-head", Scores(bias=drawn(2, 4, 7, 70)), 7, n_key=70, batch=2, n_kv_heads=2),
    Case("bias-before-a-cap-of-its-own", Scores(bias=4 * drawn(9, 9), softcap=0.5, sinks=SINKS), 9),
    Case("bias-that-masks", Scores(bias=drawn(9, 9).masked_fill(drawn(9, 9) > 0, -1e4), sinks=SINKS), 9),
    Case("bias-of-minus-infinity", Scores(bias=torch.ones(9, 9).tril().log(), sinks=SINKS), 9),
    Case("bias-of-minus-infinity-alone", Scores(bias=torch.ones(9, 9).tril().log()), 9, n_kv_heads=2),
    Case("relative-after-a-cache", Scores(mask=causal(), bias=Relative(TABLE, 128)), 5, n_key=70),
    Case("relative-just-wide-enough", Scores(bias=Relative(TABLE[:, :77], 69)), 8, n_key=70),
    Case("alibi-behind-the-first-key", Scores(bias=Alibi(SLOPES)), 23, n_key=5, n_kv_heads=1),
    Case("one-key", Scores(sinks=SINKS, softcap=1.0), 3, n_key=1),
    Case("padding-and-a-scale", Scores(mask=padding([3, 9], side="left"), scale=0.3), 9, batch=2),
    Case("nothing-but-sinks", Scores(mask=padding([0, 9]), sinks=SINKS), 9, batch=2),
)
every_edge = pytest.mark.parametrize("case", EDGES, ids=lambda case: case.name)


@every_edge
@pytest.mark.parametrize("rows", [512, 3])
def test_unobserved_attention_equals_the_definition(case: Case, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sdpa.ROWS, "cpu", rows)
    z = sdpa.attention(*case.qkv(torch.float64), case.scores)
    assert_close(z, truth(case).output, atol=1e-12, rtol=1e-12)


@every_edge
@backends
def test_an_observation_equals_the_definition(case: Case, backend: str) -> None:
    asked = questions(case.batch, case.n_query, case.keys)
    seen = observe(*case.qkv(torch.float64), scores=case.scores, questions=asked, backend=backend)
    assert_close(seen.output, truth(case).output, atol=1e-12, rtol=1e-12)
    assert_close(seen.weights(), truth(case).weights, atol=1e-12, rtol=1e-12)
    assert_statistics(seen, case, atol=1e-11)


@every_edge
def test_gradients_are_finite_and_zero_for_masked_keys(case: Case) -> None:
    """A key that is masked for all queries does not change the output, so its gradient is zero."""
    q, k, v = (tensor.requires_grad_() for tensor in case.qkv(torch.float64))
    gradients = torch.autograd.grad(sdpa.attention(q, k, v, case.scores).square().sum(), (q, k, v))
    assert all(gradient.isfinite().all() for gradient in gradients)
    group = case.n_heads // case.n_kv_heads
    masked = ~case.allowed().any(2).unflatten(1, (-1, group)).any(2)
    assert (gradients[1][masked] == 0).all()
    assert (gradients[2][masked] == 0).all()
    assert (gradients[0][~case.allowed().any(-1)] == 0).all()


def mask_of(parts: set[str], batch: int, n_query: int, n_key: int, seed: int) -> Mask:
    generator = torch.Generator().manual_seed(seed)
    make = {
        "causal": causal,
        "window": lambda: window(1 + seed % 5),
        "padding": lambda: padding(torch.randint(0, n_key + 1, (batch,), generator=generator), side="left"),
        "dense": lambda: dense(torch.rand(batch, 4, n_query, n_key, generator=generator) < 0.6),
    }
    return reduce(and_, (make[part]() for part in sorted(parts)), full())


def bias_of(kind: str, batch: int, n_query: int, n_key: int, seed: int) -> Bias | Tensor | None:
    whole = 2 * drawn(batch, 4, n_query, n_key, seed=seed)
    return {
        "none": None,
        "alibi": Alibi(SLOPES),
        "relative": Relative(TABLE, 128),
        "shared": whole[0, 0],
        "by head": whole[0],
        "by item": whole[:, :1],
        "whole": whole,
    }[kind]


@settings(max_examples=60)
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 4])),
    parts=st.sets(st.sampled_from(["causal", "window", "padding", "dense"])),
    bias=st.sampled_from(["none", "alibi", "relative", "shared", "by head", "by item", "whole"]),
    numbers=st.tuples(st.sampled_from([None, 0.3]), st.sampled_from([None, 0.7, 30.0])),
    sinks=st.booleans(),
    seed=st.integers(0, 999),
)
def test_any_composition_equals_the_definition(
    sizes: tuple[int, int, int, int],
    parts: set[str],
    bias: str,
    numbers: tuple[float | None, float | None],
    sinks: bool,
    seed: int,
) -> None:
    """More queries than keys, and fewer; rows that see nothing; every bias with every mask."""
    batch, n_query, n_key, n_kv_heads = sizes
    scale, softcap = numbers
    scores = Scores(
        scale=scale,
        mask=mask_of(parts, batch, n_query, n_key, seed),
        bias=bias_of(bias, batch, n_query, n_key, seed),
        softcap=softcap,
        sinks=SINKS if sinks else None,
    )
    case = Case(f"drawn {seed}", scores, n_query, n_key, 4, n_kv_heads, 3, batch)
    exact, qkv = truth.__wrapped__(case), case.qkv(torch.float64)
    assert_close(sdpa.attention(*qkv, scores), exact.output, atol=1e-11, rtol=1e-11)
    for backend in ("blockwise", "dense"):
        seen = observe(*qkv, scores=scores, backend=backend)
        assert_close(seen.output, exact.output, atol=1e-11, rtol=1e-11)
        assert_close(seen.weights(), exact.weights, atol=1e-11, rtol=1e-11)
        assert_close(seen.sink + seen.weights().sum(-1), (case.allowed().any(-1) | sinks).double())
        assert bool((seen.entropy >= 0).all())


@backends
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_the_output_has_the_inputs_precision_and_statistics_at_least_float32(dtype: torch.dtype, backend: str) -> None:
    x = drawn(1, 2, 5, 4).to(dtype)
    position = torch.arange(5)
    asked = questions(1, 5, 5)
    seen = observe(x, x, x, scores=Scores(mask=causal(), bias=drawn(5, 5)), questions=asked, backend=backend)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert seen.output.dtype == dtype
    assert seen.strongest.key.dtype == position.dtype
    for statistic in (seen.logsumexp, seen.entropy, *seen.distance, seen.strongest.weight, *seen.mass.values()):
        assert statistic.dtype == wide


def test_a_block_of_fully_masked_rows_gives_zeros_and_finite_gradients() -> None:
    """The first 600 of 1,100 queries are before every key: one whole block of rows is fully masked."""
    q, k, v = (drawn(1, 2, n, 4, seed=n).double().requires_grad_() for n in (1100, 500, 500))
    z = sdpa.attention(q, k, v, Scores(mask=causal()))
    assert (z[:, :, :600] == 0).all()
    assert_close(z[:, :, 600:], sdpa.attention(q[:, :, 600:], k, v, Scores(mask=causal())))
    gradients = torch.autograd.grad(z.square().sum(), (q, k, v))
    assert (gradients[0][:, :, :600] == 0).all()
    assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)
