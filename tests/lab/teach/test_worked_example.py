"""The worked example equals the definition of attention, from the weights on."""

from __future__ import annotations

import pytest
import torch

from headscope.lab.teach.worked_example import WorkedExample, work


def test_each_head_weighs_the_values_and_w_o_mixes_them() -> None:
    worked = work()
    example = worked.example
    values = torch.tensor(list(example.values.values()), dtype=torch.float64)
    for head, done in zip(example.heads, worked.heads, strict=True):
        shares = torch.tensor([head.scorecard[word] for word in example.values], dtype=torch.float64)
        assert float(shares.sum()) == pytest.approx(1)
        assert done.z == pytest.approx((shares @ values).tolist())
    joined = torch.tensor([worked.concatenated], dtype=torch.float64)
    assert worked.through_identity == worked.concatenated
    assert worked.mixed == pytest.approx((joined @ torch.tensor(example.W_O, dtype=torch.float64))[0].tolist())


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_any_number_of_heads_is_concatenated_and_mixed(n_heads: int) -> None:
    """What a head delivers stands in its own four numbers."""
    W_O = [[row + 10 * column for column in range(3)] for row in range(4 * n_heads)]
    head = WorkedExample().heads[0]
    worked = work(WorkedExample(heads=[head] * n_heads, W_O=W_O))
    assert worked.concatenated == worked.heads[0].z * n_heads
    sums = [sum(a * row[column] for a, row in zip(worked.concatenated, W_O, strict=True)) for column in range(3)]
    assert worked.mixed == pytest.approx(sums)
