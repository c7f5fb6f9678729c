"""Compiled, scripted, quantised and half-precision modules work or are refused in words; flex attention is seen."""

from __future__ import annotations

import pytest
import torch
from tests.models.any_torch.modules import VOCABULARY, WIDTH, Attention, Block, Vit, ids, picture, states
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import headscope
from headscope.errors import InputError, ModelError

pytestmark = pytest.mark.filterwarnings("ignore")


def _compiled_in_place() -> nn.Module:
    model = Vit()
    model.compile(backend="eager")
    return model


def _compiled_part() -> nn.Module:
    model = Vit()
    model.blocks[0] = torch.compile(model.blocks[0], backend="eager")
    return model


@pytest.mark.parametrize(
    "make",
    [
        _compiled_in_place,
        pytest.param(_compiled_part, marks=pytest.mark.slow),
        lambda: torch.compile(Vit(), backend="eager"),
    ],
)
def test_a_compiled_module_runs_uncompiled_while_it_is_open(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = make()
    own = model.eval()(picture()).detach()
    call = model._compiled_call_impl
    with headscope.load(model, inputs=picture()) as scope:
        assert scope.shape.n_heads == 8
        torch.testing.assert_close(scope.look(picture()).logits[0], own[0], rtol=1e-4, atol=1e-5)
    assert model._compiled_call_impl is call


def test_torchscript_is_refused() -> None:
    scripted = torch.jit.trace(Vit().eval(), picture())
    with pytest.raises(ModelError, match="is TorchScript, whose operations PyTorch does not show"):
        headscope.load(scripted, inputs=picture())


def test_a_quantised_module_whose_output_matrix_is_not_seen_is_refused() -> None:
    quantised = torch.ao.quantization.quantize_dynamic(Vit().eval(), {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(ModelError, match="no matrix takes its heads as they are"):
        headscope.load(quantised, inputs=picture())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_learned_digit_by_digit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    with headscope.load(Vit(eager=True).to(dtype), inputs=picture().to(dtype)) as scope:
        assert list(scope.shape.sites) == ["0", "1"]
        assert {site.n_heads for site in scope.shape.sites.values()} == {4}


def test_activations_that_look_like_markers_do_not_mislead() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), Attention())
    rounded = (states(1, 30) * 1024).round() / 1024
    with headscope.load(model, inputs=rounded) as scope:
        assert list(scope.shape.sites) == ["0", "1"]
        assert not [note for note in scope.notes if "not observed" in note]


class _Flex(Attention):
    def weighted(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        length = x.shape[1]
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cpu")
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + 0.1 * (j - i), block_mask=mask)

    def pattern(self, x: Tensor) -> Tensor:
        q, k, _ = self.heads(x)
        place = torch.arange(x.shape[1])
        scores = q @ k.mT * q.shape[-1] ** -0.5 + 0.1 * (place[None] - place[:, None])
        return scores.masked_fill(place[None] > place[:, None], float("-inf")).softmax(-1)


def test_flex_attention_is_seen_with_its_functions() -> None:
    torch.manual_seed(0)
    model = _Flex()
    with headscope.load(model, inputs=states(1, 9)) as scope:
        look = scope.look(states(1, 6, seed=4))
        torch.testing.assert_close(look.patterns("_Flex"), model.pattern(states(1, 6, seed=4))[0].detach())
        own = model.pattern(states(1, 6, seed=4))[0, 1].detach()
        torch.testing.assert_close(look.pattern("_Flex.1"), own)


def test_a_function_runs_the_module() -> None:
    class Encoder(Vit):
        def encode(self, x: Tensor) -> Tensor:
            return self.blocks[0](x)

    with headscope.load(Encoder(), inputs=lambda model: model.encode(states(1, 5))) as scope:
        assert list(scope.shape.sites) == ["0"]
        assert scope.look(lambda model: model.encode(states(1, 7))).pattern("0.0").shape == (7, 7)
    with headscope.load(Vit(), inputs=lambda model: model(picture())) as scope:
        assert scope.look(picture()).pattern("1.0").shape == (13, 13)


def test_inputs_that_do_not_run_are_named() -> None:
    with pytest.raises(InputError, match=r"this model does not run on x \(1, 9\)"):
        headscope.load(Vit(), inputs=ids().float())
    with pytest.raises(InputError, match="inputs=int: give a tensor"):
        headscope.load(Vit(), inputs=3)


def test_an_encoder_that_returns_every_layer_is_explained_by_the_last() -> None:
    """Its first layer's output is the embeddings, which no head moves; its last leaf is a norm, no logits follow."""

    class Layers:
        def __init__(self, outputs: list[Tensor]) -> None:
            self.all_outputs = outputs

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer, self.norm = nn.Embedding(VOCABULARY, WIDTH), Block(Attention()), nn.LayerNorm(WIDTH)

        def forward(self, ids: Tensor) -> Layers:
            x = self.table(ids)
            return Layers([x, self.norm(self.layer(x))])

    model = Encoder().eval()
    with headscope.load(model, inputs=ids()) as scope:
        assert scope.shape.vocabulary is None
        look = scope.look(ids()[0])
        with torch.no_grad():
            torch.testing.assert_close(look.logits, model(ids()).all_outputs[-1][0])


def test_categories_of_one_column_are_not_tried_in_another() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.columns = nn.ModuleList(nn.Embedding(size, WIDTH) for size in (2, 5))
            self.layer = Block(Attention())

        def forward(self, row: Tensor) -> Tensor:
            cells = [column(row[:, at]) for at, column in enumerate(self.columns)]
            return self.layer(torch.stack(cells, dim=1))

    with headscope.load(Table().eval(), inputs=torch.tensor([[0, 3], [1, 4]])) as scope:
        assert scope.look(torch.tensor([[1, 4]])).pattern("layer.attn.0").shape == (2, 2)


def test_a_module_without_numbers_is_refused() -> None:
    with pytest.raises(ModelError, match=r"Vit has no numbers yet: cls is on the meta device; load its weights"):
        headscope.load(Vit().to("meta"), inputs=picture())
