"""Tensors that say they are on a GPU, for tests of what is decided by that; whatever is computed from them is not."""

from __future__ import annotations

import torch
from torch import Tensor


class OnGPU(Tensor):
    """A tensor of the CPU that says it is on a GPU; new tensors on its device are made on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    number: int
    is_cuda = property(lambda self: True)  # type: ignore[assignment]

    def get_device(self) -> int:
        return self.number


def on_gpu(number: int, tensor: Tensor, kind: type[OnGPU] = OnGPU) -> Tensor:
    """This tensor, as if it were on the GPU of that number."""
    made = tensor.as_subclass(kind)
    made.number = number
    return made
