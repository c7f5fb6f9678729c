"""GGUF files whose tensors and metadata contradict each other are refused; those that agree are not."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny

from headscope.errors import ModelError
from headscope.models.config_checks import refuse_other_shapes


def test_weights_have_the_shapes_of_the_metadata() -> None:
    model = tiny.llama()
    refuse_other_shapes("it", model)
    model.model.layers[1].self_attn.k_proj.weight = torch.nn.Parameter(torch.zeros(8, 32))
    with pytest.raises(
        ModelError, match=r"it: model.layers.1.self_attn.k_proj.weight has shape \(8, 32\), and the .* says \(16, 32\)"
    ):
        refuse_other_shapes("it", model)


def test_the_vocabulary_may_be_padded_and_its_width_may_not_differ() -> None:
    model = tiny.llama()
    model.model.embed_tokens.weight = torch.nn.Parameter(torch.zeros(128, 32))
    refuse_other_shapes("it", model)
    model.model.embed_tokens.weight = torch.nn.Parameter(torch.zeros(97, 16))
    with pytest.raises(ModelError, match=r"embed_tokens.weight has shape \(97, 16\), and the .* says \(97, 32\)"):
        refuse_other_shapes("it", model)
