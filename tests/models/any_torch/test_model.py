"""What an opened module offers and refuses, and how it is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.models.any_torch.whole_modules import misleading
from tests.models.any_torch.whole_modules.misleading import WIDTH, Base
from torch import Tensor, nn
from torch.testing import assert_close

from headscope.attention.observer import Call, plain
from headscope.errors import HeadNameError, InputError, ModelError
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.loading import open_model
from headscope.models.structure.recorder import record_stream


def states(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed))


def opened(module: nn.Module, given: Any = None, **more: Any) -> Any:
    model = open_model(module, inputs=states(2, 7) if given is None else given, **more)
    assert isinstance(model, AnyTorchModel)
    return closing(model)


class OneAtATime(Base):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            raise TypeError("one item at a time")
        return super().forward(x)


class Centred(Base):
    """An item's output depends on the others."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + len(x)


class OnlyFirst(Base):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:1]


class Flat(Base):
    """Returns its rows without a batch axis."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).flatten(0, 1)


@pytest.mark.parametrize(
    ("make", "batch", "probed"),
    [(Base, 1, 2), (Base, 2, 2), (Base, 3, 3), (OneAtATime, 1, 1), (Centred, 1, 1), (OnlyFirst, 1, 1), (Flat, 1, 1)],
)
def test_one_item_is_probed_as_two_if_the_module_takes_two_equally(
    make: Callable[[], nn.Module], batch: int, probed: int
) -> None:
    with opened(make(), states(batch, 7)) as model:
        assert model.probe["x"].shape == (probed, 7, WIDTH)
        assert torch.equal(model.probe["x"][:batch], states(batch, 7))


def test_sites_that_are_not_there_are_refused() -> None:
    with opened(Base()) as model:
        with pytest.raises(HeadNameError, match="other: this model has the sites Base"):
            model.output_weight("other")
        for get in (model.query_weight, model.key_weight, model.value_weight):
            with pytest.raises(HeadNameError, match="other: this model has the sites Base"):
                get("other")


def test_w_o_is_split_by_head_and_is_that_of_the_module() -> None:
    module = Base()
    with opened(module) as model:
        found = model.output_weight("Base")
        assert (found.kind, tuple(found.weight.shape)) == ("exact", (misleading.HEADS, misleading.D, WIDTH))
        assert_close(found.weight.flatten(0, 1), module.proj.weight.T)
        assert found.bias is module.proj.bias
        assert model.output_matrix("Base") is module.proj
        assert model.site_modules() == {"Base": module}


def test_heads_in_another_order_have_their_own_rows_of_w_o() -> None:
    module = misleading.NumbersBeforeHeads()
    with opened(module) as model:
        rows = module.proj.weight.T.view(misleading.D, misleading.HEADS, WIDTH).transpose(0, 1)
        assert_close(model.output_weight("NumbersBeforeHeads").weight, rows)


class ByParameter(Base):
    """W_O without a module of its own, and without a bias."""

    def make(self) -> None:
        self.w_o = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + F.linear(self.merge(self.weights(self.scores(q, k)) @ v), self.w_o)


def test_a_w_o_that_is_not_a_module_is_applied_and_not_handed_out() -> None:
    module = ByParameter()
    with opened(module) as model, torch.no_grad():
        with pytest.raises(ModelError, match="ByParameter: its W_O is not a separate module"):
            model.output_matrix("ByParameter")
        kept: dict[str, Tensor] = {}

        def keep(site: str, call: Call) -> Tensor:
            kept[site] = plain(call)
            return kept[site]

        x = states(2, 5, seed=3)
        read = record_stream(model, {"x": x}, keep).read_by_w_o["ByParameter"]
        assert_close(read, kept["ByParameter"].transpose(1, 2))
        assert_close(x + model.apply_output_weight("ByParameter", read), module(x))


def test_a_gated_w_o_is_recorded_where_it_is_called() -> None:
    module = misleading.Gated()
    with opened(module) as model, torch.no_grad():
        x = states(2, 5, seed=3)
        read = record_stream(model, {"x": x}).read_by_w_o["Gated"]
        assert_close(x + model.apply_output_weight("Gated", read), module(x))
        found = model.output_weight("Gated")
        assert found.kind == "head-local"
        assert found.why
        assert_close(x + torch.einsum("bqhd,hdm->bqm", read, found.weight) + found.bias, module(x))


def test_a_site_with_several_matrices_has_no_w_o() -> None:
    said = "its positions go through 2 output matrices, so W_O is not one matrix"
    with opened(misleading.TwoMatrices()) as model, pytest.raises(ModelError, match=said):
        model.output_weight("TwoMatrices")


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.good, self.bad = Base(), misleading.QueryAdded()

    def forward(self, x: Tensor) -> Tensor:
        return self.bad(self.good(x))


def test_a_site_that_is_not_observed_is_refused_with_the_reason() -> None:
    with opened(Two()) as model:
        with pytest.raises(ModelError, match="bad: not a site that is observed: no matrix takes its heads as they are"):
            model.learned_site("bad")
        with pytest.raises(ModelError, match="other: not a site that is observed: there are good"):
            model.learned_site("other")
        assert model.learned_site("good@2") is model.learned_site("good"), "a call that no pass had before"
        seen: list[str] = []
        model.run(model.probe, lambda site, call: seen.append(site) or plain(call))
        assert seen == ["good"]


def test_a_module_that_no_edit_moves_is_refused() -> None:
    module = Base()
    nn.init.zeros_(module.proj.weight)
    with pytest.raises(
        ModelError, match=r"fails its self-check and is not opened: an edit moves the output: by 0.0e\+00"
    ):
        opened(module)
    assert not module._forward_hooks, "it is left as it was"


def test_a_module_without_attention_is_refused() -> None:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH)).train()
    with pytest.raises(ModelError, match="Sequential: no attention was found: it calls neither PyTorch's attention"):
        opened(module)
    assert module.training
    assert not module._forward_hooks


def test_what_passes_check_is_listed() -> None:
    with opened(Base()) as model:
        assert [check.what for check in model.self_check.checks] == [
            "sites observed",
            "outputs equal the module's own",
            "head parts + bias = W_O's output",
            "statistics equal those of the dense pattern",
            "one head off = its rows of W_O at zero",
            "an edit moves the output",
        ]
        assert model.self_check.checks[0].detail == "1 of 1"
        assert model.self_check.passed


class WithPicture(nn.Module):
    """A second site that only a second input reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.vision = Base(), Base()

    def forward(self, x: Tensor, pixels: Tensor | None = None) -> Tensor:
        return self.text(x if pixels is None else x + self.vision(pixels))


