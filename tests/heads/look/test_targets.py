"""Importance by a target of one's own, and classes under edits: equal to W_O's rows at zero in a copy."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.models import tiny
from tests.models.media import of_size, picture
from torch import nn

import headscope
from headscope.errors import InputError


def without(model: nn.Module, layer: int, head: int) -> nn.Module:
    """A copy of a ViT whose head's columns of W_O are zero."""
    made = copy.deepcopy(model)
    matrices = [m for n, m in made.named_modules() if f".{layer}.attention" in n and isinstance(m, nn.Linear)]
    with torch.no_grad():
        matrices[-1].weight[:, head * 8 : (head + 1) * 8] = 0.0
    return made


def test_classes_follow_an_ablated_head() -> None:
    model, processor = tiny.vit_classifier(), of_size(32)
    pixels = processor(picture(), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        own, cut = (each(pixels).logits[0].softmax(-1) for each in (model, without(model, 1, 2)))
    assert float((own - cut).abs().max()) > 1e-3
    with headscope.load(model, processor) as scope:
        found = scope.look(picture()).classes()
        assert found[0].name == model.config.id2label[int(own.argmax())]
        assert sum(each.probability for each in found) == pytest.approx(1.0, abs=1e-5)
        with scope.edit(headscope.ablate("1.2")):
            edited = {each.name: each.probability for each in scope.look(picture()).classes()}
    for at, name in model.config.id2label.items():
        assert edited[name] == pytest.approx(float(cut[at]), abs=1e-5)


def test_importance_is_the_change_of_a_target() -> None:
    model, processor = tiny.vit_classifier(), of_size(32)
    pixels = processor(picture(), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        change = float((without(model, 1, 2)(pixels).logits - model(pixels).logits)[0, 3])
    with headscope.load(model, processor) as scope:
        exact = scope.importance([picture()], target=lambda output: output[..., 3])
        slopes = scope.importance([picture()], how="gradient", target=lambda output: output[..., 3])
    by_head = {str(each.head): each.loss.mean for each in exact}
    assert len(exact) == len(slopes) == 8
    assert by_head["1.2"] == pytest.approx(change, abs=1e-5)
    assert [abs(each.loss.mean) for each in exact] == sorted((abs(v) for v in by_head.values()), reverse=True)
    assert exact[0].kl is None


def test_a_module_of_another_library_has_targets_too() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1).eval()
    x = torch.randn(1, 9, 32)
    other = copy.deepcopy(encoder)
    with torch.no_grad():
        other.layers[0].self_attn.out_proj.weight[:, 8:16] = 0.0
        change = float(other(x).norm() - encoder(x).norm())
    with headscope.load(encoder, inputs=x) as scope:
        found = {each.head.head: each.loss.mean for each in scope.importance([x], target=lambda output: output.norm())}
        with pytest.raises(InputError, match=r"target= gave \(1, 9\) for an output of the shape \(1, 9, 32\)"):
            scope.importance([x], target=lambda output: output.sum(-1))
        with pytest.raises(InputError, match=r"predicts no tokens.*; say what is to be measured, as in target="):
            scope.importance([x])
        with pytest.raises(InputError, match=r"does not choose one class: its output is \(9, 32\)"):
            scope.look(x).classes()
    assert found[1] == pytest.approx(change, abs=1e-4)
