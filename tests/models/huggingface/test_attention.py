"""The attention function that transformers calls: every argument that changes its result, against plain formulas."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from tests.models import tiny
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.observer import Call, observing, plain
from headscope.models.huggingface.attention import (
    BOOL_NAME,
    FLOAT_NAME,
    AttentionCall,
    attention,
    implementations,
    install,
    install_count,
    tracer,
    uninstall,
    using_implementation,
)

LOWEST = torch.finfo(torch.float64).min


class Module(torch.nn.Module):
    """Stands for a family's attention module: an identity, training or not."""


@pytest.fixture
def qkv() -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(2, 4, 5, 8, dtype=torch.float64),
        torch.randn(2, 2, 7, 8, dtype=torch.float64),
        torch.randn(2, 2, 7, 6, dtype=torch.float64),
    )


def written_out(q: Tensor, k: Tensor, v: Tensor, *, scale: float = 8**-0.5, add: Tensor | float = 0.0, softcap: float | None = None) -> Tensor:  # fmt: skip  # noqa: E501
    """The attention that eager implementations write, with keys repeated for their groups."""
    scores = q @ k.repeat_interleave(2, 1).mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return ((scores + add).softmax(-1) @ v.repeat_interleave(2, 1)).transpose(1, 2)


def attended(qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor | None = None, **named: Any) -> Tensor:
    z, weights = attention(Module().eval(), *qkv, mask, **named)
    assert weights is None
    return z


def test_z_is_returned_by_position(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    z = attended(qkv)
    assert z.shape == (2, 5, 4, 6)
    assert z.is_contiguous(), "families view it as one row per position"
    assert_close(z, written_out(*qkv))


def test_scaling_and_softcap(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    assert_close(attended(qkv, scaling=0.7), written_out(*qkv, scale=0.7))
    assert_close(attended(qkv, scaling=0.7, softcap=0.5), written_out(*qkv, scale=0.7, softcap=0.5))
    assert_close(attended(qkv, scaling=torch.tensor(0.7).double()), written_out(*qkv, scale=0.7))
    assert_close(attended(qkv, softcap=0.0), written_out(*qkv))  # a cap of 0 means none


def test_a_float_mask_masks_and_adds(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    mask = torch.randn(2, 1, 5, 7, dtype=torch.float64)
    mask[:, :, :, 2] = LOWEST
    assert_close(attended(qkv, mask), written_out(*qkv, add=mask))


def test_a_boolean_mask_masks(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    allowed = torch.rand(2, 1, 5, 7) < 0.6
    allowed[..., 0] = True
    add = torch.zeros(2, 1, 5, 7, dtype=torch.float64).masked_fill(~allowed, float("-inf"))
    assert_close(attended(qkv, allowed), written_out(*qkv, add=add))
    assert_close(attended(qkv, allowed.long()), written_out(*qkv, add=add))  # ones and zeros mean the same


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_a_position_bias_is_added_next_to_the_mask(qkv: tuple[Tensor, Tensor, Tensor], axes: int) -> None:
    bias = torch.randn(1, 4, 5, 7, dtype=torch.float64)[(0,) * (4 - axes)]
    mask = torch.zeros(1, 1, 5, 7, dtype=torch.float64)
    mask[..., 4:] = LOWEST
    more = torch.randn(1, 1, 5, 7, dtype=torch.float64)
    assert_close(attended(qkv, position_bias=bias), written_out(*qkv, add=bias))
    assert_close(attended(qkv, mask + more, position_bias=bias), written_out(*qkv, add=bias + mask + more))


def test_a_sink_takes_its_share(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    q, k, v = qkv
    sinks = torch.randn(4, dtype=torch.float64)
    scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5
    with_sink = torch.cat((scores, sinks.view(1, 4, 1, 1).expand(2, 4, 5, 1)), -1).softmax(-1)[..., :-1]
    expected = (with_sink @ v.repeat_interleave(2, 1)).transpose(1, 2)
    assert_close(attended(qkv, s_aux=sinks), expected)
    assert_close(attended(qkv, s_aux=sinks.view(1, 4, 1, 1)), expected)


def test_indexed_keys_and_blocks_mask_the_others(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    indices = torch.randint(0, 7, (2, 5, 3))
    hidden = torch.full((2, 1, 5, 7), float("-inf"), dtype=torch.float64).scatter(3, indices[:, None], 0.0)
    assert_close(attended(qkv, indices=indices), written_out(*qkv, add=hidden))
    module = Module().eval()
    module.indexer = Module()
    module.indexer.block_size = 2  # type: ignore[assignment]
    blocks = torch.randint(0, 4, (2, 2, 5, 2))
    allowed = (torch.arange(7) // 2 == blocks[..., None]).any(3).repeat_interleave(2, 1)
    add = torch.zeros(2, 4, 5, 7, dtype=torch.float64).masked_fill(~allowed, float("-inf"))
    z, _ = attention(module, *qkv, None, block_indices=blocks)
    assert_close(z, written_out(*qkv, add=add))


def test_dropout_is_applied_in_training_alone(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    given: list[float] = []

    def observe(call: Call) -> Tensor:
        given.append(call.dropout)
        return plain(Call(call.site, call.q, call.k, call.v, call.scores))

    with observing(observe):
        for training in (True, False):
            attention(Module().train(training), *qkv, None, dropout=0.25)
        attention(Module().train(), *qkv, None, dropout=None)
    assert given == [0.25, 0.0, 0.0]


def test_a_tracer_is_given_the_call_and_returns_z(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    traced: list[AttentionCall] = []

    def trace(attention: AttentionCall) -> Tensor:
        traced.append(attention)
        return attention.z + 1

    token = tracer.set(trace)
    z = attended(qkv, sliding_window=3)
    tracer.reset(token)
    assert_close(z, written_out(*qkv) + 1)
    (one,) = traced
    assert (one.sliding_window, one.call.q is qkv[0], tuple(one.z.shape)) == (3, True, (2, 5, 4, 6))


def test_each_sub_model_gets_the_mask_it_reads_and_its_own_implementation_back() -> None:
    model = tiny.t5()
    before = model.config._attn_implementation
    names = {name for _, name in implementations(model)}
    assert names <= {BOOL_NAME, FLOAT_NAME}
    assert {id(part.config) for part in (model, model.encoder, model.decoder)} <= {
        id(config) for config, _ in implementations(model)
    }
    install(model)
    install(model)
    assert install_count(model) == 2
    uninstall(model)
    assert model.config._attn_implementation in names
    uninstall(model)
    uninstall(model)
    assert (model.config._attn_implementation, install_count(model)) == (before, 0)


def test_a_sub_model_without_the_interface_keeps_its_own_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.clip()
    vision = model.vision_model.config
    monkeypatch.setattr(type(model.vision_model), "_can_set_attn_implementation", classmethod(lambda cls: False))
    configs = [id(config) for config, _ in implementations(model)]
    assert id(model.config) in configs
    assert id(model.config.text_config) in configs
    assert id(vision) not in configs


def test_another_implementation_is_used_inside_the_block_alone() -> None:
    model = tiny.llama()
    install(model)
    with using_implementation(model, "eager"):
        assert model.config._attn_implementation == "eager"
    assert model.config._attn_implementation == BOOL_NAME
    with suppress(ZeroDivisionError), using_implementation(model, "sdpa"):
        raise ZeroDivisionError
    assert model.config._attn_implementation == BOOL_NAME
    uninstall(model)
