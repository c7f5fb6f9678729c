"""The residual stream around a site and the MLP's output, against the model's own hidden states and hooks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

import headscope
from headscope.errors import ModelError
from headscope.models.structure.residual_stream import layer_parts

IDS = list(range(5, 20))
SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
SEQUENTIAL = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**SIZES, num_key_value_heads=2)),
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(vocab_size=97, n_embd=48, n_layer=2, n_head=4)),
    "gemma2": (transformers.Gemma2ForCausalLM, transformers.Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=12)),
    "granite": (
        transformers.GraniteForCausalLM,
        transformers.GraniteConfig(**SIZES, num_key_value_heads=2, residual_multiplier=0.22),
    ),
    "opt": (
        transformers.OPTForCausalLM,
        transformers.OPTConfig(
            vocab_size=97,
            hidden_size=48,
            ffn_dim=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            word_embed_proj_dim=48,
        ),
    ),
    "mixtral": (transformers.MixtralForCausalLM, transformers.MixtralConfig(**SIZES, num_key_value_heads=2)),
    "neox, parallel": (transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig(**SIZES)),
}


def built(family: str) -> transformers.PreTrainedModel:
    kind, config = SEQUENTIAL[family]
    torch.manual_seed(0)
    model = kind(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("family", SEQUENTIAL)
def test_before_attention_and_mlp_add_up_to_the_models_hidden_states(family: str) -> None:
    model = built(family)
    with torch.no_grad():
        hidden = model(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        stream = look.residual(0)
        torch.testing.assert_close(stream.before, hidden[0][0])
        torch.testing.assert_close(stream.after + look.mlp("0"), hidden[1][0], atol=1e-5, rtol=1e-4)
        added = (stream.after - stream.before)[4]
        written = look.contributions(4, ["0"]).sites["0"].output
        if family != "gemma2":  # there a norm stands between W_O and the stream
            factor = 0.22 if family == "granite" else 1.0
            torch.testing.assert_close(added, factor * written, atol=1e-5, rtol=1e-4)


def test_a_norm_on_the_stream_carries_it_on() -> None:
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    made: dict[str, torch.Tensor] = {}
    layer = model.encoder.layer[1]
    hooks = {"after": layer.attention.output.LayerNorm, "mlp": layer.output.dense}
    for name, module in hooks.items():
        module.register_forward_hook(lambda _, __, output, name=name: made.__setitem__(name, output[0]))
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        stream, mlp = look.residual("1"), look.mlp("1")
        torch.testing.assert_close(stream.after, made["after"])
        torch.testing.assert_close(mlp, made["mlp"], atol=1e-6, rtol=1e-5)


def test_self_and_cross_attention_of_one_layer_follow_each_other() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0)).eval()
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        torch.testing.assert_close(look.residual("decoder.1").after, look.residual("decoder.1.cross").before)
        torch.testing.assert_close(look.mlp("decoder.1"), look.mlp("decoder.1.cross"))


def test_edits_are_in_force() -> None:
    with headscope.load(built("llama")) as scope:
        plain = scope.look(IDS).residual("1")
        with scope.edit(headscope.ablate("0.1")):
            changed = scope.look(IDS).residual("1")
    assert not torch.allclose(plain.before, changed.before)


class NoMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = headscope.MultiHeadAttention(d_model=16, n_heads=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.attention(x)


class Gated(NoMLP):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.attention(x)


@pytest.mark.parametrize("layer", [NoMLP, Gated])
def test_a_layer_without_mlp_has_none_and_a_product_is_no_sum(layer: type[NoMLP]) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"layers": nn.ModuleList([layer()])})
    x = torch.randn(1, 9, 16)

    def run() -> torch.Tensor:
        return model["layers"][0](x)

    if layer is Gated:
        with pytest.raises(
            ModelError, match=r"layers\.0\.attention: what it adds to the residual stream was not found"
        ):
            layer_parts(model, "layers.0.attention", run)
    else:
        found = layer_parts(model, "layers.0.attention", run)
        assert found.mlp is None
        torch.testing.assert_close(found.after, run()[0])


class Layer(nn.Module):
    def __init__(self, narrows: bool) -> None:
        super().__init__()
        self.attn, self.narrows = nn.Linear(4, 4), narrows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = x + self.attn(x)
        return made[..., :3] if self.narrows else made


@pytest.mark.parametrize(
    ("model", "path", "message"),
    [
        (Layer(False), "attn", "attn is not in a list of layers, so the residual stream around it cannot be found"),
        (nn.ModuleDict({"layers": nn.ModuleList([Layer(True)])}), "layers.0.attn", "has no residual stream of one"),
    ],
    ids=["no list", "narrower"],
)
def test_a_site_without_a_stream_of_one_width_around_it_is_refused(model: nn.Module, path: str, message: str) -> None:
    layer = model.get_submodule(path.rpartition(".")[0])
    with pytest.raises(ModelError, match=message):
        layer_parts(model, path, lambda: layer(torch.randn(1, 3, 4)))


class Parallel(nn.Module):
    """Attention and MLP read the same stream and are added with factors of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2 * self.attn(x) + 3 * self.mlp(x)


@torch.no_grad()
def test_parallel_branches_have_factors_of_their_own() -> None:
    layer, x = Parallel(), torch.randn(1, 9, 4)
    model = nn.ModuleDict({"layers": nn.ModuleList([layer])})
    found = layer_parts(model, "layers.0.attn", lambda: layer(x))
    assert found.mlp is not None
    torch.testing.assert_close(found.before, x[0])
    torch.testing.assert_close(found.after, x[0] + 2 * layer.attn(x[0]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.mlp, 3 * layer.mlp(x[0]), rtol=1e-4, atol=1e-5)
