"""Importance is what ablating does; sharing layers and batching heads change the time, not the numbers."""

import pytest
import torch
import torch.nn.functional as F

from headscope import ablate
from headscope.errors import InputError
from headscope.heads.importance import importance
from headscope.scope import Scope


def one_by_one(scope: Scope, ids: list[int]) -> dict[str, tuple[float, float]]:
    """Every head ablated in a pass of its own."""
    whole = scope.look(ids).logits
    target = torch.tensor(ids[1:])
    base = F.cross_entropy(whole[:-1], target)
    found = {}
    for head in scope.shape.heads():
        with scope.edit(ablate(head)):
            logits = scope.look(ids).logits
        kl = F.kl_div(logits.log_softmax(-1), whole.log_softmax(-1), log_target=True, reduction="batchmean")
        found[str(head)] = (float(F.cross_entropy(logits[:-1], target) - base), float(kl))
    return found


def test_exact_importance_is_ablating_each_head_in_turn(scope: Scope, ids: list[int]) -> None:
    expected = one_by_one(scope, ids)
    for entry in importance(scope.model, [ids]):
        loss, kl = expected[str(entry.head)]
        assert entry.kl is not None
        assert entry.loss.mean == pytest.approx(loss, abs=2e-4)
        assert entry.kl.mean == pytest.approx(kl, abs=2e-4)


def test_the_gradient_is_the_slope_towards_ablation(scope: Scope, ids: list[int]) -> None:
    from headscope import scale

    target = torch.tensor(ids[1:])
    slopes = {str(entry.head): entry.loss.mean for entry in importance(scope.model, [ids], how="gradient")}
    step = 1e-2
    for name in ("0.1", "1.2"):
        with scope.edit(scale(name, 1 + step)):
            up = F.cross_entropy(scope.look(ids).logits[:-1], target)
        with scope.edit(scale(name, 1 - step)):
            down = F.cross_entropy(scope.look(ids).logits[:-1], target)
        assert slopes[name] == pytest.approx(-float((up - down) / (2 * step)), abs=5e-3)


def test_several_texts_give_an_interval_around_their_mean(llama: Scope, ids: list[int]) -> None:
    for entry in importance(llama.model, [ids, ids[3:], ids[7:]]):
        assert entry.loss.low <= entry.loss.mean <= entry.loss.high


def test_no_text_and_one_token_are_refused(llama: Scope) -> None:
    with pytest.raises(InputError, match="give at least one"):
        importance(llama.model, [])
    with pytest.raises(InputError, match="one token long"):
        importance(llama.model, [[5]])
