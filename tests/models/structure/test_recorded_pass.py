"""The stream around a site, the MLP's output and shares of a logit, against the model's own states and weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from tests.models import tiny
from torch import nn

import headscope
from headscope.errors import EditError, ModelError
from headscope.heads.look import activation_cache
from headscope.models.structure.recorded_pass import NOT_A_SUM, NOT_ADDED, stream_factor
from headscope.names import Head
from headscope.scope import Scope

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
        before, after = (look.recorded.value(f"{kind} 0") for kind in ("resid_pre", "resid_mid"))
        torch.testing.assert_close(before, hidden[0][0])
        added, written = (after - before)[4], look.contributions(4, ["0"]).sites["0"].output
        if family != "gemma2":  # there norms stand between W_O or the MLP and the stream
            mlp = look.recorded.value("mlp_out 0")
            torch.testing.assert_close(
                after + (0.22 if family == "granite" else 1.0) * mlp, hidden[1][0], atol=1e-5, rtol=1e-4
            )
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
        after, mlp = (look.recorded.value(name) for name in ("resid_mid 1", "mlp_out 1"))
        scope.model.run({"input_ids": torch.tensor([IDS])})
        torch.testing.assert_close(after, made["after"])
        torch.testing.assert_close(mlp, made["mlp"], atol=1e-6, rtol=1e-5)


def test_self_and_cross_attention_of_one_layer_follow_each_other() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0)).eval()
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        between = look.recorded.value("q_input decoder.1.cross.0")
        added = look.contributions(0, ["decoder.1"]).sites["decoder.1"].output
        torch.testing.assert_close(look.recorded.value("resid_pre decoder.1")[0] + added, between[0])


def test_edits_are_in_force() -> None:
    with headscope.load(built("llama")) as scope:
        plain = scope.look(IDS).recorded.value("resid_mid 1")
        with scope.edit(headscope.ablate("0.1")):
            changed = scope.look(IDS).recorded.value("resid_mid 1")
    assert not torch.allclose(plain, changed)


@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
def test_most_families_add_attention_outputs_unscaled(build: Callable[[], transformers.PreTrainedModel]) -> None:
    with headscope.load(build()) as scope:
        sites = [site for site in scope.model.shape.sites if not site.startswith("encoder")]
        assert {stream_factor(scope.model, site) for site in sites} == {1.0}


def test_granites_residual_multiplier_scales_logit_attribution() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "residual_multiplier": 0.22, "logits_scaling": 2.0}
    model = tiny.build("GraniteConfig", "GraniteForCausalLM", **sizes)
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        attribution = look.logit_attribution(7, minus=8)
        assert stream_factor(scope.model, "1") == pytest.approx(0.22, rel=1e-4)
        with torch.no_grad():
            residual = scope.model.run(look.prepared.inputs, residual=True).residual
            assert residual is not None
            scale = (residual[0, -1].square().mean() + model.model.norm.variance_epsilon).rsqrt()
            written = 0.22 * look.contributions(-1).part("0.3") * scale * model.model.norm.weight
            expected = written @ (model.lm_head.weight[7] - model.lm_head.weight[8]) / 2.0
        assert attribution.heads[Head("0", 3)] == pytest.approx(float(expected), rel=1e-3)


MODULES: dict[str, Callable[[Any], dict[str, tuple[nn.Module, bool]]]] = {
    "llama": lambda model: {
        "resid_pre 1": (model.model.layers[1], True),
        "resid_post 0": (model.model.layers[0], False),
        "attn_out 1": (model.model.layers[1].self_attn.o_proj, False),
        "mlp_out 1": (model.model.layers[1].mlp, False),
        "z 1": (model.model.layers[1].self_attn.o_proj, True),
        "resid_mid 1": (model.model.layers[1].post_attention_layernorm, True),
        "mlp_in 0": (model.model.layers[0].post_attention_layernorm, True),
        "k_input 1.3": (model.model.layers[1].input_layernorm, True),
    },
    "gpt2": lambda model: {
        "resid_pre 1": (model.transformer.h[1], True),
        "resid_post 1": (model.transformer.h[1], False),
        "attn_out 0": (model.transformer.h[0].attn.c_proj, False),
        "mlp_out 0": (model.transformer.h[0].mlp, False),
        "z 0": (model.transformer.h[0].attn.c_proj, True),
        "resid_mid 0": (model.transformer.h[0].ln_2, True),
        "mlp_in 1": (model.transformer.h[1].ln_2, True),
        "q_input 1.0": (model.transformer.h[1].ln_1, True),
    },
    "neox, parallel": lambda model: {
        "mlp_in 1": (model.gpt_neox.layers[1].post_attention_layernorm, True),
        "v_input 1.0": (model.gpt_neox.layers[1].input_layernorm, True),
        "mlp_out 1": (model.gpt_neox.layers[1].mlp, False),
        "resid_post 1": (model.gpt_neox.layers[1], False),
    },
}


@pytest.mark.parametrize("family", MODULES)
def test_values_and_gradients_are_those_of_hooks_written_by_hand(family: str) -> None:
    model: Any = built(family)
    wanted: dict[str, torch.Tensor] = {}

    def keep(name: str, value: Any) -> None:
        value = value[0] if isinstance(value, tuple) else value
        value.retain_grad()
        wanted[name] = value

    hooks = [
        module.register_forward_pre_hook(lambda _, args, name=name: keep(name, args))
        if is_input
        else module.register_forward_hook(lambda _, __, output, name=name: keep(name, output))
        for name, (module, is_input) in MODULES[family](model).items()
    ]
    logits = model(torch.tensor([IDS])).logits[0, -1]
    (logits[5] - logits[6]).backward()
    for hook in hooks:
        hook.remove()
    with headscope.load(model) as scope:
        recorded = scope.look(IDS).recorded
        for name, value in wanted.items():
            torch.testing.assert_close(recorded.value(name).flatten(1), value[0].detach(), atol=1e-5, rtol=1e-4)
        at = [name for name in wanted if "_in" not in name and "mid" not in name]
        found = recorded.gradient((5, 6), at=at)
        for name in at:
            assert wanted[name].grad is not None
            torch.testing.assert_close(found[name].flatten(1), wanted[name].grad[0], atol=1e-5, rtol=1e-4)


def test_parts_of_heads_are_z_through_w_o_and_all_parts_are_the_stream() -> None:
    with headscope.load(built("llama")) as scope:
        look = scope.look(IDS)
        model: Any = scope.model.model
        matrix = model.model.layers[0].self_attn.o_proj.weight[:, 12:24].T
        for at in (None, "q_input 1.2"):
            torch.testing.assert_close(look.recorded.part("0.1", at), look.z("0")[1] @ matrix)
        torch.testing.assert_close(look.recorded.value("z 0.1"), look.z("0")[1])
        slopes = look.recorded.gradient((5, 6), ["z 0", "z 0.1"])
        torch.testing.assert_close(slopes["z 0.1"], slopes["z 0"][:, 1])
        parts = look.recorded.parts("q_input 1.2")
        assert {"embedding", "0.0", "0.1", "0.2", "0.3", "mlp 0"} <= set(parts)
        total = torch.stack(list(parts.values())).sum(0)
        torch.testing.assert_close(total, look.recorded.value("resid_pre 1"), atol=1e-5, rtol=1e-4)
        with pytest.raises(ModelError, match=r"1\.0 does not write into the stream q_input 1\.2; embedding, 0\.0"):
            look.recorded.part("1.0", "q_input 1.2")


class Interleaved(nn.Module):
    """Attention whose channels count heads fastest, and whose W_O reads them in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(2, (8, 4)).permute(0, 3, 1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        z = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = x + self.out(z.permute(0, 2, 3, 1).flatten(2))
        return out


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("kind", ["W_O is no module that is called", "heads are interleaved"])
def test_heads_of_any_module_write_what_w_o_makes_of_their_z(kind: str) -> None:
    if kind == "heads are interleaved":
        model = nn.Sequential(Interleaved(), Interleaved(), nn.Linear(32, 5)).eval()
    else:
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 2)).eval()
    x = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(1))
    with headscope.load(model, inputs=x) as scope:
        look = scope.look(x)
        first, second = scope.shape.sites
        for head, part in enumerate(look.contributions(3).sites[first].parts):
            found = look.recorded.part(f"{first}.{head}", f"k_input {second}.0")
            torch.testing.assert_close(found[3], part, atol=1e-6, rtol=1e-4)
        assert look.why(f"{second}.1", 5).error < 1e-5


