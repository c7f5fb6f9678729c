"""Modules that draw, write or change while they run, or attend without a softmax: put back, refused or named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.models import tiny
from tests.models.any_torch.whole_modules.misleading import WIDTH, Base
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import headscope
from headscope.errors import ModelError

X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(1))
LONGER = torch.randn(1, 12, WIDTH, generator=torch.Generator().manual_seed(2))


class Unsteady(nn.Module):
    """Attention whose pattern is made by any function of its scores, before attention as it should be."""

    def __init__(self, weights: Callable[[Unsteady, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = Base(), Base()
        self.first.weights = lambda scores: weights(self, scores)  # type: ignore[method-assign]
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]


def axis(_: Unsteady, scores: Tensor) -> Tensor:
    return scores.softmax(-1 if scores.shape[-1] < 8 else -2)


def drawn(_: Unsteady, scores: Tensor) -> Tensor:
    return (scores + torch.randn_like(scores)).softmax(-1)


def counted(module: Unsteady, scores: Tensor) -> Tensor:
    module.calls.add_(1)
    return (scores * module.calls).softmax(-1)


def replaced(module: Unsteady, scores: Tensor) -> Tensor:
    module.calls = module.calls + 1
    return (scores * module.calls).softmax(-1)


def test_a_softmax_over_another_axis_at_another_length_is_refused() -> None:
    with headscope.load(Unsteady(axis), inputs=X) as scope:
        scope.look(X[:1])
        with pytest.raises(ModelError, match="first: its weights are not a softmax over the keys"):
            scope.look(LONGER)


def test_a_module_that_computes_otherwise_when_it_is_observed_is_refused() -> None:
    class Watched(Unsteady):
        def forward(self, x: Tensor) -> Tensor:
            observed = torch._C._len_torch_function_stack() > 0 and x.shape[1] > 8
            return super().forward(x) * (1.01 if observed else 1.0)

    with headscope.load(Watched(lambda _, scores: scores.softmax(-1)), inputs=X) as scope:
        scope.look(X[:1])
        with pytest.raises(ModelError, match=r"the output of the observed pass is not the module's own \(difference 1"):
            scope.look(LONGER)


def test_a_module_that_draws_at_random_is_marked() -> None:
    with headscope.load(Unsteady(drawn), inputs=X) as scope:
        assert any("drawn at random" in note for note in scope.notes)


@pytest.mark.parametrize("weights", [counted, replaced])
def test_buffers_that_a_pass_writes_stay_as_they_were(weights: Any) -> None:
    module = Unsteady(weights)
    with headscope.load(module, inputs=X) as scope:
        looks = [scope.look(LONGER).logits for _ in range(2)]
        assert float(module.calls) == 0
        with torch.no_grad():
            own = module(LONGER)
    assert torch.equal(looks[0], looks[1])
    torch.testing.assert_close(looks[0], own[0])
    assert float(module.calls) == 1, "the module's own pass writes them"


def test_inputs_that_a_module_writes_to_stay_as_they_were() -> None:
    class Doubling(Base):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.mul_(2))

    given, longer = X.clone(), LONGER.clone()
    module = Doubling()
    with headscope.load(module, inputs=given) as scope:
        look = scope.look(longer)
        assert torch.equal(given, X)
        assert torch.equal(longer, LONGER)
        with torch.no_grad():
            torch.testing.assert_close(look.logits, module(longer)[0])


@pytest.mark.parametrize(
    "weights",
    [
        lambda _, scores: scores.sigmoid(),
        lambda _, scores: scores.exp() / scores.exp().sum(-1, keepdim=True),
        lambda _, scores: scores.log_softmax(-1).exp(),
    ],
    ids=["sigmoid", "exp and sum", "exp of log_softmax"],
)
def test_attention_without_a_softmax_next_to_another_site_is_named(weights: Any) -> None:
    with headscope.load(Unsteady(weights), inputs=X) as scope:
        assert list(scope.shape.sites) == ["second"]
        assert [note for note in scope.notes if note.startswith("not observed: first: the product of two")]


def test_checkpointed_layers_are_refused_or_measured_exactly() -> None:
    class Checkpointed(Base):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)  # type: ignore[no-any-return]

    with pytest.raises(ModelError, match=r"Checkpointed: torch.utils.checkpoint computes its layers again"):
        headscope.load(Checkpointed(), inputs=X)
    model = tiny.llama()
    for layer in model.model.layers:
        own = layer.forward
        layer.forward = lambda *given, own=own, **named: checkpoint(own, *given, use_reentrant=False, **named)
    with headscope.load(model) as scope:
        assert len(scope.importance([[1, 2, 3, 4]])) == scope.shape.n_heads
        with pytest.raises(ModelError, match=r'checkpointed; use importance.*how="exact"'):
            scope.importance([[1, 2, 3, 4]], how="gradient")
