"""A wrong layout is never shown: each module made to mislead is refused, marked in the notes, or shown as it is."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.models.any_torch.whole_modules import misleading
from tests.models.any_torch.whole_modules.misleading import MISLEADING, WIDTH, Base
from torch import Tensor

import headscope
from headscope.attention import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.selfcheck import relative_difference

REFUSED = {
    "AlwaysDropping", "AlwaysDroppingSdpa", "Convolved", "DifferenceOfTwo", "Halved", "Hard", "InPlace", "Linear",
    "MaskedAfter", "MeanOfHeads", "MeanOfQueries", "NoMatrix", "NormByHead", "NormOfAll", "OverChannels", "OverHeads",
    "OverQueries", "Pooling", "QueryAdded", "ReshapedHeads", "Rounded", "Routing", "Sigmoid", "SinkCutOff",
    "TalkingAfter", "TalkingAverage", "UsedTwice", "ValueAdded",
}  # fmt: skip
MARKED = {
    "Doubled": "head-local", "Gated": "head-local", "GatedByHead": "head-local", "Hardswish": "head-local",
    "HeadByHead": "share a W_O", "MatrixByHead": "head-local", "Negated": "head-local",
    "OneMatrixForEachHead": "several patterns", "OverBatch": "items attend to each other", "Rectified": "head-local",
    "TwoMatrices": "several output matrices", "TwoProducts": "share a W_O",
}  # fmt: skip


def _inputs() -> Tensor:
    return torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(1))


def test_there_are_fifty() -> None:
    assert len(MISLEADING) >= 50


@pytest.mark.parametrize("name", MISLEADING)
def test_nothing_is_silently_wrong(name: str) -> None:
    torch.manual_seed(0)
    model, kind = MISLEADING[name]().eval(), name.split(" ")[0]
    if kind in REFUSED or name == "Gated by bmm":
        with pytest.raises(ModelError, match=r"no attention was found|none of its . attention calls can be shown"):
            headscope.load(model, inputs=_inputs())
        return
    with headscope.load(model, inputs=_inputs()) as scope:
        assert isinstance(scope.model, AnyTorchModel)
        if kind in MARKED:
            assert any(MARKED[kind] in note for note in scope.notes)
            return
        _patterns_are_true(model, scope.model, kind)
        _ablation_is_true(model, scope.model, kind)


def _patterns_are_true(model: Base, opened: AnyTorchModel, site: str) -> None:
    seen: dict[str, Tensor] = {}

    def keep(name: str, call: Call) -> Tensor:
        seen[name] = observe(call.q, call.k, call.v, scores=call.scores).weights()
        return plain(call)

    with torch.no_grad():
        opened.run({"x": _inputs()}, keep)
        own = model.pattern(_inputs())
    assert own is not None
    torch.testing.assert_close(seen[site], own, rtol=1e-4, atol=1e-5)


def _ablation_is_true(model: Base, opened: AnyTorchModel, site: str) -> None:
    """Each head off in a copy of the module, by a zero in its z just where the module has made it."""
    for head in range(misleading.HEADS):
        by_hand = copy.deepcopy(model)
        form = by_hand.form

        def without(w: Tensor, v: Tensor, form: misleading.Form = form, head: int = head) -> Tensor:
            z = form(w, v).clone()
            z[:, head] = 0.0
            return z

        by_hand.form = without

        def ablate(_: str, call: Call, head: int = head) -> Tensor:
            z = plain(call).clone()
            z[:, head] = 0.0
            return z

        with torch.no_grad():
            ours, theirs = opened.run({"x": _inputs()}, ablate).logits, by_hand(_inputs())
        if kind_forms(site):
            assert relative_difference(ours, theirs) < 1e-5


def kind_forms(site: str) -> bool:
    """Whether a module makes its z by the product that can be exchanged."""
    return site != "SharedValues"


def test_a_site_that_fails_is_left_out_and_named() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.good, self.bad = misleading.Base(), misleading.QueryAdded()

        def forward(self, x: Tensor) -> Tensor:
            return self.bad(self.good(x))

    with headscope.load(Two(), inputs=_inputs()) as scope:
        assert list(scope.shape.sites) == ["good"]
        assert any(note.startswith("not observed: bad: no matrix takes its heads") for note in scope.notes)


def test_the_user_says_where_the_heads_are_and_the_check_decides() -> None:
    model = misleading.NormOfAll()
    said = {"*": {"output": "proj", "n_heads": misleading.HEADS}}
    with headscope.load(model, inputs=_inputs(), sites=said) as scope:
        assert scope.shape.sites["NormOfAll"].n_heads == misleading.HEADS
        assert any("are mixed" in note for note in scope.notes)
        parts = scope.look(_inputs()[:1]).contributions(3).sites["NormOfAll"]
        assert parts.error < 1e-5
    with headscope.load(misleading.Gated(misleading.by_bmm), inputs=_inputs(), sites=said) as scope:
        assert any("head-local" in note for note in scope.notes)
    with pytest.raises(ModelError, match="n_heads=5: not to be found in its z"):
        headscope.load(misleading.NormOfAll(), inputs=_inputs(), sites={"*": {"n_heads": 5}})
    with pytest.raises(ModelError, match=r"sites\['blocks.*'\] matches none of the sites NormOfAll"):
        headscope.load(misleading.NormOfAll(), inputs=_inputs(), sites={"blocks.*": {"n_heads": 3}})
