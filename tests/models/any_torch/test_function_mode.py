"""Attention is found in the functions that a module calls: what is followed from softmax to product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headscope.models.any_torch.function_mode import (
    MOST_PRODUCTS,
    AttentionMode,
    FoundCall,
    MatrixUse,
    Parts,
    _drops,
)

Q, K, V = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 7)
SCORES = torch.randn(2, 3, 4, 6)


def seen(run: Callable[[], Any], module: nn.Module | None = None, **options: Any) -> list[FoundCall]:
    """The calls that are found while a function runs, each answered by the module's own z."""
    found: list[FoundCall] = []

    def visit(call: FoundCall) -> Tensor:
        found.append(call)
        return call.own()

    with AttentionMode(Parts.of(module or nn.Identity()), visit, **options):
        run()
    return found


def test_sdpa_is_found_with_its_arguments() -> None:
    mask = torch.ones(4, 6, dtype=torch.bool)
    plain, told, placed = seen(
        lambda: (
            F.scaled_dot_product_attention(Q, K, V),
            F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, scale=0.7, dropout_p=0.25),
            F.scaled_dot_product_attention(Q, K[:, :, :4], V[:, :, :4], None, 0.0, True),
        )
    )
    assert (plain.lead, plain.n_query, plain.shape) == ((2, 3), 4, (2, 3, 4, 7))
    assert [plain.q is Q, plain.k is K, plain.v is V] == [True] * 3
    assert (plain.mask, plain.causal, plain.scale, plain.dropout, plain.eager) == (None, False, None, 0.0, False)
    assert (told.mask is mask, told.causal, told.scale, told.dropout) == (True, False, 0.7, 0.25)
    assert (placed.mask, placed.causal, placed.dropout) == (None, True, 0.0)
    torch.testing.assert_close(plain.own(), F.scaled_dot_product_attention(Q, K, V))
    causal = F.scaled_dot_product_attention(Q, K[:, :, :4], V[:, :, :4], is_causal=True)
    torch.testing.assert_close(placed.own(), causal)


def test_leading_axes_are_broadcast_and_grouped() -> None:
    few = K[:, :1], V[:, :1]
    shared, grouped = seen(
        lambda: (
            F.scaled_dot_product_attention(Q[:1], *few),
            F.scaled_dot_product_attention(Q, *few, enable_gqa=True),
        )
    )
    assert (shared.lead, grouped.lead) == ((2, 3), (2, 3))
    assert grouped.own().shape == (2, 3, 4, 7)


WAYS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "as it is": (lambda w: w, False),
    "in other shapes": (lambda w: w.view(6, 4, 6).unflatten(0, (2, 3)).contiguous(), False),
    "in another precision": (lambda w: w.double().float(), False),
    "dropout that is off": (lambda w: F.dropout(w, 0.3, training=False), False),
    "dropout by nothing": (lambda w: F.dropout(w, 0.0, training=True), False),
    "dropout": (lambda w: F.dropout(w, 0.3, training=True), True),
    "a factor": (lambda w: w * 0.5, True),
    "a factor, in another shape": (lambda w: (w * 0.5).view(2, 3, 4, 6), True),
    "half of the queries": (lambda w: w[:, :, :2], True),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_followed_from_softmax_to_product(way: str) -> None:
    change, changed = WAYS[way]
    made: list[Tensor] = []
    (call,) = seen(lambda: made.append(change(SCORES.softmax(-1)) @ V))
    assert call.eager
    assert call.changed is changed
    assert call.weights is not None
    assert call.softmax is not None
    assert call.softmax.scores is SCORES
    torch.testing.assert_close(call.weights @ V, made[0])
    assert call.shape == tuple(made[0].shape)


@pytest.mark.parametrize(
    "run",
    [
        lambda: SCORES.softmax(-1)[:, :, :1] @ V,
        lambda: SCORES.softmax(-1).argmax(-1, keepdim=True).float().expand(2, 3, 4, 6) @ V,
        lambda: SCORES[0, 0, 0].softmax(-1)[None] @ V[0, 0],
        lambda: SCORES[..., :0].softmax(-1) @ V[:, :, :0],
        lambda: SCORES.sigmoid() @ V,
        lambda: torch.einsum("bhqk,bhkd->bhd", SCORES.softmax(-1), V),
        lambda: SCORES.softmax(-1) @ SCORES.softmax(-1).mT,
        lambda: torch.baddbmm(torch.zeros(6, 4, 7), SCORES.softmax(-1).flatten(0, 1), V.flatten(0, 1)),
    ],
    ids=[
        "a quarter",
        "whole numbers",
        "one axis",
        "no keys",
        "no softmax",
        "a sum over queries",
        "two patterns",
        "baddbmm",
    ],
)
def test_what_is_no_product_of_a_pattern_and_values_is_not_found(run: Callable[[], Any]) -> None:
    assert seen(run) == []


