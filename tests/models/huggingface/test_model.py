"""An opened transformers model: its sites, its forward passes, and its state after closing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models import tiny
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.attention import observe
from headscope.attention.observer import Call, plain
from headscope.errors import InputError, ModelError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model
from headscope.models.structure.recorder import record_stream
from headscope.names import Site

IDS = torch.tensor([[5, 9, 33, 60, 12, 7, 41, 28]])


@pytest.fixture(scope="module")
def llama() -> HuggingFaceModel:
    return open_model(tiny.llama())  # type: ignore[no-any-return]


def test_sites_are_described_from_a_traced_pass() -> None:
    opened = open_model(
        tiny.build("MistralConfig", "MistralForCausalLM", **tiny.SIZES, num_key_value_heads=2, sliding_window=50)
    )
    assert opened.shape.sites["1"] == Site("1", 4, 2, 8, 8, "self", causal=True, window=50)
    assert (opened.shape.d_model, opened.shape.vocabulary) == (32, 97)
    opened.close()


def test_cross_attention_is_named_by_its_layer() -> None:
    opened = open_model(tiny.t5())
    assert list(opened.shape.sites) == [
        "encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross",
    ]  # fmt: skip
    assert [site.kind for site in opened.shape.sites.values()] == ["self"] * 3 + ["cross", "self", "cross"]
    assert [site.causal for site in opened.shape.sites.values()] == [False, False, True, False, True, False]
    opened.close()


def test_calls_of_a_shared_layer_are_separate_sites() -> None:
    opened = open_model(tiny.build("AlbertConfig", "AlbertModel", **tiny.SIZES, embedding_size=32))
    assert list(opened.shape.sites) == ["0", "0@2"]
    read = record_stream(opened, {"input_ids": IDS}).read_by_w_o
    assert not torch.equal(read["0"], read["0@2"])
    opened.close()


def test_logits_equal_the_models_own(llama: HuggingFaceModel) -> None:
    with torch.no_grad():
        own = tiny.llama()(IDS).logits
        torch.testing.assert_close(llama.run({"input_ids": IDS}).logits, own)


def test_left_padding_changes_nothing_for_real_tokens(llama: HuggingFaceModel) -> None:
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), IDS), dim=1)
    mask = (padded != 0).long()
    with torch.no_grad():
        alone = llama.run({"input_ids": IDS}).logits
        together = llama.run({"input_ids": padded, "attention_mask": mask}).logits
    torch.testing.assert_close(together[:, 3:], alone)


def test_head_parts_and_bias_are_the_attention_output() -> None:
    opened = open_model(tiny.gpt2())
    x = record_stream(opened, {"input_ids": IDS}).read_by_w_o["1"]
    weight = opened.output_weight("1")
    assert (weight.kind, weight.post_norm) == ("exact", None)
    total = torch.einsum("bqhd,hdm->bqm", x, weight.weight) + weight.bias
    torch.testing.assert_close(total, opened.apply_output_weight("1", x))
    opened.close()


def test_a_norm_after_w_o_is_found_and_noted() -> None:
    sizes = {**tiny.SIZES, "head_dim": 8, "num_key_value_heads": 2}
    model = tiny.build("Gemma2Config", "Gemma2ForCausalLM", **sizes)
    opened = open_model(model)
    assert opened.output_weight("1").post_norm is model.model.layers[1].post_attention_layernorm
    assert any("a norm lies between W_O and the residual stream of 0, 1" in note for note in opened.notes)
    opened.close()


def test_a_logit_is_the_norm_of_the_residual_through_w_u(llama: HuggingFaceModel) -> None:
    with torch.no_grad():
        done = llama.run({"input_ids": IDS}, residual=True)
        end = llama.unembedding()
        assert end.norm is not None
        assert done.residual is not None
        torch.testing.assert_close(end.norm(done.residual) @ end.weight.T, done.logits)


def test_an_observer_is_given_every_site_and_may_change_z(llama: HuggingFaceModel) -> None:
    seen: list[str] = []

    def ablate(site: str, call: Call) -> Tensor:
        seen.append(site)
        return plain(call) * (0.0 if site == "0" else 1.0)

    with torch.no_grad():
        before, after = llama.run({"input_ids": IDS}).logits, llama.run({"input_ids": IDS}, ablate).logits
        assert seen == ["0", "1"]
        assert not torch.allclose(before, after)
        torch.testing.assert_close(llama.run({"input_ids": IDS}).logits, before, rtol=0, atol=0)


def test_observing_reaches_every_step_of_generate() -> None:
    opened = open_model(tiny.llama())
    seen: list[str] = []

    def see(site: str, call: Call) -> Tensor:
        seen.append(site)
        return plain(call)

    with opened.observing(see):
        opened.model.generate(IDS, max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert seen == ["0", "1"] * 3
    opened.close()


def test_two_threads_do_not_see_each_other(llama: HuggingFaceModel) -> None:
    wanted = {name: torch.tensor([[name + 3, 5, 6, 7]]) for name in range(2)}
    found: dict[int, set[int]] = {0: set(), 1: set()}

    def work(name: int) -> None:
        def see(site: str, call: Call) -> Tensor:
            found[name].add(call.q.shape[2])
            return plain(call)

        ids = wanted[name][:, : 3 + name]
        for _ in range(20):
            with torch.no_grad():
                llama.run({"input_ids": ids}, see, residual=True)

    threads = [threading.Thread(target=work, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: {3}, 1: {4}}


def test_an_exception_leaves_the_model_unchanged(llama: HuggingFaceModel) -> None:
    with torch.no_grad():
        before = llama.run({"input_ids": IDS}).logits

    def fail(site: str, call: Call) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        llama.run({"input_ids": IDS}, fail)
    with torch.no_grad():
        assert torch.equal(llama.run({"input_ids": IDS}).logits, before)
        torch.testing.assert_close(llama.model(IDS).logits, before)


def test_closing_restores_the_model_exactly() -> None:
    model = tiny.llama().train()
    model.set_attn_implementation("eager")
    before = {id(module): dict(vars(module)) | {"hooks": len(module._forward_hooks)} for module in model.modules()}
    opened = open_model(model)
    assert model.config._attn_implementation == "headscope"
    assert not model.training
    opened.close()
    opened.close()
    assert model.config._attn_implementation == "eager"
    for module in model.modules():
        assert len(module._forward_hooks) == before[id(module)]["hooks"]
        assert not module._forward_pre_hooks
        assert module.training


def test_two_scopes_may_open_one_model() -> None:
    model = tiny.llama()
    own = model.config._attn_implementation
    first, second = open_model(model), open_model(model)
    first.close()
    assert model.config._attn_implementation == "headscope"
    with torch.no_grad():
        assert record_stream(second, {"input_ids": IDS}).read_by_w_o.keys() == {"0", "1"}
    second.close()
    assert model.config._attn_implementation == own
    with pytest.raises(ModelError, match="this scope is closed"):
        first.run({"input_ids": IDS})


def test_sub_models_get_their_own_implementations_back() -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "intermediate_size": 48,
    }
    model = tiny.build(
        "CLIPConfig", "CLIPModel",
        text_config={**sizes, "vocab_size": 97, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={**sizes, "image_size": 16, "patch_size": 8},
    )  # fmt: skip
    model.set_attn_implementation({"": "sdpa", "text_config": "eager", "vision_config": "sdpa"})
    opened = open_model(model)
    assert list(opened.shape.sites) == ["vision.0", "text.0"]
    opened.close()
    assert model.config.text_config._attn_implementation == "eager"
    assert model.config.vision_config._attn_implementation == "sdpa"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_observed_in_its_uncompiled_form(in_place: bool) -> None:
    model = tiny.llama()
    given: Any = model
    if in_place:
        model.compile(backend="eager")
    else:
        given = torch.compile(model, backend="eager")
    opened = open_model(given)
    assert opened.model is model
    seen: list[str] = []

    def see(site: str, call: Call) -> Tensor:
        seen.append(site)
        return plain(call)

    with torch.no_grad():
        opened.run({"input_ids": IDS}, see)
    assert seen == ["0", "1"]
    opened.close()


def test_a_model_spread_over_devices_works(tmp_path: Path) -> None:
    tiny.llama().save_pretrained(tmp_path)
    opened = open_model(tmp_path, device_map={"": "cpu"})
    with torch.no_grad():
        torch.testing.assert_close(opened.run({"input_ids": IDS}).logits, tiny.llama()(IDS).logits)
    opened.close()


def test_offloaded_layers_run_but_cannot_be_split() -> None:
    from accelerate import cpu_offload

    model = tiny.llama()
    cpu_offload(model, execution_device=torch.device("cpu"))
    model.hf_device_map = {"": "cpu"}
    opened = open_model(model)
    with torch.no_grad():
        torch.testing.assert_close(opened.run({"input_ids": IDS}).logits, tiny.llama()(IDS).logits)
    with pytest.raises(ModelError, match="0: its weights are offloaded; load the model with all layers in memory"):
        opened.output_weight("0")
    opened.close()


def test_quantised_weights_are_measured() -> None:
    """A quantised or adapted layer is a matrix of another class: its weight is its outputs for unit vectors."""

    class Quantised(torch.nn.Module):
        def __init__(self, linear: torch.nn.Linear) -> None:
            super().__init__()
            self.in_features, self.out_features = linear.in_features, linear.out_features
            self.scale = torch.nn.Parameter(linear.weight.abs().max() / 127, requires_grad=False)
            self.register_buffer("stored", (linear.weight / self.scale).round().to(torch.int8))

        def forward(self, x: Tensor) -> Tensor:
            return x @ (self.stored.to(x.dtype) * self.scale).T

    model = tiny.llama()
    attention = model.model.layers[0].self_attn
    attention.o_proj = Quantised(attention.o_proj)
    opened = open_model(model)
    expected = (attention.o_proj.stored.float() * attention.o_proj.scale).T
    torch.testing.assert_close(opened.output_weight("0").weight.reshape(32, 32), expected)
    opened.close()


@pytest.mark.filterwarnings("ignore")  # torch deprecates this way to quantise
def test_quantised_activations_run_but_cannot_be_split() -> None:
    model = torch.ao.quantization.quantize_dynamic(tiny.llama(), {torch.nn.Linear}, dtype=torch.qint8)
    opened = open_model(model)
    with torch.no_grad():
        torch.testing.assert_close(opened.run({"input_ids": IDS}).logits, model(IDS).logits)
    with pytest.raises(ModelError, match="0: its Linear quantises its input, so it is not linear"):
        opened.output_weight("0")
    opened.close()


def test_half_precision_passes_its_own_tolerance() -> None:
    opened = open_model(tiny.llama().bfloat16())
    assert "torch.bfloat16" in str(opened.self_check)
    opened.close()


def test_gradients_flow_to_where_the_caller_wants_them(llama: HuggingFaceModel) -> None:
    gates = torch.ones(4, requires_grad=True)

    def gated(site: str, call: Call) -> Tensor:
        return plain(call) * gates[None, :, None, None] if site == "1" else plain(call)

    llama.run({"input_ids": IDS}, gated).logits.sum().backward()
    assert gates.grad is not None
    assert bool(gates.grad.all())


def test_pictures_may_be_given_as_tensors() -> None:
    sizes = {key: value for key, value in tiny.SIZES.items() if "token" not in key and key != "vocab_size"}
    opened = open_model(tiny.build("ViTConfig", "ViTModel", **sizes, image_size=16, patch_size=8))
    prepared = opened.prepare(torch.randn(3, 16, 16))
    assert len(prepared.tokens) == 5
    assert opened.run(prepared.inputs).logits.shape == (1, 5, 32)
    with pytest.raises(InputError, match="cannot give this model 'sound'"):
        opened.prepare({"sound": torch.zeros(1, 2)})
    opened.close()


class _Largest(TorchDispatchMode):
    """The size of the largest tensor made inside the block, in numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.untyped_storage().size():
            self.numbers = max(self.numbers, made.untyped_storage().size() // made.element_size())
        return made


@pytest.mark.parametrize("observed", [False, True])
def test_long_texts_make_no_query_by_key_tensor(observed: bool) -> None:
    length = 4096
    opened = open_model(tiny.llama(num_hidden_layers=1, max_position_embeddings=length))

    def see(site: str, call: Call) -> Tensor:
        return observe(call.q, call.k, call.v, scores=call.scores).output

    ids = torch.randint(3, 97, (1, length))
    with torch.no_grad(), _Largest() as made:
        opened.run({"input_ids": ids}, see if observed else None)
    assert made.numbers < length * length // 4
    opened.close()


def test_an_encoder_without_a_head_predicts_nothing() -> None:
    import transformers

    import headscope
    from headscope.errors import InputError

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32
    )
    with headscope.load(transformers.BertModel(config).eval()) as scope:
        look = scope.look([3, 4, 5])
        assert scope.shape.vocabulary is None
        with pytest.raises(InputError, match="predicts no tokens"):
            look.predictions()
