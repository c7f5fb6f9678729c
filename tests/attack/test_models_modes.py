"""Offloaded and quantised models, autocast and inference mode: everything works, or is refused in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate import cpu_offload, disk_offload

import headscope
from headscope.errors import HeadscopeError, ModelError
from headscope.heads.look.look import Look
from headscope.heads.questions.label_rules import token_class
from headscope.models.weight_hash import weight_hash
from headscope.scan.options import ScanOptions
from headscope.scope import Scope
from tests.scan.tiny import Bytes

OFFLOADED = "weights are offloaded; load the model with all layers in memory"
QUANTISED = "quantises its input, so it is not linear|whose weights are quantised"


def llama() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=260, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


TASKS: dict[str, Callable[[Scope], object]] = {
    "look": lambda scope: scope.look("hello you").pattern("1.1"),
    "attribution": lambda scope: scope.look("hello you").logit_attribution(5),
    "circuit": lambda scope: scope.qk("1.1"),
    "scan": lambda scope: scope.scan(["hello you there"], options=ScanOptions(context=16, threads=1)),
    "gradient": lambda scope: scope.importance(["hello you"], how="gradient"),
    "exact": lambda scope: scope.importance(["hello you"], how="exact"),
    "prune": lambda scope: scope.prune(heads=["0.1"]),
    "generate": lambda scope: scope.generate("hello", 2),
}
WITHOUT_WEIGHTS = {"look", "scan", "gradient", "exact", "generate"}
TEXTS = ["hello you there, ", "there you are, there ", "you, hello there, you "]
NUMBERS: dict[str, Callable[[Scope, Look], object]] = {
    "ask": lambda scope, look: look.ask(token_class("letters", "[a-z]")),
    "answers": lambda scope, look: look.mean_answers("1"),
    "contributions": lambda scope, look: look.contributions(-1).sites["1"].parts,
    "residual": lambda scope, look: look.recorded.value("resid_mid 1"),
    "mlp": lambda scope, look: look.recorded.value("mlp_out 1"),
    "why": lambda scope, look: look.why("1.1", 4),
    "why of a row": lambda scope, look: look.why_row("1.1", 4),
    "trace": lambda scope, look: look.trace(5),
    "matrix": lambda scope, look: scope.qk("1.1").then(scope.ov("0.1")).norm(),
    "composition": lambda scope, look: scope.composition("0.1", "1.1", "k"),
    "compositions": lambda scope, look: scope.compositions("k").strongest(),
    "generate": lambda scope, look: scope.generate("hello", 2).steps[-1],
    "scan": lambda scope, look: scope.scan(["hello you there"], options=ScanOptions(context=16, threads=1)).rows,
    "gradient": lambda scope, look: scope.importance(["hello you"], how="gradient"),
}


def what_happens(scope: Scope, mode: AbstractContextManager[object]) -> dict[str, str]:
    """What each task says; nothing where it works. Other errors than ours are raised."""
    said = {}
    for name, task in TASKS.items():
        try:
            with mode:
                task(scope)
        except HeadscopeError as error:
            said[name] = str(error)
    return said


@pytest.mark.parametrize("to_disk", [False, True])
def test_offloaded_models_do_what_needs_no_weights_and_refuse_the_rest(tmp_path: Path, to_disk: bool) -> None:
    model = disk_offload(llama(), tmp_path, "cpu") if to_disk else cpu_offload(llama(), "cpu")
    with headscope.load(model, tokenizer=Bytes()) as scope:
        said = what_happens(scope, nullcontext())
        assert said.keys() == TASKS.keys() - WITHOUT_WEIGHTS
        assert all(OFFLOADED in sentence for sentence in said.values())
    assert weight_hash(model) == weight_hash(llama()), "the same weights, wherever they are"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamically_quantised_models_do_what_needs_no_weights_and_refuse_the_rest() -> None:
    model = torch.ao.quantization.quantize_dynamic(llama(), {torch.nn.Linear}, dtype=torch.qint8)
    with headscope.load(model, tokenizer=Bytes()) as scope:
        said = what_happens(scope, nullcontext())
        assert said.keys() == TASKS.keys() - WITHOUT_WEIGHTS | {"gradient"}
        assert re.search(r'no gradient reaches the heads of 0, 1 \(2 of 2 sites\).*how="exact"', said.pop("gradient"))
        for sentence in said.values():
            assert any(part in sentence for part in QUANTISED.split("|"))
    other = llama()
    with torch.no_grad():
        other.model.layers[0].mlp.up_proj.weight.mul_(1.5)
    changed = torch.ao.quantization.quantize_dynamic(other, {torch.nn.Linear}, dtype=torch.qint8)
    assert weight_hash(model) != weight_hash(changed)


class Packed(torch.Tensor):
    """A weight that can be multiplied with and nothing else, as a quantised one of torchao."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("aminmax", "__get__") and _asks_for(func):
            raise NotImplementedError("Packed: no such operator")
        made = super().__torch_function__(func, types, args, kwargs or {})
        return made.as_subclass(torch.Tensor) if func is torch.nn.functional.linear else made


def _asks_for(func: Any) -> bool:
    return func.__name__ == "aminmax" or getattr(func, "__self__", None) is torch.Tensor.T


def test_weights_of_a_quantised_subclass_are_measured_by_multiplying() -> None:
    model = llama()
    plain = {name: module.weight.detach().clone() for name, module in model.named_modules() if name.endswith("o_proj")}
    for name in plain:
        module = model.get_submodule(name)
        module.weight = torch.nn.Parameter(module.weight.detach().as_subclass(Packed), requires_grad=False)
    with headscope.load(model, tokenizer=Bytes()) as scope:
        measured = scope.model.output_weight("1").weight.flatten(0, 1)
        torch.testing.assert_close(measured.as_subclass(torch.Tensor), plain["model.layers.1.self_attn.o_proj"].T)
        with pytest.raises(ModelError, match="is a Packed; only plain matrices, not quantised ones, can lose heads"):
            scope.prune(heads=["0.1"])


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    with headscope.load(llama(), tokenizer=Bytes()) as scope:
        yield scope


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_the_modes_of_pytorch_change_nothing(scope: Scope, mode: Callable[[], AbstractContextManager[object]]) -> None:
    assert what_happens(scope, mode()) == {}
    with mode():
        look = scope.look("hello you")
        pattern, attribution = look.pattern("1.1"), look.logit_attribution(5)
    assert torch.equal(pattern, scope.look("hello you").pattern("1.1"))
    assert pattern.dtype == torch.float32
    assert str(attribution) == str(scope.look("hello you").logit_attribution(5))


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
@pytest.mark.parametrize("name", NUMBERS)
def test_the_modes_of_pytorch_change_no_number(
    scope: Scope, mode: Callable[[], AbstractContextManager[object]], name: str
) -> None:
    plain = NUMBERS[name](scope, scope.look("hello you"))
    with mode():
        inside = NUMBERS[name](scope, scope.look("hello you"))
    assert repr(inside) == repr(plain)


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_a_model_opens_inside_the_modes_of_pytorch(mode: Callable[[], AbstractContextManager[object]]) -> None:
    model = llama()
    with mode(), headscope.load(model, tokenizer=Bytes()) as scope:
        scope.look("hello you")
        scope.importance(["hello you"], how="gradient")


def test_a_model_made_in_inference_mode_is_refused_at_load() -> None:
    with torch.inference_mode():
        model = llama()
    with pytest.raises(ModelError, match=r"was made inside torch\.inference_mode \(model\.embed_tokens\.weight"):
        headscope.load(model)
