"""Checks of the fused backend on a real GPU, as plain functions that run without pytest too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headscope.attention.backends import sdpa
from headscope.attention.backends.fused import flash, host
from headscope.attention.engine import observe
from headscope.attention.masks import causal, documents, padding, window
from headscope.attention.module import MultiHeadAttention
from headscope.attention.questions import Question
from headscope.attention.rope import Rope
from headscope.attention.scores import Scores
from tests.attention.cases import CASES, Case, assert_within_twice, plain, truth
from tests.attention.expected import assert_statistics, questions

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
RUNS = torch.tensor([0] * 100 + [1] * 3 + [2] * 210)
LEFT = causal() & padding([313, 120], "left")
MORE = (
    Case("gqa-128", Scores(mask=causal()), 517, n_heads=8, n_kv_heads=2, d_head=128, batch=2),
    Case("gqa-128-full", Scores(), 300, n_heads=4, n_kv_heads=1, d_head=128),
    Case("window-128", Scores(mask=causal() & window(150)), 700, n_heads=4, n_kv_heads=2, d_head=128),
    Case("left-padding-128", Scores(mask=LEFT), 313, n_heads=2, n_kv_heads=2, d_head=128, batch=2),
    Case("documents-128", Scores(mask=causal() & documents(RUNS)), 313, n_heads=2, n_kv_heads=1, d_head=128),
    Case("documents-both-ways-64", Scores(mask=documents(RUNS)), 313, n_heads=2, n_kv_heads=1, d_head=64),
    Case("softcap-128", Scores(mask=causal(), softcap=5.0), 313, n_heads=2, n_kv_heads=1, d_head=128),
    Case("after-a-cache-128", Scores(mask=causal()), 130, n_key=517, n_heads=4, n_kv_heads=2, d_head=128),
    Case("large-scores-128", Scores(mask=causal(), scale=2.0), 400, n_heads=2, n_kv_heads=1, d_head=128),
)  # fmt: skip
ALL = tuple(
    case for case in CASES + MORE if not host.refuse_scores(case.scores.bind(*case.qkv()[:2]))
    and not host.refuse_mask(case.scores.mask)
)  # fmt: skip


@contextmanager
def hopper_kernel(used: bool) -> Iterator[None]:
    """Use the Hopper kernel for half precision, or the one for any GPU."""
    before, flash.GLUON = flash.GLUON, flash.GLUON if used else "none"
    try:
        yield
    finally:
        flash.GLUON = before


def check_case(case: Case, dtype: torch.dtype) -> None:
    """Output by the 2× rule (float32: closely), statistics closely, against float64 of the same rounded inputs."""
    asked = questions(case.batch, case.n_query, case.keys, n_tokens=40)
    few = questions(case.batch, case.n_query, case.keys)
    q, k, v = case.qkv(dtype, "cuda")
    seen = observe(q, k, v, scores=case.scores, questions=few, backend="fused")
    exact = truth(case, dtype)
    # float32 sums of exact products: large scores lose their own last digit
    large = max(1.0, (case.scores.scale or 0.0) * 20)
    atol = 2e-5 * large
    if dtype == torch.float32:
        torch.testing.assert_close(seen.output.cpu(), exact.output.float(), atol=1e-5 * large, rtol=1e-4)
    else:
        assert_within_twice(seen.output.cpu(), exact.output, plain(case, dtype))
    assert_statistics(seen, case, atol=atol, dtype=dtype)
    if dtype != torch.float32:
        with hopper_kernel(False):
            other = observe(q, k, v, scores=case.scores, questions=few, backend="fused")
        assert_within_twice(other.output.cpu(), exact.output, plain(case, dtype))
        assert_statistics(other, case, atol=atol, dtype=dtype)
    many = observe(q, k, v, scores=case.scores, questions=asked, backend="fused")
    dense = observe(q.double(), k.double(), v.double(), scores=case.scores, questions=asked, backend="dense")
    for name in asked:
        torch.testing.assert_close(many.mass[name].double(), dense.mass[name], atol=atol, rtol=1e-3)


def check_long(length: int = 20_000) -> None:
    """A long text, tokens drawn by Zipf's law, compared with blockwise in float32."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, n, length, 128, generator=generator).cuda().bfloat16() for n in (4, 1, 1))
    tokens = torch.multinomial(1 / (torch.arange(5000.0) + 2.7), length, replacement=True, generator=generator)
    position = torch.arange(length)
    asked = {
        "previous": Question(position - 1, position),
        "duplicate": Question(tokens, tokens, exclude_self=True),
        "even": Question(torch.zeros_like(position), position % 2),
    }
    scores = Scores(mask=causal())
    seen = observe(q, k, v, scores=scores, questions=asked, backend="fused")
    exact = observe(q.float(), k.float(), v.float(), scores=scores, questions=asked, backend="blockwise")
    torch.testing.assert_close(seen.output.float(), exact.output, atol=5e-3, rtol=2e-2)
    torch.testing.assert_close(seen.entropy, exact.entropy, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(seen.distance.mean, exact.distance.mean, atol=0.1, rtol=1e-4)
    torch.testing.assert_close(seen.distance.std, exact.distance.std, atol=0.1, rtol=1e-3)
    torch.testing.assert_close(seen.strongest.weight, exact.strongest.weight, atol=1e-5, rtol=1e-4)
    assert (seen.strongest.key == exact.strongest.key).float().mean() > 0.999
    for name in asked:
        torch.testing.assert_close(seen.mass[name], exact.mass[name], atol=1e-5, rtol=1e-3)


def check_far_distance() -> None:
    """All attention on two neighbouring keys 130,000 positions back: the deviation is 0.5, not lost in 10¹⁰."""
    n_key = 131_072
    k = torch.zeros(1, 1, n_key, 64)
    k[..., 2, 0], k[..., 70:72, 0] = 2.0, 60.0
    q = torch.zeros(1, 1, 2, 64)
    q[..., 0] = 1.0
    q, k = q.cuda().bfloat16(), k.cuda().bfloat16()
    seen = observe(q, k, torch.randn_like(k), scores=Scores(mask=causal(), scale=1.0), backend="fused")
    far = torch.tensor([n_key - 2 - 70.5, n_key - 1 - 70.5], device="cuda")
    torch.testing.assert_close(seen.distance.mean[0, 0], far, atol=0.02, rtol=0)
    torch.testing.assert_close(seen.distance.std[0, 0], torch.full_like(far, 0.5), atol=1e-2, rtol=0)


def check_repeats() -> None:
    """The same bytes every time: no sum depends on the order in which threads run."""
    q = torch.randn(1, 4, 3000, 128, device="cuda", dtype=torch.bfloat16)
    position = torch.arange(3000)
    asked = {"same": Question(position % 71, position % 71)}
    looks = [observe(q, q, q, scores=Scores(mask=causal()), questions=asked, backend="fused") for _ in range(3)]
    for look in looks[1:]:
        assert torch.equal(look.output, looks[0].output)
        assert torch.equal(look.entropy, looks[0].entropy)
        assert torch.equal(look.strongest.key, looks[0].strongest.key)
        assert torch.equal(look.mass["same"], looks[0].mass["same"])


def check_memory() -> None:
    """Peak bytes grow with the length, not with its square."""

    def peak(length: int) -> int:
        q = torch.randn(1, 2, length, 64, device="cuda", dtype=torch.bfloat16)
        position = torch.arange(length, device="cuda")
        asked = {"previous": Question(position - 1, position), "same": Question(position % 997, position % 997)}
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        observe(q, q, q, scores=Scores(mask=causal()), questions=asked, backend="fused")
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    peak(1024)
    short, long = peak(8192), peak(32768)
    assert long < 4.5 * short, f"{long} bytes at 32,768 tokens, {short} at 8,192"


def check_gradients() -> None:
    """Output and gradients equal those of PyTorch's SDPA."""
    q, k, v = (torch.randn(1, n, 130, 64, device="cuda", requires_grad=True) for n in (4, 2, 2))
    seen = observe(q, k, v, scores=Scores(mask=causal()))
    assert seen.backend == "fused"
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(seen.output, theirs, atol=1e-5, rtol=1e-4)
    ours = torch.autograd.grad(seen.output.square().sum(), (q, k, v))
    torch.testing.assert_close(ours, torch.autograd.grad(theirs.square().sum(), (q, k, v)), atol=1e-4, rtol=1e-3)


def check_layouts() -> None:
    """Tensors as a module makes them, [batch, position, head, d_head] in memory, and strides that TMA cannot copy."""
    scores = Scores(mask=causal())
    q, k, v = (torch.randn(2, 700, n, 128, device="cuda").bfloat16().transpose(1, 2) for n in (8, 2, 2))
    exact = observe(*(tensor.contiguous() for tensor in (q, k, v)), scores=scores, backend="fused")
    odd = [torch.nn.functional.pad(tensor, (0, 1))[..., :128] for tensor in (q, k, v)]
    for tensors in ((q, k, v), odd):
        seen = observe(*tensors, scores=scores, backend="fused")
        torch.testing.assert_close(seen.output, exact.output, atol=1e-2, rtol=2e-2)
        torch.testing.assert_close(seen.entropy, exact.entropy, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(seen.distance.mean, exact.distance.mean, atol=1e-2, rtol=1e-4)


def check_unobserved_masks() -> None:
    """Grouped heads with a sliding window: exact, with gradients, and the whole pattern is never in memory."""
    scores = Scores(mask=causal() & window(300))
    for dtype, tolerance in ((torch.bfloat16, 2e-2), (torch.float32, 1e-4)):
        q, k, v = (torch.randn(1, n, 4096, 64, device="cuda", dtype=dtype, requires_grad=True) for n in (16, 4, 4))
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        z = sdpa.attention(q, k, v, scores)
        gradients = torch.autograd.grad(z.float().square().sum(), (q, k, v))
        peak = torch.cuda.max_memory_allocated() - before
        assert peak < 16 * 4096 * 4096, f"{peak >> 20} MiB, and the pattern alone is a gibibyte"
        exact = observe(q.float(), k.float(), v.float(), scores=scores, backend="blockwise")
        torch.testing.assert_close(z.float(), exact.output, atol=tolerance, rtol=tolerance)
        assert all(gradient.isfinite().all() for gradient in gradients)


def check_compiled() -> None:
    """The module compiles to one graph, with the same outputs and gradients."""
    for mask in (None, causal(), causal() & window(40), causal() & padding([130, 70], "left")):
        module = MultiHeadAttention(256, 4, 2, rope=Rope(64)).cuda()
        compiled = torch.compile(module, fullgraph=True)
        x = torch.randn(2, 130, 256, device="cuda")
        ours, theirs = compiled(x, mask=mask), module(x, mask=mask)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
        gradients = [torch.autograd.grad(y.square().sum(), module.k_proj.weight)[0] for y in (ours, theirs)]
        torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-2)
        torch._dynamo.reset()


OTHERS = (
    check_long, check_far_distance, check_repeats, check_memory, check_gradients, check_layouts, check_unobserved_masks,
    check_compiled,
)  # fmt: skip
