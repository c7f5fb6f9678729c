"""RoPE equals complex multiplication, and scores depend on distance alone."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.rope import Rope
from headscope.errors import ShapeError

pairings = pytest.mark.parametrize("pairing", ["half", "interleaved"])


def pairs_of(x: Tensor, pairing: str) -> Tensor:
    """Each pair of numbers as one complex number."""
    if pairing == "half":
        return torch.complex(*x.chunk(2, dim=-1))
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


@pairings
def test_rotation_is_complex_multiplication(pairing: str) -> None:
    x = torch.randn(2, 3, 11, 16).double()
    rope = Rope(16, base=500.0, pairing=pairing)
    angle = torch.arange(5, 16).double()[:, None] * 500.0 ** (-torch.arange(0, 16, 2).double() / 16)
    expected = pairs_of(x, pairing) * torch.polar(torch.ones_like(angle), angle)
    assert_close(pairs_of(rope.turn(x, rope.span(5, 16, like=x)), pairing), expected)


@pairings
def test_scores_depend_on_distance_alone(pairing: str) -> None:
    rope, q, k = Rope(8, pairing=pairing), torch.randn(8).double(), torch.randn(8).double()

    def score(query_position: int, key_position: int) -> Tensor:
        positions = torch.tensor([query_position, key_position])
        turned = rope.turn(torch.stack((q, k))[None, None], rope.table(positions, torch.float64))[0, 0]
        return turned[0] @ turned[1]

    assert_close(score(9, 2), score(1009, 1002))
    assert abs(score(9, 2) - score(9, 3)) > 1e-3


@pairings
def test_the_head_may_have_one_more_entry_than_is_rotated(pairing: str) -> None:
    x = torch.randn(1, 2, 4, 7)
    rope = Rope(6, pairing=pairing)
    turned = rope.turn(x, rope.span(3, 7, like=x))
    assert torch.equal(turned[..., 6], x[..., 6])
    assert not torch.equal(turned[..., :6], x[..., :6])


def test_positions_past_a_million_have_exact_angles() -> None:
    """In float32 a million times a small angle would already be a wrong one."""
    position = 1_234_567
    cos, sin = Rope(8).table(torch.tensor([position]), torch.float64)
    for pair in range(4):
        angle = position * 10_000.0 ** (-pair / 4)
        assert_close(cos[0, pair].item(), math.cos(angle), atol=1e-8, rtol=0)
        assert_close(sin[0, pair].item(), math.sin(angle), atol=1e-8, rtol=0)


def test_a_table_first_made_in_inference_mode_can_be_trained_with() -> None:
    rope = Rope(4, base=77.0)
    with torch.inference_mode():
        rope.span(0, 3, like=torch.zeros(1))
    x = torch.randn(1, 1, 3, 4, requires_grad=True)
    rope.turn(x, rope.span(0, 3, like=x)).square().sum().backward()
    assert_close(x.grad, 2 * x.detach())


def test_wrong_sizes_and_pairings_are_refused() -> None:
    with pytest.raises(ShapeError, match=re.escape("d_rotary=5 must be even and at least 2")):
        Rope(5)
    with pytest.raises(ShapeError, match=re.escape("d_rotary=0 must be even and at least 2")):
        Rope(0)
