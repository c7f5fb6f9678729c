"""Bootstrap intervals; and weights from hashes, compared with splitmix64 in Python integers and with Poisson(1)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.heads.bootstrap import EDGE, MAX_WEIGHT, bootstrap, hash64, percentile_interval, poisson_weights

WORD = 2**64
numbers = st.integers(0, WORD - 1)


def splitmix64(state: int) -> int:
    """One output of the generator from this state (Steele, Lea and Flood 2014)."""
    mixed = (state + 0x9E3779B97F4A7C15) % WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % WORD
    return mixed ^ (mixed >> 31)


def by_hand(number: int, *keys: int) -> int:
    for key in (0, *keys):
        number = splitmix64(number ^ (key % WORD))
    return number


def test_the_first_outputs_are_those_of_the_published_generator() -> None:
    """From the seed 1234567, as published."""
    first = [splitmix64((1234567 + step * 0x9E3779B97F4A7C15) % WORD) for step in range(3)]
    assert first == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert int(hash64(np.array([1234567], dtype=np.uint64))[0]) == first[0]


def by_inversion(unit: int, replicate: int, seed: int) -> int:
    """The smallest count whose cumulative probability is at least the uniform number."""
    mixed = by_hand(unit, seed) ^ ((replicate * 0xD1342543DE82EF95) % WORD)
    uniform = (by_hand(mixed) >> 11) * 2.0**-53
    below = 0.0
    for count in range(MAX_WEIGHT + 1):
        below += math.exp(-1) / math.factorial(count)
        if uniform <= below:
            return count
    return MAX_WEIGHT


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 99))
def test_weights_invert_the_cumulative_poisson_distribution(units: list[int], replicates: int, seed: int) -> None:
    found = poisson_weights(units, replicates, seed)
    assert found.tolist() == [[by_inversion(unit, each, seed) for unit in units] for each in range(replicates)]


def test_weights_are_poisson_with_mean_one() -> None:
    """40,000 draws: five standard errors around every share, the mean and the variance."""
    draws = poisson_weights(range(400), 100, seed=7).flatten()
    error = 5 / math.sqrt(len(draws))
    assert float(draws.mean()) == pytest.approx(1.0, abs=error)
    assert float(draws.var()) == pytest.approx(1.0, abs=error * math.sqrt(3))
    for count in range(5):
        chance = math.exp(-1) / math.factorial(count)
        spread = math.sqrt(chance * (1 - chance))
        assert float((draws == count).double().mean()) == pytest.approx(chance, abs=error * spread)


def test_a_unit_s_weights_do_not_depend_on_other_units_or_order() -> None:
    """So a scan may be split into any shards."""
    whole = poisson_weights([5, 9, 2], 8, seed=3)
    assert torch.equal(poisson_weights([2, 5], 8, seed=3), whole[:, [2, 0]])
    assert torch.equal(poisson_weights([9], 3, seed=3), whole[:3, [1]])
    assert not torch.equal(poisson_weights([5, 9, 2], 8, seed=4), whole)
    assert poisson_weights([], 4, seed=0).shape == (4, 0)


def test_the_interval_holds_the_mean_and_narrows_with_inputs() -> None:
    few, many = (torch.randn(n, 1, generator=torch.Generator().manual_seed(0)) for n in (16, 1024))
    widths = []
    for values in (few, many):
        low, high = bootstrap(values, seed=0)
        assert low < values.double().mean() < high
        widths.append(float(high - low))
    assert widths[1] < widths[0] / 4
    assert torch.equal(bootstrap(few, seed=1)[0], bootstrap(few, seed=1)[0])


@pytest.mark.parametrize("replicates", [1, 2, 3, 200])
def test_intervals_are_torch_s_quantiles_to_the_last_bit(replicates: int) -> None:
    random = torch.Generator().manual_seed(replicates)
    drawn = torch.randn(replicates, 6, 9, dtype=torch.float64, generator=random)
    drawn[torch.rand(drawn.shape, generator=random) < 0.1] = math.nan
    drawn[:, 0, 0], drawn[:, 1, 1] = math.nan, 1 / 3
    for ours, q in zip(percentile_interval(drawn), (EDGE, 1 - EDGE), strict=True):
        assert np.array_equal(ours.numpy(), torch.nanquantile(drawn, q, dim=0).numpy(), equal_nan=True)
