"""Layers that wait are observed together as each text is alone in each layer; kernels are replaced by definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.attention.backends import waiting_layers
from headscope.attention.backends.fused.layers import LayerStatistics
from headscope.attention.backends.waiting_layers import WaitingLayers
from headscope.attention.engine import observe
from headscope.attention.masks import causal, dense, full, window
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

Sizes = tuple[int, int]
Z = torch.zeros(1, 4, 6, 5)


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The items of every launch: texts times layers. The kernel is replaced by what it computes."""
    counted: list[int] = []

    def statistics_of(q: Tensor, k: Tensor, scores: Scores, questions: Mapping[str, Question]) -> LayerStatistics:
        """Masks and labels are those of the texts of one layer, which repeat from layer to layer."""
        counted.append(len(q))
        allowed = scores.mask.dense(q.shape[2], k.shape[2])
        mask = dense(allowed.repeat(len(q) // len(allowed), 1, 1, 1))
        asked = {
            name: Question(*(side.repeat(len(q) // len(side), 1) for side in (each.query, each.key)), each.exclude_self)
            for name, each in questions.items()
        }
        found = observe(q, k, k, scores=replace(scores, mask=mask), questions=asked)
        traits = (found.logsumexp, found.entropy, *found.distance, found.strongest.weight)
        return LayerStatistics(torch.stack((*traits, *found.mass.values())), found.strongest.key)

    monkeypatch.setattr(waiting_layers.fused_layers, "statistics_of", statistics_of)
    return counted


def layer(items: int, n_query: int, n_key: int, heads: int = 4, **how: Any) -> tuple[Tensor, Tensor, Tensor, Scores]:
    """q, k, v and bound scores: two key heads, values of five numbers."""
    q, k, v = torch.randn(items, heads, n_query, 8), torch.randn(items, 2, n_key, 8), torch.randn(items, 2, n_key, 5)
    return q, k, v, Scores(**{"scale": 0.5, "mask": causal(), **how}).bind(q, k)


def labels_of(size: Sizes, seed: int = 0) -> dict[str, Question]:
    n_query, n_key = size
    chance = torch.Generator().manual_seed(seed)
    query, key = (torch.randint(0, 3, (1, length), generator=chance) for length in (n_query, n_key))
    return {"same": Question(query, key), "other": Question(key[:, -n_query:], key, exclude_self=True)}


def z_of(given: tuple[Tensor, Tensor, Tensor, Scores], size: Sizes) -> Tensor:
    """What the pass computed of one text, which is handed on as it is."""
    return torch.full((1, given[0].shape[1], size[0], 5), 3.0)


def assert_alone(found: Any, size: Sizes, given: tuple[Tensor, Tensor, Tensor, Scores], item: int, asked: Any) -> None:
    """What was observed of one text is what ``observe`` says of that text without the others and without padding."""
    q, k, v = (
        each[item : item + 1, :, :length] for each, length in zip(given[:3], (size[0], size[1], size[1]), strict=True)
    )
    alone = observe(q, k, v, scores=given[3], questions=asked)
    for name in ("logsumexp", "entropy"):
        torch.testing.assert_close(getattr(found.rows, name), getattr(alone, name))
    torch.testing.assert_close(tuple(found.rows.distance), tuple(alone.distance), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.rows.strongest.weight, alone.strongest.weight)
    assert torch.equal(found.rows.strongest.key, alone.strongest.key)
    torch.testing.assert_close(found.rows.mass, dict(alone.mass))
    torch.testing.assert_close(found.kept, (q, k))
    assert torch.equal(found.rows.output, z_of(given, size))
    torch.testing.assert_close(found.value_norms, v[0].norm(dim=-1))
    assert found.scores is given[3]


def test_the_layers_of_one_text_are_observed_in_one_launch_for_each_shape(launches: list[int]) -> None:
    asked = labels_of((6, 6))
    waiting = WaitingLayers([lambda site, size: asked])
    layers = {"0": layer(1, 6, 6), "1": layer(1, 6, 6), "2": layer(1, 6, 6, heads=2), "3": layer(1, 6, 6)}
    for site, given in layers.items():
        waiting.add(site, *given)
    for site, given in layers.items():
        assert_alone(waiting.observed(site, 0, z_of(given, (6, 6))), (6, 6), given, 0, asked)
    assert sorted(launches) == [1, 3]


@pytest.mark.parametrize(
    "how",
    [{"scale": 0.25}, {"softcap": 3.0}, {"mask": causal() & window(2)}, {"mask": full()}],
)
def test_layers_with_other_scores_are_not_observed_together(launches: list[int], how: dict[str, Any]) -> None:
    asked = labels_of((6, 6))
    waiting = WaitingLayers([lambda site, size: asked])
    layers = {"0": layer(1, 6, 6), "1": layer(1, 6, 6, **how)}
    for site, given in layers.items():
        waiting.add(site, *given)
    for site, given in layers.items():
        assert_alone(waiting.observed(site, 0, z_of(given, (6, 6))), (6, 6), given, 0, asked)
    assert launches == [1, 1]


def test_layers_that_are_asked_other_questions_are_not_observed_together(launches: list[int]) -> None:
    asked = {"0": labels_of((6, 6)), "1": labels_of((6, 6), 1), "2": {}}
    waiting = WaitingLayers([lambda site, size: asked[site]])
    layers = {site: layer(1, 6, 6) for site in asked}
    for site, given in layers.items():
        waiting.add(site, *given)
    for site, given in layers.items():
        assert_alone(waiting.observed(site, 0, z_of(given, (6, 6))), (6, 6), given, 0, asked[site])
    assert launches == [1, 1, 1]


@pytest.mark.parametrize("mask", [causal(), full()])
@pytest.mark.parametrize("sizes", [[(3, 3), (6, 6)], [(6, 6), (2, 2)], [(4, 4), (4, 4)]])
def test_every_text_of_a_padded_batch_is_observed_as_if_alone(mask: Any, sizes: list[Sizes], launches) -> None:
    asked = [labels_of(size, seed) for seed, size in enumerate(sizes)]
    waiting = WaitingLayers([lambda site, size, each=each: each for each in asked], lambda site: sizes)
    longest = max(n_key for _, n_key in sizes)
    layers = {site: layer(2, longest, longest, mask=mask) for site in "ab"}
    for site, given in layers.items():
        waiting.add(site, *given)
    for site, given in layers.items():
        for text, size in enumerate(sizes):
            assert_alone(waiting.observed(site, text, z_of(given, size)), size, given, text, asked[text])
    assert launches == [4]


def test_queries_may_be_fewer_than_keys() -> None:
    sizes = [(2, 4), (3, 5)]
    asked = [labels_of(size, seed) for seed, size in enumerate(sizes)]
    waiting = WaitingLayers([lambda site, size, each=each: each for each in asked], lambda site: sizes)
    given = layer(2, 3, 5, mask=full())
    waiting.add("cross", *given)
    for text, size in enumerate(sizes):
        assert_alone(waiting.observed("cross", text, z_of(given, size)), size, given, text, asked[text])


def test_a_text_may_be_read_in_windows() -> None:
    waiting = WaitingLayers([lambda site, size: {}])
    given = layer(3, 6, 6)
    waiting.add("0", *given)
    assert torch.equal(waiting.observed("0", 0, Z.expand(3, 4, 6, 5)).kept[0], given[0])
    asked = labels_of((6, 6))
    asking = WaitingLayers([lambda site, size: asked])
    asking.add("0", *given)
    assert asking.observed("0", 0, Z.expand(3, 4, 6, 5)).rows.mass["same"].shape == (3, 4, 6)
