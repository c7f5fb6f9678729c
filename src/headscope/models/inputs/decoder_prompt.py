"""What a model's own ``generate`` feeds its decoder first: a start token, or a whole prompt as Whisper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

DECODER_INPUTS = "decoder_input_ids"


def decoder_prompt(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[int] | None:
    """The decoder's tokens before it writes anything, read off the first step of ``generate``.

    Whisper's holds the language that it hears, its task, and whether it writes times; None where a model does not
    generate.
    """
    generate: Any = getattr(model, "generate", None)
    can: Any = getattr(model, "can_generate", None)
    if generate is None or can is None or not can():
        return None
    given = {name: value for name, value in inputs.items() if name != DECODER_INPUTS}
    fed: list[Tensor] = []

    def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
        if isinstance(kwargs.get(DECODER_INPUTS), Tensor):
            fed.append(kwargs[DECODER_INPUTS])

    hook = model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad():
            generate(**given, max_new_tokens=1, do_sample=False)
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError):  # a config without what generate needs
        return None
    finally:
        hook.remove()
    return [int(token) for token in fed[-1][0]] if fed else None
