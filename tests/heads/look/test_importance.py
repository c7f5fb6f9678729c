"""Importance is what ablating does; sharing layers and batching heads change the time, not the numbers."""

import pytest
import torch
import torch.nn.functional as F
import transformers

import headscope
from headscope import ablate
from headscope.heads.look import chunked_loss as chunked_loss_module
from headscope.heads.look import importance as importance_module
from headscope.heads.look.importance import importance
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


def test_one_text_has_no_interval(llama: Scope, ids: list[int]) -> None:
    for entry in importance(llama.model, [ids]):
        assert (entry.loss.low, entry.loss.high, entry.kl.low) == (None, None, None)


def test_the_vocabulary_in_pieces_says_what_whole_logits_say(
    scope: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_loss_module, "CHUNK", 10)
    in_pieces = {entry.head: entry for entry in scope.importance([ids])}
    monkeypatch.setattr(importance_module, "chunked_loss", lambda *_: None)
    for entry in scope.importance([ids]):
        assert in_pieces[entry.head].loss.mean == pytest.approx(entry.loss.mean, abs=2e-5)
        assert in_pieces[entry.head].kl.mean == pytest.approx(entry.kl.mean, abs=2e-5)


@pytest.mark.parametrize("size", [1.0, 0.02])
def test_a_family_that_caps_its_logits_is_read_from_them(ids: list[int], size: float) -> None:
    config = transformers.Gemma2Config(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, final_logit_softcapping=3.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Gemma2ForCausalLM(config).eval()
    torch.nn.init.normal_(model.lm_head.weight, std=size)
    with headscope.load(model) as scope:
        inputs = scope.model.prepare(ids).inputs
        with torch.no_grad():
            whole = scope.model.run(inputs, residual=True)
        assert chunked_loss_module.chunked_loss(scope.model, whole, inputs["input_ids"]) is None
        base = float(torch.nn.functional.cross_entropy(whole.logits[0, :-1], inputs["input_ids"][0, 1:]))
        with scope.edit(headscope.ablate("1.2")):
            changed = scope.look(ids).logits
        expected = float(torch.nn.functional.cross_entropy(changed[:-1], inputs["input_ids"][0, 1:])) - base
        found = {str(entry.head): entry.loss.mean for entry in scope.importance([ids])}
        assert found["1.2"] == pytest.approx(expected, abs=2e-6)
