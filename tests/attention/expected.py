"""Questions for any problem, one or more for each path, and the exact statistics of a case, by the definition."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headscope.attention import reference
from headscope.attention.observation import Observation
from headscope.attention.questions import Question
from tests.attention.cases import Case, truth

N_CLASSES = 3


class Statistics(NamedTuple):
    entropy: Tensor
    distance: Tensor
    std: Tensor
    strongest_weight: Tensor
    mass: dict[str, Tensor]


def questions(batch: int, n_query: int, n_key: int, n_tokens: int = 7) -> dict[str, Question]:
    """Positions, tokens and classes. Tokens differ from item to item; classes partition the keys."""
    generator = torch.Generator().manual_seed(n_query * 1000 + n_key)
    offset = n_key - n_query
    position, keys = torch.arange(n_query) + offset, torch.arange(n_key)
    tokens = torch.randint(0, n_tokens, (batch, n_key), generator=generator)
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=-1)
    asking = tokens[:, position] if offset >= 0 else torch.randint(0, n_tokens, (batch, n_query), generator=generator)
    kinds = torch.randint(0, N_CLASSES, (n_key,), generator=generator)
    asked = {
        "previous": Question(position - 1, keys),
        "itself": Question(position, keys),
        "first": Question(torch.zeros_like(position), keys),
        "duplicate": Question(asking, tokens, exclude_self=True),
        "induction": Question(asking, before, exclude_self=True),
        "nothing": Question(torch.full_like(position, -1), keys),
        "own kind": Question(kinds[position.clamp(min=0)], kinds, exclude_self=True),
    }
    return asked | {f"kind {kind}": Question(torch.full_like(position, kind), kinds) for kind in range(N_CLASSES)}


def statistics(case: Case, dtype: torch.dtype = torch.float64) -> Statistics:
    """By the definition, in float64, one head at a time."""
    weights = truth(case, dtype).weights
    per_head = [[reference.row_statistics(head) for head in item] for item in weights]

    def stack(name: str) -> Tensor:
        return torch.stack([torch.stack([getattr(head, name) for head in item]) for item in per_head])

    entropy = stack("entropy")
    if case.scores.sinks is not None:
        sink = (1 - weights.sum(-1)).clamp(min=0)
        entropy = entropy - torch.special.xlogy(sink, sink)
    mass = {
        name: torch.stack([_masses(weights[item], question, item) for item in range(case.batch)])
        for name, question in questions(case.batch, case.n_query, case.keys).items()
    }
    return Statistics(entropy, stack("distance_mean"), stack("distance_std"), stack("strongest_weight"), mass)


def _masses(weights: Tensor, question: Question, item: int) -> Tensor:
    query, key = (labels[min(item, len(labels) - 1)] for labels in (question.query, question.key))
    return torch.stack([reference.mass(head, query, key, question.exclude_self) for head in weights])


def assert_statistics(seen: Observation, case: Case, atol: float, dtype: torch.dtype = torch.float64) -> None:
    """Every statistic of an observation within ``atol`` (distances: in units of the longest) of the definition."""
    true = statistics(case, dtype)
    fully_masked = ~case.allowed().any(-1)
    _close("entropy", seen.entropy, true.entropy, atol * 10)
    far = max(case.keys, case.n_query, 64)
    _close("distance", seen.distance.mean, true.distance, atol * far)
    # A standard deviation is a root: an error e in the variance is one of √e where it is near zero.
    _close("variance", seen.distance.std.square(), true.std.square(), atol * far**2)
    _close("strongest weight", seen.strongest.weight, true.strongest_weight, atol)
    weights = truth(case, dtype).weights
    at_key = weights.gather(-1, seen.strongest.key.cpu().clamp(min=0)[..., None])[..., 0]
    _close("weight at the strongest key", at_key, true.strongest_weight, atol)
    assert torch.equal(seen.strongest.key.cpu() == -1, fully_masked)
    assert seen.entropy.cpu()[fully_masked].eq(0).all()
    assert seen.output.cpu()[fully_masked].eq(0).all()
    assert seen.mass.keys() == true.mass.keys()
    for name, mass in seen.mass.items():
        _close(f"mass of {name}", mass, true.mass[name], atol)
    kinds = sum(seen.mass[f"kind {kind}"] for kind in range(N_CLASSES)) + seen.sink
    _close("masses of a partition", kinds, (~fully_masked | (case.scores.sinks is not None)).double(), atol * 2)


def _close(name: str, ours: Tensor, exact: Tensor, atol: float) -> None:
    error = (ours.detach().cpu().double() - exact).abs().max()
    assert error <= atol, f"{name} is off by {error:.3g}, more than {atol:.3g}"
