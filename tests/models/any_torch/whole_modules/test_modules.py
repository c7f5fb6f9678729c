"""Modules outside transformers: outputs, head parts, statistics and ablation equal the module's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.models.any_torch.modules import HEADS, WIDTH, Attention, Gpt, Vit, ids, picture, states
from torch import Tensor, nn

import headscope
from headscope.attention.observer import Call, plain
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.selfcheck import relative_difference
from headscope.models.structure.recorder import record_stream
from headscope.models.structure.sites import logits_of
from headscope.scope import Scope

# PyTorch's fused encoder, which the module itself runs where it can.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

PADDING = torch.tensor([[False] * 9, [False] * 6 + [True] * 3])


def _encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True), 2)


def _attention(**options: Any) -> nn.Module:
    return nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)


x, memory = states(2, 9), states(2, 5, seed=3)
CASES: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "nanoGPT by sdpa": (Gpt, {"idx": ids(), "targets": ids()}),
    "nanoGPT in eager code": (lambda: Gpt(eager=True), {"idx": ids(), "targets": ids()}),
    "ViT by sdpa": (Vit, picture()),
    "ViT in eager code": (lambda: Vit(eager=True), picture()),
    "encoder": (_encoder, x),
    "encoder, padded": (_encoder, {"src": x, "src_key_padding_mask": PADDING}),
    "encoder with a mask": (_encoder, {"src": x, "mask": nn.Transformer.generate_square_subsequent_mask(9)}),
    "decoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 64), 2),
        (states(7, 2), states(9, 2, seed=3)),
    ),
    "transformer": (lambda: nn.Transformer(WIDTH, HEADS, 2, 2, 64, batch_first=True), (x, memory)),
    "attention": (_attention, (x, x, x)),
    "attention, one item": (_attention, (x[:1], x[:1], x[:1])),
    "attention without weights": (_attention, {"query": x, "key": x, "value": x, "need_weights": False}),
    "attention, padded": (_attention, {"query": x, "key": x, "value": x, "key_padding_mask": PADDING}),
    "attention with bias_kv": (lambda: _attention(add_bias_kv=True, add_zero_attn=True), (x, memory, memory)),
    "attention with other widths": (lambda: _attention(kdim=16, vdim=8), (x, states(2, 5)[..., :16], x[:, :5, :8])),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Iterator[tuple[nn.Module, Any, Scope]]:
    make, inputs = CASES[request.param]
    torch.manual_seed(0)
    model = make().eval()
    with headscope.load(model, inputs=inputs) as scope:
        yield model, inputs, scope


def run(model: nn.Module, inputs: Any) -> Tensor:
    with torch.no_grad():
        if isinstance(inputs, dict):
            return logits_of(model(**inputs))
        return logits_of(model(*inputs) if isinstance(inputs, tuple) else model(inputs))


def test_outputs_equal_the_module_s_own(case: tuple[nn.Module, Any, Scope]) -> None:
    model, inputs, scope = case
    assert isinstance(scope.model, AnyTorchModel)
    own = run(copy.deepcopy(model).train(False), inputs)
    reached: set[str] = set()

    def observe(site: str, call: Call) -> Tensor:
        reached.add(site)
        return plain(call)

    with torch.no_grad():
        ours = scope.model.run(scope.model.arguments.named(), observe).logits
    assert reached == set(scope.shape.sites)
    real = ~PADDING if isinstance(inputs, dict) and any("padding" in name for name in inputs) else ...
    assert relative_difference(ours[real], own[real]) < 1e-5


def test_one_head_off_is_its_rows_of_the_output_weight_at_zero(case: tuple[nn.Module, Any, Scope]) -> None:
    model, inputs, scope = case
    assert isinstance(scope.model, AnyTorchModel)
    for site in scope.shape.sites:
        path = {id(part): name for name, part in model.named_modules()}[id(scope.model.output_matrix(site))]
        by_hand = copy.deepcopy(model)
        d_value = scope.shape.sites[site].d_value
        with torch.no_grad():
            by_hand.get_submodule(path).weight[:, 2 * d_value : 3 * d_value] = 0.0

        def ablate(name: str, call: Call, site: str = site) -> Tensor:
            z = plain(call).clone()
            if name == site:
                z[:, 2] = 0.0
            return z

        with torch.no_grad():
            ours = scope.model.run(scope.model.arguments.named(), ablate).logits
        theirs = run(by_hand, inputs)
        real = ~PADDING if isinstance(inputs, dict) and any("padding" in name for name in inputs) else ...
        assert relative_difference(ours[real], theirs[real]) < 1e-5
        assert relative_difference(ours[real], run(model, inputs)[real]) > 1e-4


def test_head_parts_and_bias_are_what_the_output_weight_gave(case: tuple[nn.Module, Any, Scope]) -> None:
    _, _, scope = case
    assert isinstance(scope.model, AnyTorchModel)
    made: dict[int, Tensor] = {}
    matrices = {site: scope.model.output_matrix(site) for site in scope.shape.sites}
    for matrix in matrices.values():
        matrix.register_forward_hook(lambda module, _, output: made.update({id(module): output}))
    sites = list(scope.shape.sites)
    with torch.no_grad():
        read = record_stream(scope.model, scope.model.arguments.named()).read_by_w_o
    for site in sites:
        weight = scope.model.output_weight(site)
        parts = torch.einsum("bqhd,hdm->bqm", read[site], weight.weight)
        total = parts if weight.bias is None else parts + weight.bias
        torch.testing.assert_close(total, scope.model.apply_output_weight(site, read[site]), rtol=1e-4, atol=1e-5)
        own = made.get(id(matrices[site]))
        if own is not None:  # nn.MultiheadAttention uses the weight of its out_proj without calling it
            torch.testing.assert_close(total, own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_patterns_are_the_module_s_own(eager: bool, causal: bool) -> None:
    torch.manual_seed(0)
    attention = Attention(causal=causal, eager=eager)
    with headscope.load(attention, inputs=states(1, 9)) as scope:
        seen = scope.look(states(1, 6, seed=5))
        own = attention.pattern(states(1, 6, seed=5))[0].detach()
    torch.testing.assert_close(seen.patterns("Attention"), own)
    entropy = torch.special.entr(own).sum(-1)
    torch.testing.assert_close(seen.statistics("Attention").entropy[0], entropy, rtol=1e-4, atol=1e-5)
    assert scope.shape.sites["Attention"].causal is causal


def test_weights_that_a_caller_uses_are_the_module_s_own() -> None:
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    class Returned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = attention

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z, weights = self.attn(x, x, x)
            return z + weights.sum() * 0.5, weights

    own = Returned().eval()(x)
    with headscope.load(Returned(), inputs=x) as scope, torch.no_grad():
        torch.testing.assert_close(scope.model.run({"x": x}, lambda _, call: plain(call)).logits, own[0].detach())


def test_the_module_is_left_as_it_was() -> None:
    model = Vit().train()
    before = {name: dict(part._forward_hooks) for name, part in model.named_modules()}
    with headscope.load(model, inputs=picture()):
        assert not model.training
    assert model.training
    assert {name: dict(part._forward_hooks) for name, part in model.named_modules()} == before


def test_sites_are_named_by_their_paths_and_know_their_grid() -> None:
    with headscope.load(Vit(), inputs=picture()) as scope:
        assert list(scope.shape.sites) == ["0", "1"]
        assert {site.grid for site in scope.shape.sites.values()} == {(3, 4)}
        labels = [token.text for token in scope.look(picture()).tokens]
    assert labels[0] == "CLS"
    assert labels[-1] == "patch 2,3"
    with headscope.load(Attention(), inputs=states(1, 12), grid=(2, 6)) as scope:
        assert scope.shape.sites["Attention"].grid == (2, 6)


def test_eager_code_is_noted_and_sdpa_is_not() -> None:
    with headscope.load(Vit(), inputs=picture()) as scope:
        assert not [note for note in scope.notes if "eager" in note]
    with headscope.load(Vit(eager=True), inputs=picture()) as scope:
        assert [note for note in scope.notes if "the model itself makes as many numbers as queries × keys" in note]