def test_a_softmax_is_found_by_any_name_of_it() -> None:
    for run in (
        lambda: F.softmax(SCORES, dim=-1) @ V,
        lambda: torch.softmax(input=SCORES, dim=-1) @ V,
        lambda: torch.einsum("bhqk,bhkd->bqhd", torch.softmax(SCORES, -1), V),
        lambda: torch.bmm(SCORES.softmax(-1).flatten(0, 1), V.flatten(0, 1)),
        lambda: torch.matmul(V.mT, SCORES.softmax(-1).mT),
    ):
        (call,) = seen(run)
        assert not call.changed
        assert call.n_query == 4
        assert call.v.shape[-1] == 7


def test_a_pattern_without_leading_axes_is_followed() -> None:
    for change, changed in ((lambda w: w, False), (lambda w: w * 0.5, True)):
        (call,) = seen(lambda change=change: change(SCORES[0, 0].softmax(-1)) @ V[0, 0])
        assert (call.lead, call.shape, call.changed) == ((), (4, 7), changed)


def test_the_operator_inside_flex_attention_is_found_by_its_name_and_arguments() -> None:
    def flex_attention(*args: Any) -> str:
        return "own"

    def another(*args: Any) -> str:
        return "own"

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= 0

    found: list[FoundCall] = []

    def visit(call: FoundCall) -> Tensor:
        found.append(call)
        return call.own()

    mode = AttentionMode(Parts.of(nn.Identity()), visit)
    inside = (Q, K, V, score_mod, ("blocks", mask_mod), 0.4, {})
    z, logsumexp, largest = mode.__torch_function__(flex_attention, (), inside)
    torch.testing.assert_close(z, F.scaled_dot_product_attention(Q, K, V, scale=0.4))
    assert logsumexp.shape == largest.shape == (2, 3, 4)
    (call,) = found
    assert (call.lead, call.n_query, call.scale, call.flex) == ((2, 3), 4, 0.4, (score_mod, mask_mod))
    for function, args in (
        (flex_attention, inside[:5]),
        (flex_attention, (Q, K, V, score_mod, None, 0.4)),
        (another, inside),
    ):
        assert mode.__torch_function__(function, (), args) == "own"
    assert len(found) == 1


def test_one_softmax_is_one_attention_unless_its_weights_are_used_again() -> None:
    def twice() -> None:
        weights = SCORES.softmax(-1)
        half = weights * 0.5
        weights @ V, weights @ (2 * V), half @ V

    assert [call.site for call in seen(twice)] == ["NoneType", "NoneType@2"]


def test_the_answer_takes_the_place_of_z() -> None:
    with AttentionMode(Parts.of(nn.Identity()), lambda call: torch.full(call.shape, 7.0)):
        z = torch.einsum("bhqk,bhkd->bqhd", SCORES.softmax(-1), V)
        other = F.scaled_dot_product_attention(Q, K, V)
    assert z.shape == (2, 4, 3, 7)
    assert z.is_contiguous()
    assert bool((z == 7).all())
    assert bool((other == 7).all())


def test_the_last_products_before_a_softmax_are_kept() -> None:
    assert MOST_PRODUCTS == 8

    def many() -> None:
        for number in range(11):
            (Q * number) @ K.mT
        Q[0, 0] @ K[0, 0].mT, (Q.long() @ K.mT.long())
        SCORES.softmax(-1) @ V

    (call,) = seen(many)
    assert call.softmax is not None
    kept = call.softmax.products
    assert [float((p.a / Q).median().round()) for p in kept] == list(range(3, 11))
    assert all(p.leaf is None for p in kept)


