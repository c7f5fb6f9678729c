"""GGUF files whose tensors and metadata contradict each other are refused; those that agree are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import ModelError
from headscope.models.config_checks import refuse_lying_gguf, refuse_other_shapes


def tensor(name: str, start: int, n_bytes: int) -> Any:
    return SimpleNamespace(name=name, data_offset=start, n_bytes=n_bytes)


def reader(*tensors: Any, **said: Any) -> Any:
    """What gguf's reader gives of a file."""
    fields = {"general.architecture": "llama", "llama.block_count": 2} | said
    held = {
        key: SimpleNamespace(contents=lambda value=value: value) for key, value in fields.items() if value is not None
    }
    return SimpleNamespace(tensors=list(tensors), fields=held)


def test_tensors_one_after_another_are_read_in_any_order() -> None:
    refuse_lying_gguf("it", reader(tensor("b", 8, 4), tensor("a", 0, 8), tensor("c", 20, 4)))
    refuse_lying_gguf("it", reader())


@pytest.mark.parametrize("start", [0, 7])
def test_tensors_that_share_bytes_are_refused(start: int) -> None:
    with pytest.raises(ModelError, match="it is broken: b begins inside a; fetch it again"):
        refuse_lying_gguf("it", reader(tensor("c", 30, 4), tensor("a", 0, 8), tensor("b", start, 9)))


def test_layers_beyond_those_that_are_counted_are_refused() -> None:
    last = tensor("blk.1.attn_q.weight", 0, 8)
    refuse_lying_gguf("it", reader(last, tensor("blk.x", 8, 1), tensor("output.weight", 9, 1)))
    with pytest.raises(
        ModelError, match="it claims 1 layers and holds weights of layer 1, counted from 0; its metadata"
    ):
        refuse_lying_gguf("it", reader(last, **{"llama.block_count": 1}))
    with pytest.raises(ModelError, match="it claims 2 layers and holds weights of layer 12, counted"):
        refuse_lying_gguf("it", reader(last, tensor("blk.12.attn_q.weight", 8, 8)))


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
