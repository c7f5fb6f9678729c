"""The definition itself, compared with arithmetic by hand and plain Python loops."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from headscope.attention import reference


def unmasked(n_query: int, n_key: int) -> torch.Tensor:
    return torch.ones(n_query, n_key, dtype=torch.bool)


def test_one_row_by_hand() -> None:
    """q·k is 0 and ln 3, so the weights are 1/4 and 3/4."""
    q = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    k = torch.tensor([[0.0, 5.0], [math.log(3.0), 0.0]], dtype=torch.float64)
    v = torch.tensor([[4.0], [8.0]], dtype=torch.float64)
    seen = reference.attend(q, k, v, unmasked(1, 2), scale=1.0)
    assert_close(seen.weights, torch.tensor([[0.25, 0.75]], dtype=torch.float64))
    assert_close(seen.z, torch.tensor([[7.0]], dtype=torch.float64))


def test_one_head_equals_loops_over_single_numbers() -> None:
    x, context = torch.randn(3, 5).double(), torch.randn(4, 6).double()
    head = reference.HeadWeights(torch.randn(5, 2).double(), torch.randn(6, 2).double(), torch.randn(6, 3).double())
    allowed = torch.rand(3, 4) < 0.6
    allowed[:, 0] = True
    seen = reference.one_head(x, context, head, allowed)
    q, k, v = (x @ head.W_Q).tolist(), (context @ head.W_K).tolist(), (context @ head.W_V).tolist()
    for i in range(3):
        powers = [
            math.exp(sum(a * b for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(2)) if allowed[i, j] else 0.0
            for j in range(4)
        ]
        z = [sum(power * v[j][d] for j, power in enumerate(powers)) / sum(powers) for d in range(3)]
        assert_close(seen.weights[i].tolist(), [power / sum(powers) for power in powers])
        assert_close(seen.z[i].tolist(), z)


def test_a_fully_masked_row_gives_zeros() -> None:
    allowed = unmasked(3, 3)
    allowed[1] = False
    q = torch.randn(3, 4, requires_grad=True)
    seen = reference.attend(q, torch.randn(3, 4), torch.randn(3, 4), allowed, scale=0.5)
    assert (seen.weights[1] == 0).all()
    assert (seen.z[1] == 0).all()
    assert_close(seen.weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]))
    seen.z.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


def test_large_scores_do_not_overflow() -> None:
    scores = torch.tensor([[1e4, 0.0, -1e4]])
    assert_close(reference.softmax(scores), torch.tensor([[1.0, 0.0, 0.0]]))


def test_several_heads_add_up_through_their_own_rows_of_w_o() -> None:
    x = torch.randn(5, 8).double()
    heads = [reference.HeadWeights(*(torch.randn(8, 4).double() for _ in range(3))) for _ in range(2)]
    W_O, allowed = torch.randn(8, 8).double(), unmasked(5, 5).tril()
    together = reference.multi_head(x, x, heads, W_O, allowed)
    apart = sum(reference.one_head(x, x, head, allowed).z @ W_O[4 * i : 4 * i + 4] for i, head in enumerate(heads))
    assert_close(together, apart)


def test_statistics_of_a_known_row() -> None:
    """The query at position 3 attends to keys 1 and 3 equally: distances 2 and 0."""
    seen = reference.row_statistics(torch.tensor([[0.0, 0.5, 0.0, 0.5]]))
    assert_close(seen.entropy, torch.tensor([math.log(2)]))
    assert_close(seen.distance_mean, torch.tensor([1.0]))
    assert_close(seen.distance_std, torch.tensor([1.0]))
    assert seen.strongest_key.tolist() == [1]
    assert seen.strongest_weight.tolist() == [0.5]


def test_mass_is_the_weight_on_equal_labels() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    label = torch.tensor([7, -1, 7])
    assert_close(reference.mass(weights, label, label), torch.tensor([1.0, 0.0, 0.7]))
    assert_close(reference.mass(weights, label, label, exclude_self=True), torch.tensor([0.0, 0.0, 0.2]))


def test_a_fully_masked_row_has_no_distance_and_no_entropy() -> None:
    seen = reference.row_statistics(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    for name in ("entropy", "distance_mean", "distance_std", "strongest_weight"):
        assert getattr(seen, name)[0] == 0, name
    assert seen.strongest_weight[1] == 1


def test_distance_leaves_out_the_weight_of_a_sink() -> None:
    """Half of the row goes to a sink, which has no position: the other half is what counts."""
    whole = reference.row_statistics(torch.tensor([[0.5, 0.0, 0.25, 0.25]]))
    half = reference.row_statistics(torch.tensor([[0.25, 0.0, 0.125, 0.125]]))
    assert_close(half.distance_mean, whole.distance_mean)
    assert_close(half.distance_std, whole.distance_std)
    assert_close(whole.distance_mean, torch.tensor([0.5 * 3 + 0.25 * 1]))


def test_distances_count_from_the_querys_position_after_a_cache() -> None:
    """Two queries after a cache of three are at positions 3 and 4."""
    weights = torch.zeros(2, 5)
    weights[0, 3], weights[1, 0] = 1.0, 1.0
    assert reference.row_statistics(weights).distance_mean.tolist() == [0.0, 4.0]


def test_mass_leaves_the_querys_own_key_out_after_a_cache() -> None:
    weights, label = torch.tensor([[0.1, 0.2, 0.7]]), torch.tensor([4, 4, 4])
    assert_close(reference.mass(weights, label[:1], label), torch.tensor([1.0]))
    assert_close(reference.mass(weights, label[:1], label, exclude_self=True), torch.tensor([0.3]))
