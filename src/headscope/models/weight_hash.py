"""Identify a model's weights by a SHA-256 hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError

AT_ONCE = 2**25
"""Bytes that are copied from a GPU at once."""


def weight_hash(model: nn.Module, dtype: torch.dtype | None = None) -> str:
    """SHA-256 over the names, types, shapes and bytes of the state dict, quantised and offloaded weights too.

    With ``dtype``, of the floating-point weights converted to it: float32 identifies a model loaded in half precision.
    """
    digest = hashlib.sha256()
    for part in _parts(model, dtype):
        digest.update(part)
    return digest.hexdigest()


def _parts(model: nn.Module, dtype: torch.dtype | None) -> Iterator[Any]:
    """What is hashed, in order: a line about each tensor, then its bytes, some at a time."""
    for name, stored in sorted(model.state_dict().items()):
        for part, tensor in _plain_tensors(model, name, stored):
            wanted = tensor.to(dtype or tensor.dtype) if tensor.is_floating_point() else tensor
            yield f"{part} {wanted.dtype} {tuple(wanted.shape)}\n".encode()
            flat = wanted.detach().contiguous().flatten()
            if flat.numel():
                yield from (some.cpu().numpy().data for some in torch.split(flat.view(torch.uint8), AT_ONCE))


def _plain_tensors(model: nn.Module, name: str, stored: Any) -> Iterator[tuple[str, Tensor]]:
    """The ordinary tensors of which an entry of a state dict consists, each with a name."""
    if isinstance(stored, tuple | list):
        for number, part in enumerate(stored):
            yield from _plain_tensors(model, f"{name}.{number}", part)
    elif not isinstance(stored, Tensor):
        yield f"{name}={stored!r}", torch.empty(0)
    elif stored.device.type == "meta":
        yield name, _offloaded(model, name)
    elif stored.is_quantized:
        yield name, stored.int_repr()
        yield f"{name} unpacked", stored.dequantize()
    elif hasattr(stored, "__tensor_flatten__"):
        names, _ = stored.__tensor_flatten__()  # a subclass, as torchao's
        for inner in names:
            yield from _plain_tensors(model, f"{name}.{inner}", getattr(stored, inner))
    else:
        yield name, stored


def _offloaded(model: nn.Module, name: str) -> Tensor:
    """A weight that accelerate keeps on the CPU or the disk until its layer runs."""
    path, _, own = name.rpartition(".")
    hook: Any = getattr(model.get_submodule(path), "_hf_hook", None)
    for each in getattr(hook, "hooks", [hook]):
        weights = getattr(each, "weights_map", None)
        if weights is not None:
            found = weights[own]
            return found if isinstance(found, Tensor) else torch.as_tensor(found)
    raise ModelError(f"{name} is only on the meta device; load the model's weights first")