def test_a_recorded_pass_is_kept_within_the_budget_of_its_look(monkeypatch: pytest.MonkeyPatch) -> None:
    with headscope.load(built("llama")) as scope:
        look, other = scope.look(IDS), scope.look(IDS)
        before = look.cache.bytes
        assert look.recorded is look.recorded
        assert look.cache.bytes == before + look.recorded.nbytes
        monkeypatch.setattr(activation_cache, "BUDGET", 0)
        assert other.recorded is not other.recorded


def test_all_shares_are_the_logit() -> None:
    with headscope.load(built("gemma2")) as scope:
        look = scope.look(IDS)
        shares = look.recorded.attribution(5, 6, 7)
        assert sum(shares.values()) == pytest.approx(look.logit_attribution(5, 6, position=7).total, abs=1e-4)


@pytest.mark.parametrize(
    ("build", "site", "why"),
    [(tiny.t5, "encoder.0", NOT_ADDED), (tiny.opt, "0", NOT_A_SUM)],
    ids=["another stream", "a norm inside the last layer"],
)
def test_a_factor_that_is_not_one_is_refused(
    build: Callable[[], transformers.PreTrainedModel], site: str, why: str
) -> None:
    with headscope.load(build()) as scope, pytest.raises(ModelError, match=f"^{site}: {re.escape(why)}"):
        stream_factor(scope.model, site)


