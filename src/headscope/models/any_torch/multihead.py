"""Run ``F.multi_head_attention_forward`` so that a mode sees its parts, and nothing of queries × keys is made.

``nn.MultiheadAttention`` returns its weights unless it is told not to, and most callers drop them. So it runs without,
and a tensor stands for the weights that computes them when it is first used.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

# multi_head_attention_forward hands itself to a mode as a whole; a copy that asks for no mode hands over its parts.
_whole: Any = F.multi_head_attention_forward
_parts = types.FunctionType(
    _whole.__code__, {**F.__dict__, "has_torch_function": lambda _: False}, "parts", _whole.__defaults__
)
_parts.__kwdefaults__ = _whole.__kwdefaults__
_signature = inspect.signature(_whole)


class LazyWeights(Tensor):
    """Attention weights that are computed when they are first used."""

    compute: Callable[[], Tensor]

    @staticmethod
    def __new__(cls, compute: Callable[[], Tensor], shape: tuple[int, ...], like: Tensor) -> LazyWeights:
        made: LazyWeights = Tensor._make_wrapper_subclass(cls, shape, dtype=like.dtype, device=like.device)
        made.compute = compute
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        args, kwargs = tree_map(lambda a: a.compute() if isinstance(a, LazyWeights) else a, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyWeights({'×'.join(map(str, self.shape))})"


def multihead_parts(args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    """The output of multi-head attention, and its weights where they are asked for, computed on first use."""
    given = _signature.bind(*args, **kwargs)
    given.apply_defaults()
    if not given.arguments["need_weights"]:
        return _parts(*args, **kwargs)  # type: ignore[no-any-return]
    output, _ = _parts(**{**given.arguments, "need_weights": False})

    def compute() -> Tensor:
        with torch._C.DisableTorchFunction():
            weights: Tensor = _whole(**given.arguments)[1]
        return weights

    return output, LazyWeights(compute, _weights_shape(given.arguments), output)


def _weights_shape(given: dict[str, Any]) -> tuple[int, ...]:
    query, keys = given["query"], given["key"].shape[0] + (given["bias_k"] is not None) + given["add_zero_attn"]
    heads = () if given["average_attn_weights"] else (given["num_heads"],)
    batch = () if query.ndim == 2 else (query.shape[1],)
    return (*batch, *heads, query.shape[0], keys)
