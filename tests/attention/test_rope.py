"""RoPE equals complex multiplication and transformers' frequencies, and scores depend on distance alone."""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from headscope.attention.rope import NTK, Linear, Llama3, Rope
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


def test_entries_past_the_rotary_part_are_left_as_they_are() -> None:
    x = torch.randn(1, 1, 4, 10)
    turned = Rope(6).turn(x, Rope(6).span(0, 4, like=x))
    assert torch.equal(turned[..., 6:], x[..., 6:])
    assert_close(turned[..., :6], Rope(6).turn(x[..., :6], Rope(6).span(0, 4, like=x)))


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_span_has_the_precision_it_is_asked_in(dtype: torch.dtype) -> None:
    cos, sin = Rope(8).span(2, 5, like=torch.zeros(1, dtype=dtype))
    exact = Rope(8).table(torch.arange(2, 5), torch.float64)
    assert (cos.dtype, sin.dtype) == (dtype, dtype)
    assert torch.equal(cos, exact.cos.to(dtype))
    assert torch.equal(sin, exact.sin.to(dtype))


def theirs(kind: str, **scaling: float) -> Tensor:
    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=2,
        max_position_embeddings=100,
        rope_parameters={"rope_type": kind, "rope_theta": 10_000.0, **scaling},
    )
    frequencies, _ = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=400)
    return frequencies.double()


def test_linear_scaling_equals_transformers() -> None:
    assert_close(Rope(128, scaling=Linear(4.0)).frequencies(), theirs("linear", factor=4.0), rtol=1e-5, atol=0)


def test_ntk_scaling_equals_transformers_at_four_times_the_length() -> None:
    assert_close(Rope(128, scaling=NTK(4.0)).frequencies(), theirs("dynamic", factor=1.0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("base", [77.0, 500_000.0])
def test_ntk_scaling_slows_the_slowest_pair_by_its_factor_and_the_fastest_not_at_all(base: float) -> None:
    plain, scaled = Rope(16, base).frequencies(), Rope(16, base, scaling=NTK(6.0)).frequencies()
    assert_close(scaled[0], plain[0])
    assert_close(scaled[-1], plain[-1] / 6.0)
    assert bool((scaled[1:] < plain[1:]).all())


def test_ntk_scaling_leaves_a_single_pair_as_it_is() -> None:
    assert Rope(2, scaling=NTK(8.0)).frequencies().tolist() == [1.0]


@pytest.mark.parametrize("trained", [64, 8192])
def test_llama3_keeps_fast_pairs_and_divides_slow_ones(trained: int) -> None:
    """Turns within the trained context decide: four and more are kept, one and fewer divided, a ramp between."""
    plain = Rope(128).frequencies()
    scaled = Rope(128, scaling=Llama3(trained_context=trained)).frequencies()
    for pair, speed in enumerate(plain.tolist()):
        turns = trained * speed / (2 * math.pi)
        keep = min(max((turns - 1) / 3, 0.0), 1.0)
        assert_close(scaled[pair].item(), speed * (keep + (1 - keep) / 8))
    assert scaled[0] == plain[0]
    assert_close(scaled[-1], plain[-1] / 8)


def test_llama3_scaling_equals_transformers() -> None:
    ours = Rope(128, base=10_000.0, scaling=Llama3(factor=8.0, low=1.0, high=4.0, trained_context=8192))
    expected = theirs(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
    )
    assert_close(ours.frequencies(), expected, rtol=1e-5, atol=0)
    assert not torch.allclose(ours.frequencies(), Rope(128).frequencies())


def test_a_span_is_a_slice_of_one_cached_table() -> None:
    rope, x = Rope(8), torch.zeros(1)
    whole, part = rope.span(0, 4, like=x), rope.span(2, 4, like=x)
    assert part.cos.data_ptr() == whole.cos[2:].data_ptr()
    assert_close(part.sin, rope.table(torch.arange(2, 4)).sin)


@pytest.mark.parametrize("stop", [1, 255, 256, 257, 1024, 1025])
def test_a_span_reaches_any_position(stop: int) -> None:
    span = Rope(4).span(stop - 1, stop, like=torch.zeros(1))
    assert_close(span.cos, Rope(4).table(torch.arange(stop - 1, stop)).cos)


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
    with pytest.raises(ShapeError, match=re.escape("pairing='thirds' is not known; use 'half' (Llama)")):
        Rope(4, pairing="thirds")


@pytest.mark.parametrize("made", [Linear(2.0), NTK(2.0), Llama3(), Rope(8)], ids=lambda made: type(made).__name__)
def test_positions_are_not_changed(made: object) -> None:
    with pytest.raises(FrozenInstanceError):
        made.factor = 2.0  # type: ignore[attr-defined]
