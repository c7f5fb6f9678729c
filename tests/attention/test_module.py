"""MultiHeadAttention equals a loop over single heads, for any heads, masks, widths and precision."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention import reference
from headscope.attention.masks import causal, dense
from headscope.attention.module import KVCache, MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.errors import MaskError, ShapeError
from tests.attention.cases import MASK_CASES, Case, assert_within_twice

CASES = [case for case in MASK_CASES if case.name not in ("any-mask", "after-a-cache", "one-after-a-cache")]
CASES = [case for case in CASES if case.name != "window-after-a-cache"]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
D_MODEL = 48


def build(case: Case, **options: object) -> MultiHeadAttention:
    """A module of the case's heads. Cross-attention reads a context of a width of its own."""
    width = {"d_context": 20} if case.is_cross else {}
    return MultiHeadAttention(D_MODEL, case.n_heads, case.n_kv_heads, case.d_head, **width, **options)


def inputs(case: Case, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor | None]:
    x = torch.randn(case.batch, case.n_query, D_MODEL, dtype=torch.float64).to(dtype)
    return x, torch.randn(case.batch, case.keys, 20, dtype=torch.float64).to(dtype) if case.is_cross else None


def by_definition(module: MultiHeadAttention, x: Tensor, context: Tensor | None, allowed: Tensor) -> Tensor:
    """A loop over texts and single heads; biases are the weights of one more entry of x that is always 1."""

    def read(linear: torch.nn.Linear, head: int) -> Tensor:
        rows = slice(head * module.d_head, (head + 1) * module.d_head)
        bias = torch.zeros_like(linear.weight[rows, :1]) if linear.bias is None else linear.bias[rows, None]
        return torch.cat((linear.weight[rows], bias), 1).T

    def with_one(tokens: Tensor) -> Tensor:
        return torch.cat((tokens, torch.ones_like(tokens[:, :1])), 1)

    group = module.n_heads // module.n_kv_heads
    heads = [
        reference.HeadWeights(
            read(module.q_proj, head), read(module.k_proj, head // group), read(module.v_proj, head // group)
        )
        for head in range(module.n_heads)
    ]
    source, W_O = x if context is None else context, torch.nn.functional.pad(module.o_proj.weight.T, (0, 1))
    outputs = [
        reference.multi_head(with_one(x[item]), with_one(source[item]), heads, W_O, allowed[item, 0])[:, :-1]
        for item in range(len(x))
    ]
    output = torch.stack(outputs)
    return output if module.o_proj.bias is None else output + module.o_proj.bias


@every_case
@pytest.mark.parametrize("bias", [False, True])
def test_the_module_equals_a_loop_over_single_heads(case: Case, bias: bool) -> None:
    module = build(case, bias=bias, out_bias=bias).double()
    x, context = inputs(case)
    y = module(x, context, mask=case.scores.mask)
    assert_close(y, by_definition(module, x, context, case.allowed()), atol=1e-11, rtol=1e-11)


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_errs_at_most_twice_as_much_as_the_plain_loop(case: Case, dtype: torch.dtype) -> None:
    module = build(case, bias=True).to(dtype)
    x, context = inputs(case, dtype)
    y = module(x, context, mask=case.scores.mask)
    assert y.dtype == dtype
    wide = copy.deepcopy(module).double()
    exact = by_definition(wide, x.double(), None if context is None else context.double(), case.allowed())
    assert_within_twice(y, exact, by_definition(module, x, context, case.allowed()))


@pytest.mark.parametrize("name", ["length-97", "multi-query", "cross-long", "padding-left", "documents"])
def test_gradients_equal_those_of_the_loop(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    module = build(case, bias=True).double()
    x, context = inputs(case)
    x.requires_grad_()
    leaves = [x, *module.parameters()]
    weights = torch.randn(case.batch, case.n_query, D_MODEL, dtype=torch.float64)
    ours = torch.autograd.grad((module(x, context, mask=case.scores.mask) * weights).sum(), leaves)
    theirs = torch.autograd.grad((by_definition(module, x, context, case.allowed()) * weights).sum(), leaves)
    for mine, expected in zip(ours, theirs, strict=True):
        assert_close(mine, expected, atol=1e-10, rtol=1e-8)


@every_case
def test_head_parts_and_bias_add_up_to_the_output(case: Case) -> None:
    module = build(case).double()
    x, context = inputs(case)
    output, parts = module.by_head(x, context, mask=case.scores.mask)
    assert parts.shape == (case.batch, case.n_heads, case.n_query, D_MODEL)
    assert_close(parts.sum(1) + module.o_proj.bias, output)
    assert_close(output, module(x, context, mask=case.scores.mask))


def test_patterns_are_those_of_the_given_heads() -> None:
    module = MultiHeadAttention(12, 6, 2, d_head=5).double()
    x, grid = torch.randn(2, 7, 12).double(), torch.rand(2, 6, 7, 7) < 0.5
    grid[1, 4, 2] = False
    shown = module.patterns(x, mask=dense(grid), heads=[4, 1])
    q, k, v = module.project(x)
    for item in range(2):
        for number, head in enumerate((4, 1)):
            seen = reference.attend(q[item, head], k[item, head // 3], v[item, 0], grid[item, head], 5**-0.5)
            assert_close(shown[item, number], seen.weights)
    assert (shown[1, 0, 2] == 0).all()
    assert module.patterns(x).shape == (2, 6, 7, 7)


def test_patterns_of_cross_attention_are_over_the_context() -> None:
    """Under a causal mask the last query attends to the last key, whichever of the two texts is longer."""
    module = MultiHeadAttention(12, 4, 2, d_head=5, d_context=6).double()
    for n_query, n_key in ((3, 8), (8, 3)):
        x, context = torch.randn(2, n_query, 12).double(), torch.randn(2, n_key, 6).double()
        shown = module.patterns(x, context, mask=causal(), heads=[3])
        allowed = torch.arange(n_key) <= torch.arange(n_query)[:, None] + n_key - n_query
        q = x @ module.q_proj.weight[15:].T
        k = context @ module.k_proj.weight[5:].T
        for item in range(2):
            seen = reference.attend(q[item], k[item], k[item], allowed, 5**-0.5)
            assert_close(shown[item, 0], seen.weights)


def test_head_parts_with_a_cache_equal_those_of_the_whole_text() -> None:
    module, x = MultiHeadAttention(16, 4, 2, rope=Rope(4)).double(), torch.randn(2, 7, 16).double()
    whole = module.by_head(x, mask=causal())
    cache = KVCache(module, batch=2, capacity=7)
    module(x[:, :4], mask=causal(), cache=cache[0])
    cache.advance(4)
    rest = module.by_head(x[:, 4:], mask=causal(), cache=cache[0])
    assert_close(rest.parts, whole.parts[:, :, 4:])
    assert_close(rest.output, whole.output[:, 4:])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_with_rope_the_same_text_further_on_gives_the_same_output(pairing: str) -> None:
    module = MultiHeadAttention(16, 2, rope=Rope(6, pairing=pairing)).double()
    x = torch.randn(1, 5, 16).double()
    near = module.project(x)
    far = module.project(x, start=1000)
    assert (near[0] - far[0]).abs().max() > 1e-3
    assert_close(near[0] @ near[1].mT, far[0] @ far[1].mT)
    backwards = module(x.flip(1), mask=causal()).flip(1)
    assert (module(x, mask=causal()) - backwards).abs().max() > 1e-3


def test_qk_norm_normalises_queries_and_keys() -> None:
    module = MultiHeadAttention(16, 4, 2, qk_norm=True).double()
    assert module.q_norm is not None
    assert module.k_norm is not None
    x = 100 * torch.randn(2, 5, 16).double()
    q, k, v = module.project(x)
    assert_close(q.square().mean(-1), torch.ones(2, 4, 5).double())
    assert_close(k.square().mean(-1), torch.ones(2, 2, 5).double())
    raw = module.q_proj(x).view(2, 5, 4, 4).transpose(1, 2)
    assert_close(q, raw / raw.square().mean(-1, keepdim=True).sqrt())
    assert v.square().mean() > 2
    with torch.no_grad():
        module.q_norm.weight.mul_(3.0)
        module.k_norm.weight.mul_(0.5)
    assert_close(module.project(x)[0], 3 * q)
    assert_close(module.project(x)[1], 0.5 * k)


@pytest.mark.parametrize("n_kv_heads", [2, 1])
def test_dropout_acts_under_a_causal_mask_too(n_kv_heads: int) -> None:
    module, x = MultiHeadAttention(16, 2, n_kv_heads, dropout=0.5), torch.randn(1, 9, 16)
    assert not torch.equal(module(x, mask=causal()), module(x, mask=causal()))
    module.eval()
    assert torch.equal(module(x, mask=causal()), module(x, mask=causal()))


X = torch.zeros(2, 5, 16)

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "groups": (
        lambda: MultiHeadAttention(16, 4, 3),
        "n_heads=4 is not a multiple of n_kv_heads=3; for multi-query attention use n_kv_heads=1",
    ),
    "width": (lambda: MultiHeadAttention(16, 3), "d_model=16 does not divide into n_heads=3; give d_head yourself"),
    "nothing": (lambda: MultiHeadAttention(16, 0), "sizes must be at least 1: d_model=16, n_heads=0"),
    "d-head": (lambda: MultiHeadAttention(16, 2, d_head=0), "d_head=0 must be at least 1"),
    "no width": (lambda: MultiHeadAttention(0, 1), "sizes must be at least 1: d_model=0, n_heads=1"),
    "no keys": (
        lambda: MultiHeadAttention(16, 2, 0),
        "sizes must be at least 1: d_model=16, n_heads=2, n_kv_heads=0",
    ),
    "dropout-below": (lambda: MultiHeadAttention(16, 2, dropout=-0.1), "dropout=-0.1 is the probability to drop a"),
    "dropout": (lambda: MultiHeadAttention(16, 2, dropout=1.0), "dropout=1.0 is the probability to drop a weight"),
    "context": (lambda: MultiHeadAttention(16, 2, d_context=0), "d_context=0 must be at least 1"),
    "rope": (lambda: MultiHeadAttention(16, 4, rope=Rope(6)), "RoPE rotates 6 entries of each head, but d_head=4"),
    "x-width": (
        lambda: MultiHeadAttention(12, 2)(X),
        "x has shape (2, 5, 16); expected (batch, position, 12)",
    ),
    "x-rank": (
        lambda: MultiHeadAttention(16, 2)._check_input(X[0], None),
        "x has shape (5, 16); expected (batch, position, 16)",
    ),
    "x-integers": (
        lambda: MultiHeadAttention(16, 2)(X.long()),
        "x holds torch.int64; attention takes vectors, so embed the tokens first",
    ),
    "context-width": (
        lambda: MultiHeadAttention(16, 2, d_context=8)(X, X),
        "context has shape (2, 5, 16); expected (batch, position, 8)",
    ),
    "context-missing": (
        lambda: MultiHeadAttention(16, 2, d_context=8)(X),
        "this module attends to a context of width 8; pass context=",
    ),
    "context-batch": (
        lambda: MultiHeadAttention(16, 2)._check_input(X, X[:1]),
        "x has batch 2 and context has batch 1; give one context per item",
    ),
    "context-rope": (lambda: MultiHeadAttention(16, 2, rope=Rope(8))(X, X), "RoPE needs query and key positions in"),
    "context-cache": (
        lambda: MultiHeadAttention(16, 2)(
            X, X, cache=KVCache(MultiHeadAttention(16, 2), batch=2, capacity=9)[0]
        ),
        "a KV cache is for self-attention; pass cache= or context=, not both",
    ),
    "heads-below": (
        lambda: MultiHeadAttention(16, 2).patterns(X, heads=[0, -1]),
        "heads=[0, -1]: this module has heads 0–1",
    ),
    "heads": (lambda: MultiHeadAttention(16, 2).patterns(X, heads=[2]), "heads=[2]: this module has heads 0–1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_its_values(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ShapeError, match=re.escape(message)):
        make()


def test_a_mask_that_does_not_fit_is_refused_with_its_shape() -> None:
    message = "a dense mask of shape (1, 1, 4, 4) does not fit batch 2, 2 heads, 5 queries and 5 keys"
    with pytest.raises(MaskError, match=re.escape(message)):
        MultiHeadAttention(16, 2)(X, mask=dense(torch.ones(4, 4).bool()))