@pytest.mark.parametrize(
    ("cut", "gradients", "leaves"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_products_become_leaves_in_a_pass_with_gradients(cut: bool, gradients: bool, leaves: bool) -> None:
    made: list[Tensor] = []

    def run() -> None:
        with torch.set_grad_enabled(gradients):
            scores = Q @ K.mT
            made.append(scores)
            scores.softmax(-1) @ V

    (call,) = seen(run, cut=cut)
    assert call.softmax is not None
    (product,) = call.softmax.products
    assert (product.leaf is not None) is leaves
    assert made[0].requires_grad is leaves
    torch.testing.assert_close(made[0].detach(), Q @ K.mT)
    if product.leaf is not None:
        assert product.leaf.is_leaf
        torch.testing.assert_close(product.leaf.detach(), Q @ K.mT)


def test_products_with_weights_are_matrices_and_are_counted() -> None:
    module = nn.Module()
    module.w = nn.Parameter(torch.randn(7, 7))
    module.register_buffer("b", torch.randn(7, 7))
    uses: list[MatrixUse] = []

    def on_matrix(use: MatrixUse) -> Tensor | None:
        uses.append(use)
        return torch.zeros(1) if use.index == 2 else None

    made: list[Tensor] = []

    def run() -> None:
        made.append(F.linear(V, module.w))
        made.append(V @ module.w.T[:, :2])
        made.append(module.b @ V.mT)
        made.append(V @ torch.randn(7, 7))

    assert seen(run, module, on_matrix=on_matrix) == []
    assert [(use.index, use.name, use.of_scores) for use in uses] == [
        (0, "linear", False), (1, "matmul", False), (2, "matmul", False)
    ]  # fmt: skip
    torch.testing.assert_close(made[0], F.linear(V, module.w))
    assert made[2].tolist() == [0.0], "what was answered"


def test_a_matrix_that_may_mix_the_heads_of_scores_is_marked() -> None:
    uses: list[MatrixUse] = []
    mix = nn.Linear(3, 3)

    def run() -> None:
        with torch.enable_grad():
            scores = Q @ K.mT
            mix(scores.permute(0, 2, 3, 1))
            mix(torch.randn(2, 4, 5, 3))

    seen(run, mix, on_matrix=lambda use: uses.append(use), cut=True)  # type: ignore[func-returns-value]
    assert [use.of_scores for use in uses] == [True, False]


def test_weights_go_on_through_a_matrix_as_changed_ones() -> None:
    mix = nn.Linear(3, 3, bias=False)

    def run() -> None:
        mix(SCORES.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ V

    (call,) = seen(run, mix)
    assert call.changed


def test_weights_of_a_module_are_parameters_buffers_and_their_views() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    parts = Parts.of(model)
    assert parts.is_weight(model[0].weight)
    assert parts.is_weight(model[0].weight.T[1:])
    assert parts.is_weight(model[1].running_mean)
    assert parts.is_weight(nn.Parameter(torch.ones(2))), "a parameter of another model"
    assert not parts.is_weight(model[0].weight * 1)
    assert not parts.is_weight(torch.ones(2).to_sparse())
    assert parts.paths[id(model[1])] == "1"


def test_sites_are_counted_by_module_and_pass() -> None:
    model = nn.Sequential(nn.Identity())
    names: list[str] = []

    def visit(call: FoundCall) -> Tensor:
        names.append(call.site)
        return call.own()

    with AttentionMode(Parts.of(model), visit) as mode:
        for module in (None, model, model[0], model[0]):
            mode.stack = [] if module is None else [module]
            F.scaled_dot_product_attention(Q, K, V)
        mode.start()
        F.scaled_dot_product_attention(Q, K, V)
    assert names == ["NoneType", "Sequential", "0", "0@2", "0"]


@pytest.mark.parametrize(
    ("args", "kwargs", "drops"),
    [
        ((), {}, True),
        ((0.1,), {}, True),
        ((0.0,), {}, False),
        ((0.1, True), {}, True),
        ((0.1, False), {}, False),
        ((), {"p": 0.0}, False),
        ((), {"p": 0.2, "training": False}, False),
        ((), {"train": False}, False),
        ((0.1,), {"training": True}, True),
    ],
)
def test_whether_a_dropout_drops_anything(args: tuple[Any, ...], kwargs: dict[str, Any], drops: bool) -> None:
    assert _drops((SCORES, *args), kwargs) is drops
