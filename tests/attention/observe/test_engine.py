"""All backends of observe agree on random problems, gradients flow, and a backend that cannot run says why."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given, settings
from tests.attention.cases import CASES, Case, truth
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.engine import observe, refusals
from headscope.attention.masks import causal, dense, documents, full, padding, window
from headscope.attention.questions import Question
from headscope.attention.scores import Alibi, Scores
from headscope.errors import BackendError, MaskError, ShapeError

PARTS = ["causal", "window", "padding", "documents", "dense"]


class Problem(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    scores: Scores
    questions: dict[str, Question]


def draw_problem(sizes: tuple[int, ...], parts: set[str], flags: tuple[bool, ...], seed: int) -> Problem:
    """Random shapes, masks, scores and labels."""
    batch, n_kv_heads, group, n_query, extra, d_head, n_labels = sizes
    n_key, n_heads = n_query + extra, n_kv_heads * group
    generator = torch.Generator().manual_seed(seed)

    def normal(heads: int, length: int) -> Tensor:
        return torch.randn(batch, heads, length, d_head, generator=generator) * 2

    def labels(length: int, lowest: int = -1, n: int = n_labels) -> Tensor:
        return torch.randint(lowest, n, (batch, length), generator=generator)

    make = {
        "causal": causal,
        "window": lambda: window(1 + seed % 40),
        "padding": lambda: padding(labels(1, 0, n_key + 1)[:, 0], "left" if flags[0] else "right"),
        "documents": lambda: documents(labels(n_key, 0, 3).sort().values),
        "dense": lambda: dense(torch.rand(batch, 1, n_query, n_key, generator=generator) < 0.5),
    }
    scores = Scores(
        mask=reduce(and_, (make[part]() for part in sorted(parts)), full()),
        bias=Alibi(torch.rand(n_heads, generator=generator)) if flags[1] else None,
        softcap=3.0 if flags[2] else None,
        sinks=torch.randn(n_heads, generator=generator) if flags[3] else None,
    )
    asked = {str(n): Question(labels(n_query), labels(n_key), exclude_self=flags[4 + n]) for n in range(2)}
    return Problem(normal(n_heads, n_query), normal(n_kv_heads, n_key), normal(n_kv_heads, n_key), scores, asked)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(
        *[st.integers(1, 3)] * 3, st.integers(1, 80), st.integers(0, 70), st.integers(1, 9), st.sampled_from([2, 8, 60])
    ),
    parts=st.sets(st.sampled_from(PARTS)),
    flags=st.tuples(*[st.booleans()] * 6),
    seed=st.integers(0, 2**31),
)
@example(  # keys that a sink outweighs by more than float32 can represent
    sizes=(1, 2, 2, 48, 70, 1, 2),
    parts={"padding", "causal"},
    flags=(False, True, False, True, False, False),
    seed=19492,
)
def test_blockwise_equals_dense_on_random_problems(
    sizes: tuple[int, ...], parts: set[str], flags: tuple[bool, ...], seed: int
) -> None:
    q, k, v, scores, asked = draw_problem(sizes, parts, flags, seed)
    exact = observe(q.double(), k.double(), v.double(), scores=scores, questions=asked, backend="dense")
    seen = observe(q, k, v, scores=scores, questions=asked, backend="blockwise")
    far = max(q.shape[2], k.shape[2], 64)
    assert_close(seen.output.double(), exact.output, atol=1e-5, rtol=1e-4)
    assert_close(seen.logsumexp.double(), exact.logsumexp, atol=1e-5, rtol=1e-5)
    assert_close(seen.entropy.double(), exact.entropy, atol=1e-4, rtol=1e-4)
    assert_close(seen.distance.mean.double(), exact.distance.mean, atol=1e-5 * far, rtol=1e-4)
    assert_close(seen.distance.std.double().square(), exact.distance.std.square(), atol=1e-5 * far**2, rtol=1e-4)
    assert_close(seen.strongest.weight.double(), exact.strongest.weight, atol=1e-5, rtol=1e-4)
    for name in exact.mass:
        assert_close(seen.mass[name].double(), exact.mass[name], atol=1e-5, rtol=1e-4)
        assert seen.mass[name].min() >= -1e-6
        assert seen.mass[name].max() <= 1 + 1e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradients_flow_through_the_output_alone(case: Case) -> None:
    q, k, v = (tensor.requires_grad_() for tensor in case.qkv())
    seen = observe(q, k, v, scores=case.scores)
    assert_close(seen.output, truth(case, torch.float32).output.float(), atol=3e-6, rtol=1e-5)
    for statistic in (seen.logsumexp, seen.entropy, seen.distance.mean, seen.strongest.weight):
        assert not statistic.requires_grad
    seen.output.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


def test_gradients_equal_those_of_plain_pytorch() -> None:
    q, k, v = (torch.randn(1, 2, 7, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    z = torch.softmax((q @ k.mT / 2).masked_fill(~torch.ones(7, 7).tril().bool(), float("-inf")), -1) @ v
    theirs = torch.autograd.grad(z.square().sum(), (q, k, v))
    ours = torch.autograd.grad(observe(q, k, v, scores=Scores(mask=causal())).output.square().sum(), (q, k, v))
    assert_close(ours, theirs)


def test_an_observation_keeps_no_graph_but_the_outputs() -> None:
    """q and k, kept to recompute the pattern, must not keep a whole model's activations alive."""
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    seen = observe(x, x, x)
    assert seen.output.requires_grad
    assert not seen.q.requires_grad
    assert not seen.k.requires_grad
    assert not seen.weights().requires_grad


