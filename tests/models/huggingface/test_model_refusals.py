"""What an opened transformers model refuses, with the reason and the way out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError, ModelError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model

IDS = torch.tensor([[5, 9, 33]])


@pytest.fixture(scope="module")
def llama() -> HuggingFaceModel:
    return open_model(tiny.llama())  # type: ignore[no-any-return]


def test_a_site_whose_heads_are_not_split_is_refused_with_the_reason(llama: HuggingFaceModel) -> None:
    path = llama._output_paths["1"]
    assert llama.output_path("1") is path
    assert llama.module_path("1") == "model.layers.1.self_attn"
    llama._output_paths["1"] = replace(path, matrix=None, why="it is odd")
    with pytest.raises(ModelError, match="1: its heads cannot be split through W_O: it is odd"):
        llama.output_matrix("1")
    del llama._output_paths["1"]
    with pytest.raises(ModelError, match="1: its heads cannot be split through W_O: it was not traced"):
        llama.output_matrix("1")
    llama._output_paths["1"] = path


def test_errors_of_the_model_name_its_inputs_and_ours_are_as_they_are(llama: HuggingFaceModel) -> None:
    said = r"this model does not run on input_ids \(1, 3\): ValueError: odd\n"
    with pytest.raises(InputError, match=said), llama.explained_errors({"input_ids": IDS}):
        raise ValueError("odd")
    with pytest.raises(ModelError, match=r"^ours"), llama.explained_errors({"input_ids": IDS}):
        raise ModelError("ours")


def test_inputs_that_lack_a_picture_or_a_text_are_told_so() -> None:
    opened = open_model(tiny.clip())
    assert isinstance(opened, HuggingFaceModel)
    pixels = torch.zeros(1, 3, 16, 16)
    for inputs, hint in (
        ({"pixel_values": pixels}, "; it may need a text with the picture: look((picture, text))"),
        ({"input_ids": IDS}, "; it may need pictures with the text: look((picture, text))"),
        ({"input_ids": IDS, "pixel_values": pixels}, ""),
    ):
        with (
            pytest.raises(InputError, match=re.escape(f"ValueError: odd{hint}") + r"(\n|$)"),
            opened.explained_errors(inputs),
        ):
            raise ValueError("odd")
    opened.close()


def test_errors_that_are_not_of_memory_are_the_model_s_own() -> None:
    opened = open_model(tiny.llama())
    for raised, expected, said in (
        (RuntimeError("shapes differ"), RuntimeError, "^shapes differ"),
        (RuntimeError("can't allocate memory: 3 bytes"), InputError, "^out of memory on cpu"),
        (RuntimeError("not enough memory"), InputError, "^out of memory on cpu"),
    ):

        def explode(*_: Any, raised: Exception = raised, **__: Any) -> Any:
            raise raised

        opened.model.model.forward = explode
        with pytest.raises(expected, match=said):
            opened.run({"input_ids": IDS})
    opened.close()
