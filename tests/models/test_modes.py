"""Models run as they are, whatever mode the caller is in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headscope.errors import ModelError
from headscope.models.modes import own_precision, refuse_inference_weights


def test_autocast_is_off_inside_and_on_again_after() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with own_precision():
            assert not torch.is_autocast_enabled("cpu")
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert torch.is_autocast_enabled("cpu")
    with own_precision():
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("gradients", [False, True])
def test_inference_mode_is_left_and_gradients_stay_as_they_are(gradients: bool) -> None:
    with torch.inference_mode(), torch.set_grad_enabled(gradients):
        with own_precision():
            assert not torch.is_inference_mode_enabled()
            assert torch.is_grad_enabled() is gradients
        assert torch.is_inference_mode_enabled()
    with torch.set_grad_enabled(gradients), own_precision():
        assert torch.is_grad_enabled() is gradients


def test_a_model_that_was_made_in_inference_mode_is_refused() -> None:
    refuse_inference_weights(nn.Linear(2, 2))
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ModelError, match=r"Sequential was made inside torch.inference_mode \(0.weight is an inference"):
        refuse_inference_weights(model)
