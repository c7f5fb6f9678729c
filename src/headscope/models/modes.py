"""Run a model as it is, whatever PyTorch mode the caller is in: no autocast, no inference mode, no training mode.

On its own device, and with as many threads as are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from headscope.errors import ModelError

_DEVICES = ("cpu", "cuda")


@contextmanager
def own_precision() -> Iterator[None]:
    """Leave autocast and inference mode inside the block; whether gradients are on stays as it is.

    Autocast would compute q, k and v in different types and patterns in half precision. Tensors made in inference mode
    have no version counter, and no gradient can flow through them.
    """
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            gradients = torch.is_grad_enabled()
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.set_grad_enabled(gradients))
        for kind in _DEVICES:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def ordinary(inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The inputs, with copies of those that were made in inference mode."""
    if not any(isinstance(value, Tensor) and value.is_inference() for value in inputs.values()):
        return inputs
    return {name: value.clone() if value.is_inference() else value for name, value in inputs.items()}


def refuse_training_mode(model: nn.Module, name: str, always: Set[int]) -> None:
    """Refuse a model of which some part is in training mode, but for those (by their ids) that ``eval()`` leaves so."""
    training = ((path, module) for path, module in model.named_modules() if module.training)
    part = next((path for path, module in training if id(module) not in always), None)
    if part is not None:
        where = f" ({part})" if part else ""
        raise ModelError(f"{name}{where} is in training mode, where dropout changes every pass; call model.eval()")


def refuse_inference_weights(model: nn.Module) -> None:
    """Refuse a model that was made inside torch.inference_mode."""
    made_there = next((name for name, weight in model.named_parameters() if weight.is_inference()), None)
    if made_there is not None:
        raise ModelError(
            f"{type(model).__name__} was made inside torch.inference_mode ({made_there} is an inference tensor), so it "
            "cannot be traced; make it outside, or give headscope.load its name"
        )


def device_of(model: nn.Module) -> torch.device:
    """The device for inputs: that of the first weights in memory (offloaded weights are on the meta device)."""
    devices = (weight.device for weight in model.parameters())
    return next((device for device in devices if device.type != "meta"), torch.device("cpu"))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this many CPU threads inside the block: the last digits of a matrix product depend on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
