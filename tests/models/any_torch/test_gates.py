"""Where markers are lost, W_O is found by gradients or where the user says it is."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import torch
from tests.models.any_torch.whole_modules import misleading
from torch import nn

from headscope.errors import ModelError
from headscope.models.any_torch.axes import HeadAxes
from headscope.models.any_torch.learning import LearnedSite, read_hints
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.loading import open_model


def site(name: str = "a", why: str = "", lead: tuple[int, ...] = (2, 3)) -> LearnedSite:
    return LearnedSite(name, nn.Identity(), (*lead, 4, 5), False, HeadAxes(("batch", "head"), 1), why=why)


SITES = {name: site(name) for name in ("blocks.0.attn", "blocks.1.attn", "blocks.1.attn@2", "head")}


def test_hints_that_say_something_else_or_match_nothing_are_refused() -> None:
    with pytest.raises(ModelError, match=r"sites\['\*'\] has heads, width; it may say output and n_heads"):
        read_hints({"*": {"width": 3, "heads": 2, "output": "proj"}}, SITES)
    with pytest.raises(
        ModelError, match=r"sites\['layers.*'\] matches none of the sites blocks.0.attn, blocks.1.attn, "
    ):
        read_hints({"layers.*": {"n_heads": 2}}, SITES)


def opened(module: nn.Module, **said: Any) -> Any:
    x = torch.randn(2, 7, misleading.WIDTH, generator=torch.Generator().manual_seed(1))
    model = open_model(module, inputs=x, sites={"*": said} if said else None)
    assert isinstance(model, AnyTorchModel)
    return closing(model)


class Inside(nn.Module):
    """A site that is not the whole module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = misleading.NormOfAll()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def test_a_w_o_that_is_not_there_is_refused() -> None:
    with pytest.raises(ModelError, match="layer: there is no module 'out' in it, nor in the whole"):
        opened(Inside(), output="out")
    with pytest.raises(ModelError, match=r"output='qkv', n_heads=3: not to be found in its z of shape \(2, 3, 7, 8\)"):
        opened(Inside(), output="qkv", n_heads=3)


def test_gates_of_each_head_are_found_without_a_hint_and_mixed_heads_are_not() -> None:
    with opened(misleading.Gated()) as model:
        found = model.learned["Gated"]
        assert (found.kind, found.rows, found.why, found.n_heads) == ("head-local", "batch first", "", 3)
        assert torch.equal(found.takes[0].order, torch.arange(24))
        assert found.takes[0].cells.shape == (14, 24)
    with pytest.raises(
        ModelError, match="none of its 1 attention calls can be shown: NormOfAll: no matrix takes its he"
    ):
        opened(misleading.NormOfAll())


def test_a_user_may_say_that_one_matrix_takes_fewer_heads() -> None:
    """The markers say three heads; what the user says is tried, and the check decides."""
    with pytest.raises(ModelError, match="n_heads=2: not to be found in its z of shape"):
        opened(misleading.Base(), n_heads=2)
    with opened(misleading.Base(), n_heads=3) as model:
        assert model.learned["Base"].kind == "exact"
