"""Modules run uncompiled while they are open, and what cannot be observed is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headscope.errors import ModelError
from headscope.models.any_torch import compiled
from headscope.models.any_torch.compiled import Uncompiled, refuse_empty, refuse_script, without_fast_path


class Hooked(nn.Linear):
    """Weights that accelerate moves in when a layer runs."""

    _hf_hook = object()


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripted_modules_and_parts_are_refused() -> None:
    refuse_script(nn.Sequential(nn.Linear(2, 2)))
    scripted = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(ModelError, match="TopLevelTracedModule is TorchScript, whose operations PyTorch does not show"):
        refuse_script(scripted)
    with pytest.raises(ModelError, match="its part 1 is TorchScript"):
        refuse_script(nn.Sequential(nn.Linear(2, 2), scripted))


def test_a_module_without_numbers_is_refused_unless_something_moves_them_in() -> None:
    refuse_empty(nn.Linear(2, 2))
    refuse_empty(nn.Identity())
    refuse_empty(Hooked(2, 2, device="meta"))
    with pytest.raises(
        ModelError, match=r"Sequential has no numbers yet: 1.weight is on the meta device; load its wei"
    ):
        refuse_empty(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta")))


def test_compiled_calls_are_set_aside_and_given_back() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    def call() -> None:
        raise AssertionError("it is not called while the module is open")

    model[1]._compiled_call_impl = call
    aside = Uncompiled(model)
    assert model[1]._compiled_call_impl is None
    model(torch.ones(1, 2))
    aside.restore()
    assert model[1]._compiled_call_impl is call
    assert model[0]._compiled_call_impl is None
    model[1]._compiled_call_impl = None
    aside.restore()
    assert model[1]._compiled_call_impl is None, "what was given back once is not given back again"


def test_nothing_is_compiled_until_the_last_pass_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    stances: list[str] = []

    class Stance:
        def __init__(self, name: str) -> None:
            stances.append(name)

        def __exit__(self, *_: object) -> None:
            stances.append("ended")

    monkeypatch.setattr(torch.compiler, "set_stance", Stance)
    monkeypatch.setattr(compiled, "COMPILERS", ("torch",))
    one, other = Uncompiled(nn.Identity()), Uncompiled(nn.Identity())
    for _ in range(2):
        with one.running():
            with other.running():
                assert stances == ["force_eager"]
            assert stances == ["force_eager"]
        assert stances == ["force_eager", "ended"]
        stances.clear()
    monkeypatch.setattr(compiled, "COMPILERS", ("nothing that was imported",))
    with one.running():
        assert stances == []
    assert stances == []


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("model", "fused"),
    [
        (nn.Sequential(nn.MultiheadAttention(4, 2)), True),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4), 1, enable_nested_tensor=False), True),
        (nn.Linear(2, 2), False),
    ],
)
def test_fused_layers_are_off_inside_and_as_they_were_after(model: nn.Module, fused: bool, before: bool) -> None:
    own = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(before)
    try:
        with without_fast_path(model):
            assert torch.backends.mha.get_fastpath_enabled() is (before and not fused)
        assert torch.backends.mha.get_fastpath_enabled() is before
    finally:
        torch.backends.mha.set_fastpath_enabled(own)
