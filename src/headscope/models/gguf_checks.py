"""Refuse GGUF files whose fields and tensors contradict each other, which transformers would open as another model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headscope.errors import ModelError

_BLOCK = re.compile(r"blk\.(\d+)\.")


def read_gguf(file: Path) -> Any:
    """The reader of a GGUF file, whose metadata lie within the file and whose strings can be decoded."""
    import gguf

    class Bounded(gguf.GGUFReader):
        def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **named: Any) -> Any:
            # gguf takes what is past the end for empty, and walks as many items as an array claims
            if int(offset) + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise ValueError(f"its metadata go on past its {len(self.data):,} bytes")
            return super()._get(offset, dtype, count, *order, **named)

    reader = Bounded(file)
    for field in reader.fields.values():
        field.contents()
    return reader


def refuse_lying_gguf(source: str, reader: Any) -> None:
    """Refuse a file with tensors that share bytes, or with more layers than it counts: those would be left out."""
    end, before = 0, ""
    for tensor in sorted(reader.tensors, key=lambda each: int(each.data_offset)):
        if int(tensor.data_offset) < end:
            raise ModelError(f"{source} is broken: {tensor.name} begins inside {before}; fetch it again")
        end, before = int(tensor.data_offset + tensor.n_bytes), tensor.name
    architecture = reader.fields.get("general.architecture")
    counted = architecture and reader.fields.get(f"{architecture.contents()}.block_count")
    layers = {int(found[1]) for tensor in reader.tensors if (found := _BLOCK.match(tensor.name))}
    if counted and layers and max(layers) >= int(counted.contents()):
        raise ModelError(
            f"{source} claims {int(counted.contents())} layers and holds weights of layer {max(layers)}, counted from "
            "0; its metadata is broken: fetch it again"
        )


def refuse_other_shapes(source: str, model: Any) -> None:
    """Refuse weights of other shapes than the metadata says; the vocabulary may be padded."""
    try:
        with torch.device("meta"):
            described: nn.Module = type(model)(model.config)
    except Exception:  # what it describes cannot be built; running it will say more
        return
    words = {getattr(model.config.get_text_config(), "vocab_size", None)}
    held = dict(model.named_parameters())
    for name, weight in described.named_parameters():
        expected, found = tuple(weight.shape), tuple(held[name].shape) if name in held else tuple(weight.shape)
        if found != expected and not (expected[:1] and expected[0] in words and found[1:] == expected[1:]):
            raise ModelError(
                f"{source}: {name} has shape {found}, and the file's metadata says {expected}; one of them is broken: "
                "fetch it again"
            )
