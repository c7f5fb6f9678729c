"""Loss and divergence read from states, the vocabulary in pieces, are those of the whole logits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from tests.scan.tiny import open_tiny
from torch import Tensor, nn

import headscope
from headscope.errors import ModelError
from headscope.heads.look import chunked_loss as module
from headscope.heads.look.chunked_loss import KEEP, ChunkedLoss, chunked_loss
from headscope.models.protocol import ForwardPass, Unembedding
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
    return ForwardPass(torch.zeros(len(states), 1, VOCABULARY), {}, states)


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


@torch.no_grad()
def test_an_unchanged_state_diverges_by_nothing() -> None:
    made = case(bias=True, norm=True)
    loss, divergence = ChunkedLoss(made.ending, made.logits(made.whole)[0].float(), made.ids).effects(
        passed(made.whole)
    )
    assert float(divergence) == pytest.approx(0.0, abs=1e-5)
    own = F.cross_entropy(made.logits(made.whole)[0, :-1], made.ids[0, 1:])
    assert float(loss) == pytest.approx(float(own), abs=1e-5)


def pass_of(scope: Scope, ids: list[int], residual: bool = True) -> tuple[ForwardPass, Tensor]:
    inputs = scope.model.prepare(ids).inputs
    with torch.no_grad():
        return scope.model.run(inputs, residual=residual), inputs["input_ids"]


@torch.no_grad()
def test_a_model_whose_logits_are_its_states_through_its_weights_is_read(scope: Scope, ids: list[int]) -> None:
    whole, tokens = pass_of(scope, ids)
    made = chunked_loss(scope.model, whole, tokens)
    assert made is not None
    loss, _ = made.effects(whole)
    assert float(loss) == pytest.approx(float(F.cross_entropy(whole.logits[0, :-1], tokens[0, 1:])), abs=1e-4)


def test_a_pass_that_is_read_so_makes_the_logits_of_one_place(scope: Scope, ids: list[int]) -> None:
    inputs = scope.model.prepare(ids).inputs
    with torch.no_grad():
        done = scope.model.run({**inputs, **ChunkedLoss.also}, residual=True)
    assert done.logits.shape[1] == 1
    assert done.residual is not None
    assert done.residual.shape[1] == len(ids)


def test_without_the_end_of_the_stream_there_is_nothing_to_read(scope: Scope, ids: list[int]) -> None:
    whole, tokens = pass_of(scope, ids, residual=False)
    assert chunked_loss(scope.model, whole, tokens) is None


def test_a_model_that_cannot_leave_logits_out_is_not_read() -> None:
    """Our small one takes tokens and nothing else; to ask it for fewer logits would be an error in its own words."""
    model = open_tiny()
    inputs = model.prepare("the cat sat").inputs
    with torch.no_grad():
        whole = model.run(inputs, residual=True)
        states = ChunkedLoss(model.unembedding(), whole.logits[0], inputs["input_ids"])
        assert float(states.effects(whole)[1]) == pytest.approx(0.0, abs=1e-4), "its states would do"
    assert chunked_loss(model, whole, inputs["input_ids"]) is None


def test_a_model_that_predicts_nothing_is_not_read(llama: Scope, ids: list[int]) -> None:
    with headscope.load(llama.model.model.get_submodule("model")) as inner:
        whole, tokens = pass_of(inner, ids)
        with pytest.raises(ModelError):
            inner.model.unembedding()
        assert chunked_loss(inner.model, whole, tokens) is None


@pytest.mark.parametrize(("factor", "read"), [(1.0, True), (1.02, False), (0.9, False)])
def test_a_family_that_does_more_after_its_norm_is_found_out(
    llama: Scope, ids: list[int], factor: float, read: bool
) -> None:
    """Its logits are not what the states give: an answer that would be a little wrong is not given."""
    whole, tokens = pass_of(llama, ids)
    assert KEEP == "logits_to_keep"
    assert (
        chunked_loss(llama.model, ForwardPass(whole.logits * factor, {}, whole.residual), tokens) is not None
    ) == read


def test_half_precision_is_allowed_its_own_error(llama: Scope, ids: list[int]) -> None:
    llama.model.model.to(torch.bfloat16)
    whole, tokens = pass_of(llama, ids)
    assert whole.logits.dtype == torch.bfloat16
    assert chunked_loss(llama.model, whole, tokens) is not None
    assert chunked_loss(llama.model, ForwardPass(whole.logits * 1.2, {}, whole.residual), tokens) is None
