"""A Call holds all that is needed to compute z, whichever module made it."""

from __future__ import annotations

import asyncio

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.masks import causal, padding, window
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, attend, observing, plain
from headscope.attention.scores import Scores


def call(seed: int = 0, **scores: object) -> Call:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 4, 5, 8, generator=generator, dtype=torch.float64)
    k, v = (torch.randn(2, 2, 7, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    return Call(torch.nn.Module(), q, k, v, Scores(**scores))  # type: ignore[arg-type]


def by_definition(given: Call) -> Tensor:
    """One head of one item at a time, each against the KV head of its group."""
    bound = given.scores.bind(given.q, given.k)
    allowed = bound.mask.dense(5, 7).expand(2, 4, 5, 7)
    z = torch.zeros(2, 4, 5, 8, dtype=torch.float64)
    for item in range(2):
        for head in range(4):
            scores = given.q[item, head] @ given.k[item, head // 2].T * bound.scale
            weights = scores.masked_fill(~allowed[item, head], float("-inf")).softmax(-1)
            z[item, head] = weights @ given.v[item, head // 2]
    return z


@pytest.mark.parametrize(
    "scores",
    [{}, {"mask": causal()}, {"mask": causal() & window(3)}, {"mask": padding([7, 4])}, {"scale": 0.3}],
    ids=repr,
)
def test_unobserved_and_observed_attention_are_the_definition(scores: dict[str, object]) -> None:
    given = call(**scores)
    assert_close(plain(given), by_definition(given))
    assert_close(attend(given), by_definition(given))
    with observing(plain):
        assert_close(attend(given), by_definition(given))


def test_two_tasks_of_one_thread_have_their_own_observers() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}

    async def look(name: str, width: int) -> None:
        def see(one: Call) -> Tensor:
            seen[name].append(one.q.shape[2])
            return plain(one)

        module = MultiHeadAttention(8, 2)
        with observing(see):
            for _ in range(3):
                module(torch.randn(1, width, 8))
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(look("a", 3), look("b", 5))

    asyncio.run(both())
    assert seen == {"a": [3, 3, 3], "b": [5, 5, 5]}
