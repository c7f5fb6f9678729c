"""Signed ranks against enumeration of all signs, and Holm's correction against the textbook."""

from __future__ import annotations

import itertools

import pytest
import torch

from headscope.heads.roles.trials import holm, passes_threshold, signed_ranks


def by_enumeration(differences: list[float]) -> float:
    """The share of all sign patterns whose positive ranks sum to at least what was seen."""
    sizes = sorted(range(len(differences)), key=lambda i: abs(differences[i]))
    ranks = {index: rank + 1 for rank, index in enumerate(sizes)}
    seen = sum(ranks[i] for i, d in enumerate(differences) if d > 0)
    totals = [sum(r + 1 for r, up in enumerate(signs) if up) for signs in itertools.product((0, 1), repeat=len(sizes))]
    return sum(total >= seen for total in totals) / len(totals)


def test_signed_ranks_equal_the_enumeration() -> None:
    values = torch.randn(9, 6) + 0.4
    expected = [by_enumeration(column.tolist()) for column in values.T]
    torch.testing.assert_close(signed_ranks(values), torch.tensor(expected, dtype=torch.float64))


def test_all_inputs_in_favour_give_the_smallest_p_value() -> None:
    assert float(signed_ranks(torch.rand(32, 1) + 0.1)) == pytest.approx(2.0**-32)


def test_ties_and_zeros_count_against_the_head() -> None:
    assert float(signed_ranks(torch.zeros(10, 1))) == 1.0
    tied = torch.tensor([[1.0], [-1.0], [1.0], [1.0]])
    assert float(signed_ranks(tied)) == pytest.approx(by_enumeration([1.0, -1.3, 1.1, 1.2]))


def test_many_inputs_use_the_normal_approximation() -> None:
    values = torch.randn(200, 20) + 0.1
    exact = signed_ranks(values)
    near = signed_ranks(torch.cat((values, values[:1] * 1e-9)))
    torch.testing.assert_close(near, exact, rtol=0.15, atol=2e-3)


def test_holm_is_the_textbook_example() -> None:
    corrected = holm(torch.tensor([0.01, 0.04, 0.03, 0.005]))
    torch.testing.assert_close(corrected, torch.tensor([0.03, 0.06, 0.06, 0.02]))


def test_a_score_has_to_be_large_and_above_its_rival() -> None:
    scores, rivals = torch.tensor([[0.6, 0.6, 0.3]]), torch.tensor([[0.1, 0.55, 0.0]])
    assert passes_threshold(scores, rivals, threshold=0.5, margin=0.1).tolist() == [True, False, False]