def test_sites_that_only_further_inputs_reach_are_learned_then() -> None:
    module = WithPicture()
    with opened(module, {"x": states(2, 7)}) as model:
        assert list(model.learned) == ["text"]
        arguments, probe = model.arguments, model.probe
        model.find_new_sites({"x": states(2, 7)})
        assert list(model.learned) == ["text"]
        both = {"x": states(2, 7), "pixels": states(2, 7, seed=4)}
        model.find_new_sites(both)
        assert sorted(model.learned) == ["text", "vision"]
        assert model.arguments is arguments
        assert model.probe is probe
        seen: list[str] = []
        with torch.no_grad():
            ours = model.run(both, lambda site, call: seen.append(site) or plain(call)).logits
        assert_close(ours, module(**both).detach())
        assert seen == ["vision", "text"]
        assert any("vision" in note for note in model.notes), "in eager code"
        model.find_new_sites(both)
        with pytest.raises(InputError, match=r"this model does not run on x \(1, 2\), other \(3,\): "):
            model.find_new_sites({"x": torch.ones(1, 2), "other": torch.ones(3)})
        assert sorted(model.learned) == ["text", "vision"]


def test_an_output_that_is_not_a_number_is_refused_by_its_site() -> None:
    with (
        opened(Base()) as model,
        pytest.raises(ModelError, match="the attention output of site Base is NaN for this in"),
    ):
        model.run(model.probe, lambda site, call: plain(call) * float("nan"))


def test_each_call_of_a_gated_module_has_its_own_output() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = misleading.Gated()

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x))

    with opened(Twice()) as model, torch.no_grad():
        made: list[Tensor] = []
        model.model.layer.proj.register_forward_hook(lambda module, args, output: made.append(output))
        read = record_stream(model, model.probe).read_by_w_o
        assert_close([model.apply_output_weight(site, read[site]) for site in ("layer", "layer@2")], made)


def test_errors_of_the_module_name_its_inputs_and_ours_do_not() -> None:
    with opened(Base()) as model:
        said = r"this model does not run on x \(2, 7, 24\): ValueError: odd"
        with pytest.raises(InputError, match=said), model.explained_errors(model.probe):
            raise ValueError("odd")
        with pytest.raises(ModelError, match=r"^ours"), model.explained_errors(model.probe):
            raise ModelError("ours")
