"""``multi_head_attention_forward`` in parts: the same output, and weights that are computed when they are used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from headscope.models.any_torch.function_mode import LazyWeights, multihead_parts


class InParts(TorchFunctionMode):
    """Runs multi-head attention in parts, and counts the functions that it calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(getattr(func, "__name__", ""))
        if self.called[-1] == "multi_head_attention_forward":
            with self:
                return multihead_parts(args, kwargs or {})
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_weights_have_their_shape_before_they_are_computed(average: bool, batch: int | None, options: Any) -> None:
    attention = nn.MultiheadAttention(12, 3, **options).train()
    shape = () if batch is None else (batch,)
    q, k = torch.randn(4, *shape, 12), torch.randn(6, *shape, 12)
    own, weights = attention(q, k, k, average_attn_weights=average)
    with InParts() as mode:
        output, lazy = attention(q, k, k, average_attn_weights=average)
        assert "scaled_dot_product_attention" in mode.called
        assert "softmax" not in mode.called
    assert isinstance(lazy, LazyWeights)
    assert lazy.shape == weights.shape
    torch.testing.assert_close(output, own)
    torch.testing.assert_close(lazy * 1, weights)
    assert torch.equal(torch.stack([lazy])[0], lazy + 0)
