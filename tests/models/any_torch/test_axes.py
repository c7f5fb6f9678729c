"""Products in any form as weights times values, and as rows times a matrix; z with its batch and head axes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from headscope.models.any_torch.axes import Layout, as_product, letters, operands
from headscope.models.any_torch.function_mode import MatrixUse
from headscope.models.any_torch.gates import _guess
from headscope.models.any_torch.matrices import as_matrix

A, B, C, FLAT = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5), torch.randn(4, 4)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "found"),
    [
        ("matmul", (A, B), {}, (A, B, None)),
        ("matmul", (A,), {"other": B}, (A, B, None)),
        ("bmm", (A,), {"mat2": B}, (A, B, None)),
        ("matmul", (A,), {}, None),
        ("matmul", (), {"other": B}, None),
        ("matmul", (2.0, B), {}, None),
        ("matmul", (A[0, 0], B[0]), {}, None),
        ("matmul", (A[0], B[0, :, 0]), {}, None),
        ("matmul", (FLAT, FLAT), {}, (FLAT, FLAT, None)),
        ("baddbmm", (C, A, B), {}, (A, B, None)),
        ("baddbmm", (C, A), {"batch2": B}, (A, B, None)),
        ("baddbmm", (C,), {"batch1": A, "batch2": B}, (A, B, None)),
        ("baddbmm", (C, A), {}, None),
        ("einsum", ("bqk, bkd -> bqd", A, B), {}, (A, B, "bqk,bkd->bqd")),
        ("einsum", ("bqk,bkd->bqd", [A, B]), {}, (A, B, "bqk,bkd->bqd")),
        ("einsum", ("bqk->b", A), {}, None),
        ("einsum", ("bqk,bkd,bqd->b", A, B, C), {}, None),
        ("einsum", (A, [0, 1], B), {}, None),
        ("einsum", (), {}, None),
    ],
)
def test_the_factors_of_a_product(name: str, args: Any, kwargs: Any, found: Any) -> None:
    told = operands(name, args, kwargs)
    assert (told is None) == (found is None)
    if told is not None:
        assert told[0] is found[0]
        assert told[1] is found[1]
        assert told[2] == found[2]


@pytest.mark.parametrize(
    ("equation", "axes"),
    [
        ("bqk,bkd->bqd", ("bqk", "bkd", "bqd")),
        ("...qk,...kd->...qd", ("Zqk", "Zkd", "Zqd")),
        ("Z...k,Zk...->Z", ("ZYk", "ZkY", "Z")),
        ("bqk,bkd", None),
        ("bqk->bq", None),
        ("qk,bkd->bqd", None),
        ("bqk,kd->bqd", None),
        ("bkk,bkd->bd", None),
        ("bqk,bkk->bq", None),
    ],
)
def test_the_letters_of_an_equation(equation: str, axes: tuple[str, str, str] | None) -> None:
    assert letters(equation, A, B) == axes


@pytest.mark.parametrize(
    ("equation", "shapes", "first"),
    [
        (None, ((2, 3, 4, 6), (2, 3, 6, 5)), True),
        (None, ((2, 3, 5, 6), (2, 3, 6, 4)), False),
        ("bhqk,bhkd->bhqd", ((2, 3, 4, 6), (2, 3, 6, 5)), True),
        ("bhqk,bkhd->bqhd", ((2, 3, 4, 6), (2, 6, 3, 5)), True),
        ("bhqk,bkd->bhqd", ((2, 3, 4, 6), (2, 6, 5)), True),
        ("bkhd,bhqk->bqhd", ((2, 6, 3, 5), (2, 3, 4, 6)), False),
        ("bqk,bkhd->bqhd", ((2, 4, 6), (2, 6, 3, 5)), True),
    ],
)
def test_a_product_is_weights_times_values(equation: str | None, shapes: Any, first: bool) -> None:
    a, b = (torch.randn(shape) for shape in shapes)
    own = a @ b if equation is None else torch.einsum(equation, a, b)
    product = as_product(a, b, equation, first=first)
    assert product is not None
    z = product.to_lead(own)
    torch.testing.assert_close(product.weights @ product.values, z)
    torch.testing.assert_close(product.from_lead(z), own)
    assert (product.weights.shape[-2:], product.values.shape[-2:]) == ((4, 6), (6, 5))


@pytest.mark.parametrize(
    "equation", ["bqk,bkd->bq", "bqk,bqd->bqd", "bqk,bkd->bd", "bqk,bjd->bqd", "bqk,bkd->bqdd", "qk,bkd->bqd"]
)
def test_what_is_no_weighted_sum_of_values_is_none(equation: str) -> None:
    assert as_product(A, torch.randn(2, 4, 5), equation, first=True) is None


LAYOUTS = [
    (Layout(("batch", "head"), 1), (2, 3)),
    (Layout(("head", "batch"), 1), (3, 2)),
    (Layout(("batch", "batch", "head"), 1), (2, 4, 3)),
    (Layout(("batch", "head", "batch"), 1), (2, 3, 4)),
    (Layout(("head",), 1), (3,)),
    (Layout(("batch head",), 3), (6,)),
    (Layout(("head batch",), 3), (6,)),
    (Layout(("batch head",), 2), (2,)),
    (Layout(("batch head", "head"), 3), (6, 2)),
]


@pytest.mark.parametrize(("layout", "lead"), LAYOUTS, ids=str)
def test_z_is_the_same_by_batch_and_head_and_back(layout: Layout, lead: tuple[int, ...]) -> None:
    z = torch.randn(*lead, 7, 5)
    by_head = layout.to_heads(z, lead)
    heads = layout.n_heads(lead)
    assert by_head.shape == (z.numel() // (heads * 35), heads, 7, 5)
    assert torch.equal(layout.from_heads(by_head, lead), z)
    assert layout.to_heads(torch.ones(7, 5), lead).shape == (1, 1, 7, 5)


def test_heads_are_counted_fast_or_slow_as_the_layout_says() -> None:
    z = torch.arange(6).view(6, 1, 1)
    assert Layout(("batch head",), 3).to_heads(z, (6,))[:, :, 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert Layout(("head batch",), 3).to_heads(z, (6,))[:, :, 0, 0].tolist() == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(
    ("lead", "n_heads", "layout"),
    [
        ((2, 3), None, Layout(("batch", "head"), 1)),
        ((6,), None, None),
        ((2, 3, 4), None, None),
        ((2, 3), 3, Layout(("batch", "head"), 1)),
        ((3, 2), 3, Layout(("head", "batch"), 1)),
        ((2, 6), 3, Layout(("batch", "batch head"), 3)),
        ((6,), 3, Layout(("batch head",), 3)),
        ((2, 5), 3, None),
        ((), 1, Layout((), 1)),
        ((), 2, None),
    ],
)
def test_the_heads_that_a_user_names_are_the_last_axis_that_has_them(lead: Any, n_heads: Any, layout: Any) -> None:
    assert _guess((*lead, 7, 5), n_heads) == layout


def use(name: str, function: Any, *args: Any, **kwargs: Any) -> MatrixUse:
    values = {"index": 0, "name": name, "function": function, "args": args, "kwargs": kwargs, "of_scores": False}
    return MatrixUse(**{field: values[field] for field in MatrixUse.__dataclass_fields__})


X, W, BIAS = torch.randn(2, 6, 4), torch.randn(5, 4), torch.randn(5)
IMAGE = torch.randn(2, 4, 3, 3)


@pytest.mark.parametrize(
    "matrix",
    [
        use("linear", F.linear, X, W, BIAS),
        use("linear", F.linear, X, weight=W, bias=None),
        use("addmm", torch.addmm, BIAS, X[0], W.T),
        use("addmm", torch.addmm, BIAS, X[0], W.T, alpha=1),
        use("matmul", torch.matmul, X, W.T),
        use("conv1d", F.conv1d, X.transpose(1, 2), W[..., None], BIAS),
        use("conv1d", F.conv1d, X.transpose(1, 2), W[..., None], BIAS, (1,), (0,), (1,), 1),
        use("conv1d", F.conv1d, X.transpose(1, 2), W[..., None], None, 1, 0),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, (1, 1), (0, 0)),
        use("einsum", torch.einsum, "bqi,io->bqo", X, W.T),
        use("einsum", torch.einsum, "bqhi,hio->bqo", X.view(2, 6, 2, 2), torch.randn(2, 2, 5)),
        use("einsum", torch.einsum, "bqi,iho->bhqo", X, torch.randn(4, 2, 3)),
    ],
    ids=lambda matrix: matrix.name,
)
def test_any_product_with_a_matrix_is_rows_times_it(matrix: MatrixUse) -> None:
    found = as_matrix(matrix)
    assert found is not None
    out = matrix.function(*matrix.args, **matrix.kwargs)
    rows = found.rows(found.x) @ found.weight
    torch.testing.assert_close(rows if found.bias is None else rows + found.bias, found.out_rows(out))
    torch.testing.assert_close(found.with_weight(found.weight), out)
    torch.testing.assert_close(found.with_input(found.x), out)
    other = found.with_input(2 * found.x)
    torch.testing.assert_close(other, 2 * out if found.bias is None else 2 * out - (found.with_input(0 * found.x)))
    assert found.convolution == matrix.name.startswith("conv")
    assert found.channels_last(out).shape[-1] == found.weight.shape[1] or matrix.name == "einsum"


@pytest.mark.parametrize(
    "matrix",
    [
        use("linear", F.linear, X, torch.randn(4)),
        use("linear", F.linear, X.long(), W),
        use("addmm", torch.addmm, BIAS, X[0], W.T, alpha=2),
        use("addmm", torch.addmm, BIAS, X[0], W.T, beta=0),
        use("addmm", torch.addmm, BIAS),
        use("baddbmm", torch.baddbmm, C, A, B),
        use("matmul", torch.matmul, A, B),
        use("conv2d", F.conv2d, IMAGE, torch.randn(5, 4, 2, 1)),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, 2),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, 1, 1),
        use("conv2d", F.conv2d, IMAGE, torch.randn(4, 2, 1, 1), None, 1, 0, 1, 2),
        use("conv2d", F.conv2d, IMAGE[0], W[..., None, None]),
        use("conv1d", F.conv1d, X.transpose(1, 2), W[..., None], None, (2,)),
        use("conv1d", F.conv1d, X.transpose(1, 2), W[..., None], None, (1,), (1,)),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, (2, 1)),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, (1, 2)),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, 1, (1, 0)),
        use("conv2d", F.conv2d, IMAGE, W[..., None, None], BIAS, 1, (0, 1)),
        use("matmul", torch.matmul, X, W[0]),
        use("einsum", torch.einsum, "bqi,bio->bqo", A, B),
        use("einsum", torch.einsum, "bqi,oj->bqo", X, W),
        use("einsum", torch.einsum, "bqi,io->bo", X, W.T),
    ],
    ids=lambda matrix: matrix.name,
)
def test_what_is_no_plain_matrix_is_none(matrix: MatrixUse) -> None:
    assert as_matrix(matrix) is None