class Block(nn.Module):
    """Attention that is added to the stream, with an MLP beside it, or that replaces it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.attention = headscope.MultiHeadAttention(d_model=16, n_heads=2)
        self.mlp, self.way = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16)), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.attention(x)
        if self.way == "gated":
            return x * z
        return x + 2 * z + 3 * self.mlp(x) if self.way == "parallel" else x + z


class Stack(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(30, 16), nn.ModuleList([Block(way)]), nn.Linear(16, 30)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers[0](self.embed(ids)))  # type: ignore[no-any-return]


def stacked(way: str) -> tuple[Stack, Scope]:
    torch.manual_seed(0)
    model = Stack(way)
    return model, headscope.load(model)


@torch.no_grad()
def test_parallel_branches_have_separate_factors() -> None:
    model, scope = stacked("parallel")
    look, x = scope.look(IDS), model.embed(torch.tensor([IDS]))
    layer: Any = model.layers[0]
    torch.testing.assert_close(look.recorded.value("resid_pre 0"), x[0])
    torch.testing.assert_close(
        look.recorded.value("resid_mid 0"), (x + 2 * layer.attention(x))[0], rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(look.recorded.part("mlp 0"), 3 * layer.mlp(x)[0], rtol=1e-4, atol=1e-5)


def test_a_layer_without_mlp_has_none_and_a_product_is_not_a_sum() -> None:
    with pytest.raises(EditError, match="'mlp_out 0': no MLP output of this layer was found"):
        stacked("no mlp")[1].look(IDS).recorded.value("mlp_out 0")
    with pytest.raises(ModelError, match="0: what it adds to the residual stream was not found"):
        stacked("gated")[1].look(IDS).recorded.value("resid_mid 0")
