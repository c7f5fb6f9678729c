"""Models built on our own MultiHeadAttention."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, plain
from headscope.errors import HeadNameError, InputError, ModelError
from headscope.models.loading import open_model
from headscope.models.native import as_transformers


class Small(nn.Module):
    """Two layers of nothing but attention, a norm, and a tied or separate W_U."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(13, 16)
        self.layers = nn.ModuleList(MultiHeadAttention(16, 4, 2) for _ in range(2))
        self.norm = nn.LayerNorm(16)
        self.out = None if tied else nn.Linear(16, 13)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = x + layer(x, mask=causal())
        x = self.norm(x)
        return x @ self.table.weight.T if self.out is None else self.out(x)


@pytest.mark.parametrize("tied", [True, False])
def test_all_of_the_open_model_interface(tied: bool) -> None:
    model = Small(tied=tied).train()
    opened = open_model(model, tiny.tokenizer(), name="small")
    assert list(opened.shape.sites) == ["0", "1"]
    assert opened.shape.sites["0"].causal
    inputs = opened.prepare("the horse crossed the road").inputs
    with torch.no_grad():
        done = opened.run(inputs, residual=True)
        torch.testing.assert_close(done.logits, model(inputs["input_ids"]))
        weight, x = opened.output_weight("1"), torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        total = torch.einsum("bqhd,hdm->bqm", x, weight.weight) + weight.bias
        torch.testing.assert_close(total, opened.apply_output_weight("1", x))
        end = opened.unembedding()
        assert end.norm is model.norm
        logits = end.norm(done.residual) @ end.weight.T
        torch.testing.assert_close(logits if end.bias is None else logits + end.bias, done.logits)
    torch.testing.assert_close(opened.query_weight("1").transpose(1, 2).reshape(16, 16), model.layers[1].q_proj.weight)
    assert opened.key_weight("1").shape == (2, 16, 4)
    opened.close()
    assert model.training
    assert not model.layers[0].o_proj._forward_hooks


def test_an_observer_may_change_z() -> None:
    opened = open_model(Small(tied=True))

    def ablate(site: str, call: Call) -> Tensor:
        return plain(call) * float(site != "0")

    ids = {"input_ids": torch.tensor([[3, 4, 5]])}
    with torch.no_grad():
        assert not torch.allclose(opened.run(ids).logits, opened.run(ids, ablate).logits)
        with opened.observing(ablate):
            torch.testing.assert_close(opened.model(ids["input_ids"]), opened.run(ids, ablate).logits)
    with pytest.raises(HeadNameError, match="5: this model has the sites 0, 1"):
        opened.output_weight("5")


def test_the_model_must_return_logits() -> None:
    class Silent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.attention = nn.Embedding(4, 8), MultiHeadAttention(8, 2)

        def forward(self, ids: Tensor) -> Tensor:
            return self.attention(self.table(ids))[:, 0]

    with pytest.raises(ModelError, match=r"Silent must return logits \[batch, token, vocabulary\] for token ids"):
        open_model(Silent())


def test_projections_and_modules_are_those_of_the_module() -> None:
    model = Small(tied=False)
    opened = open_model(model)
    layer = model.layers[1]
    for found, linear in (
        (opened.query_weight("1"), layer.q_proj),
        (opened.key_weight("1"), layer.k_proj),
        (opened.value_weight("1"), layer.v_proj),
    ):
        torch.testing.assert_close(found.transpose(1, 2).flatten(0, 1), linear.weight)
    assert (opened.query_weight("1").shape, opened.value_weight("1").shape) == ((4, 16, 4), (2, 16, 4))
    assert opened.output_matrix("1") is layer.o_proj
    assert opened.site_modules() == {"0": model.layers[0], "1": layer}
    assert (opened.shape.vocabulary, opened.shape.context, opened.shape.d_model) == (13, None, 16)
    opened.close()


def test_a_tokenizer_is_one_of_two_libraries() -> None:
    own = tiny.tokenizer()
    assert as_transformers(None) is None
    assert as_transformers(own) is own
    assert as_transformers(own.backend_tokenizer)("the horse").input_ids == [4, 5]
    with pytest.raises(InputError, match="cannot read text with a int; give a tokenizer of tokenizers or transformers"):
        as_transformers(3)
