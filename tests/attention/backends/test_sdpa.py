"""Unobserved attention and its gradients equal the definition on every case, in every precision."""

from __future__ import annotations

import pytest
import torch
from tests.attention.cases import CASES, Case, assert_within_twice, logits, one_head, plain, truth
from tests.attention.memory import peak_tensor_bytes
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.backends import sdpa
from headscope.attention.masks import Mask, causal, padding, window
from headscope.attention.scores import Scores

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@every_case
def test_float32_equals_the_reference(case: Case) -> None:
    z = sdpa.attention(*case.qkv(), case.scores)
    assert_close(z, truth(case, torch.float32).output.float(), atol=2e-6, rtol=1e-5)


@every_case
def test_float64_equals_the_reference(case: Case) -> None:
    z = sdpa.attention(*case.qkv(torch.float64), case.scores)
    assert_close(z, truth(case).output, atol=1e-12, rtol=1e-12)


@half
@every_case
def test_half_precision_errs_at_most_twice_as_much_as_plain_pytorch(case: Case, dtype: torch.dtype) -> None:
    z = sdpa.attention(*case.qkv(dtype), case.scores)
    assert z.dtype == dtype
    assert_within_twice(z, truth(case, dtype).output, plain(case, dtype))


@pytest.mark.parametrize("mask", [causal() & window(64), causal() & padding([3000], side="left")], ids=repr)
def test_no_mask_is_stored_as_queries_by_keys(mask: Mask) -> None:
    def peak(length: int) -> int:
        q, k, v = (torch.randn(1, heads, length, 8) for heads in (2, 1, 1))
        return peak_tensor_bytes(lambda: sdpa.attention(q, k, v, Scores(mask=mask)))

    short, long = peak(3072), peak(12288)
    assert long < 12288 * 12288 / 4
    assert long < 4.5 * short


SMALL = [case for case in CASES if case.name not in ("length-1025", "d-head-256", "grouped", "length-257")]


def reference_gradients(case: Case, weights: Tensor) -> list[Tensor]:
    """Gradients of q, k and v through the definition, one head after another."""
    q, k, v = (tensor.requires_grad_() for tensor in case.qkv(torch.float64))
    group, allowed = case.n_heads // case.n_kv_heads, case.allowed()
    total = torch.zeros((), dtype=torch.float64)
    for item in range(case.batch):
        for head in range(case.n_heads):
            one_k, one_v = k[item, head // group], v[item, head // group]
            scores = logits(case.scores, item, head, q[item, head], one_k)
            z = one_head(case, head, scores, one_v, allowed[item, head]).z
            total = total + (z * weights[item, head]).sum()
    return list(torch.autograd.grad(total, (q, k, v)))


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_equal_those_of_the_reference(case: Case, dtype: torch.dtype) -> None:
    q, k, v = (tensor.requires_grad_() for tensor in case.qkv(dtype))
    z = sdpa.attention(q, k, v, case.scores)
    weights = torch.randn(z.shape, dtype=torch.float64)
    ours = torch.autograd.grad((z * weights.to(dtype)).sum(), (q, k, v))
    tolerance = 2e-5 if dtype == torch.float32 else 1e-10
    for mine, expected in zip(ours, reference_gradients(case, weights), strict=True):
        assert_close(mine.double(), expected, atol=tolerance, rtol=tolerance)


def test_unfused_attention_passes_gradcheck() -> None:
    scores = Scores(mask=causal(), softcap=2.0, sinks=torch.tensor([0.5, -1.0]))
    q, k, v = (torch.randn(1, heads, 4, 3, dtype=torch.float64, requires_grad=True) for heads in (2, 1, 1))
    assert torch.autograd.gradcheck(lambda q, k, v: sdpa.attention(q, k, v, scores), (q, k, v))


@half
@pytest.mark.parametrize(
    "name", ["padding-left", "padding-whole", "fully-masked-row", "softcap", "sinks-and-fully-masked-row"]
)
def test_fully_masked_rows_leave_half_precision_gradients_finite(name: str, dtype: torch.dtype) -> None:
    case = next(case for case in CASES if case.name == name)
    tensors = [tensor.requires_grad_() for tensor in case.qkv(dtype)]
    z = sdpa.attention(*tensors, case.scores)
    fully_masked = ~case.allowed().any(-1)
    assert (z[fully_masked] == 0).all()
    for gradient in torch.autograd.grad(z.float().square().sum(), tensors):
        assert gradient.isfinite().all()
    assert (torch.autograd.grad(sdpa.attention(*tensors, case.scores).sum(), tensors[0])[0][fully_masked] == 0).all()


@pytest.mark.parametrize("scores", [Scores(), Scores(softcap=50.0)], ids=["fused", "unfused"])
def test_dropout_drops_that_share_of_weights_and_keeps_the_mean(scores: Scores) -> None:
    """With all scores equal and v all ones, z counts the weights that were kept."""
    q, k, v = torch.zeros(1, 2, 400, 8), torch.randn(1, 2, 500, 8), torch.ones(1, 2, 500, 8)
    assert_close(sdpa.attention(q, k, v, scores), torch.ones(1, 2, 400, 8))
    z = sdpa.attention(q, k, v, scores, dropout=0.25)[..., 0]
    assert_close(z.mean(), torch.tensor(1.0), atol=5e-3, rtol=0)
    # A row keeps 500 weights of 1/500, each scaled by 4/3 with probability 3/4: variance 1/3 of 1/500.
    assert_close(z.var(), torch.tensor(1 / 3 / 500), rtol=0.15, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_bias_of_full_precision_goes_with_half_precision_queries(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 2, 5, 4).to(dtype) for _ in range(3))
    bias = torch.randn(5, 5)
    z = sdpa.attention(q, k, v, Scores(bias=bias))
    exact = torch.softmax(q.double() @ k.double().mT / 2 + bias.double(), -1) @ v.double()
    assert z.dtype == dtype
    assert_close(z.double(), exact, atol=2e-2, rtol=2e-2)
