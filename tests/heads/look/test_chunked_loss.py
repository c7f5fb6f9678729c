"""Loss and divergence read from states, the vocabulary in pieces, are those of the whole logits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headscope.heads.look import chunked_loss as module
from headscope.heads.look.chunked_loss import ChunkedLoss, chunked_loss
from headscope.models.protocol import KEEP, ForwardPass, Unembedding
from headscope.scope import Scope

ROWS, WIDTH, VOCABULARY = 7, 12, 53


@dataclass
class Case:
    """An ending of a model, an unchanged state, and some changed ones."""

    ending: Unembedding
    whole: Tensor
    changed: Tensor
    ids: Tensor

    def logits(self, states: Tensor) -> Tensor:
        x = states if self.ending.norm is None else self.ending.norm(states)
        logits = x.double() @ self.ending.weight.double().T
        return logits if self.ending.bias is None else logits + self.ending.bias.double()


def case(bias: bool, norm: bool, loud: float = 1.0, copies: int = 3) -> Case:
    torch.manual_seed(0)
    weight = torch.randn(VOCABULARY, WIDTH)
    end = nn.LayerNorm(WIDTH) if norm else None
    ending = Unembedding(norm=end, weight=weight, bias=torch.randn(VOCABULARY) if bias else None)
    whole = loud * torch.randn(1, ROWS, WIDTH)
    changed = whole + 0.3 * loud * torch.randn(copies, ROWS, WIDTH)
    return Case(ending, whole, changed, torch.randint(VOCABULARY, (1, ROWS)))


def dense(made: Case) -> tuple[list[float], list[float]]:
    """The definitions, on all logits at once, in float64."""
    before = made.logits(made.whole)[0].log_softmax(-1)
    losses, divergences = [], []
    for logits in made.logits(made.changed):
        losses.append(float(F.cross_entropy(logits[:-1], made.ids[0, 1:])))
        divergences.append(float(F.kl_div(logits.log_softmax(-1), before, log_target=True, reduction="batchmean")))
    return losses, divergences


def passed(states: Tensor) -> ForwardPass:
    """A pass of which only the states are read."""
    return ForwardPass(torch.zeros(len(states), 1, VOCABULARY), states)


@pytest.mark.parametrize("piece", [1, 10, 53, 4096])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@torch.no_grad()
def test_every_size_of_piece_says_what_the_whole_logits_say(
    monkeypatch: pytest.MonkeyPatch, piece: int, bias: bool, norm: bool
) -> None:
    monkeypatch.setattr(module, "CHUNK", piece)
    made = case(bias, norm)
    reader = ChunkedLoss(made.ending, made.logits(made.whole)[0].float(), made.ids)
    loss, divergence = reader.effects(passed(made.changed))
    expected = dense(made)
    assert loss.tolist() == pytest.approx(expected[0], abs=1e-5)
    assert divergence.tolist() == pytest.approx(expected[1], abs=1e-5)


@torch.no_grad()
def test_logits_of_thousands_are_summed_without_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(1000) is no float32: each piece is taken relative to the largest logit so far, wherever that stands."""
    monkeypatch.setattr(module, "CHUNK", 8)
    made = case(bias=True, norm=False, loud=400.0)
    assert float(made.logits(made.whole).abs().max()) > 1000
    loss, divergence = ChunkedLoss(made.ending, made.logits(made.whole)[0].float(), made.ids).effects(
        passed(made.changed)
    )
    expected = dense(made)
    assert loss.tolist() == pytest.approx(expected[0], rel=1e-5)
    assert divergence.tolist() == pytest.approx(expected[1], rel=1e-4)


def pass_of(scope: Scope, ids: list[int], residual: bool = True) -> tuple[ForwardPass, Tensor]:
    inputs = scope.model.prepare(ids).inputs
    with torch.no_grad():
        return scope.model.run(inputs, residual=residual), inputs["input_ids"]


@pytest.mark.parametrize(("factor", "read"), [(1.0, True), (1.02, False), (0.9, False)])
def test_a_family_that_does_more_after_its_norm_is_found_out(
    llama: Scope, ids: list[int], factor: float, read: bool
) -> None:
    """Its logits are not what the states give: an answer that would be a little wrong is not given."""
    whole, tokens = pass_of(llama, ids)
    assert KEEP == "logits_to_keep"
    assert (chunked_loss(llama.model, ForwardPass(whole.logits * factor, whole.residual), tokens) is not None) == read