def test_a_backend_given_by_name_runs_or_says_why_it_cannot() -> None:
    x = torch.randn(1, 1, 4, 4)
    assert observe(x, x, x, backend="dense").backend == "dense"
    assert observe(x, x, x).backend == "dense"
    assert observe(*(torch.randn(1, 8, 128, 4) for _ in "qkv")).backend == "blockwise"
    with pytest.raises(BackendError, match="fused needs CUDA, got cpu; try 'dense'"):
        observe(x, x, x, backend="fused")
    with pytest.raises(BackendError, match="there is no backend 'eager'; there are fused, blockwise, dense"):
        observe(x, x, x, backend="eager")
    assert refusals(x, x, x, Scores()) == {"fused": "fused needs CUDA, got cpu", "blockwise": None, "dense": None}


def test_tensors_that_do_not_fit_are_refused_with_their_shapes() -> None:
    x = torch.randn(2, 4, 5, 8)
    with pytest.raises(ShapeError, match=r"q \(2, 4, 5, 8\) and k \(2, 4, 5, 7\) differ in batch or d_head"):
        observe(x, x[..., :7], x)
    with pytest.raises(ShapeError, match=r"k \(2, 4, 5, 8\) and v \(2, 2, 5, 8\) differ in batch, KV heads or length"):
        observe(x, x, x[:, :2])
    with pytest.raises(ShapeError, match="n_heads=4 is not a multiple of n_kv_heads=3"):
        observe(x, x[:, :3], x[:, :3])
    with pytest.raises(ShapeError, match=r"k holds torch\.int64; attention works on floating-point vectors"):
        observe(x, x.long(), x)
    with pytest.raises(ShapeError, match=r"q, k and v differ: torch\.float32 on cpu, torch\.float64 on cpu"):
        observe(x, x.double(), x)
    with pytest.raises(ShapeError, match=r"32 on cpu, torch\.float32 on cpu, torch\.float16 on cpu"):
        observe(x, x, x.half())
    with pytest.raises(ShapeError, match=r"v holds torch\.int64; attention works on floating-point vectors"):
        observe(x, x, x.long())
    with pytest.raises(ShapeError, match=r"q \(2, 4, 5, 8\) and k \(1, 4, 5, 8\) differ in batch or d_head"):
        observe(x, x[:1], x[:1])
    with pytest.raises(ShapeError, match=r"k \(2, 4, 5, 8\) and v \(2, 4, 3, 8\) differ in batch, KV heads or length"):
        observe(x, x, x[:, :, :3])


def test_masks_that_do_not_fit_are_refused_with_their_shapes() -> None:
    x = torch.randn(1, 1, 5, 8)
    with pytest.raises(MaskError, match=r"window\(-3\)"):
        window(-3)
    with pytest.raises(MaskError, match=r"a dense mask of shape \(1, 1, 4, 4\) does not fit"):
        observe(x, x, x, scores=Scores(mask=dense(torch.ones(4, 4, dtype=torch.bool))))
