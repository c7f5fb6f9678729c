"""The heads that pruning chooses from scores, compared with every possible choice."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.heads.look.importance import importance
from headscope.heads.pruning import _best_groups, _keep_evenly, _remove_least_important, _scores
from headscope.names import Head, Site
from headscope.scope import Scope


def sites(*sizes: tuple[int, int]) -> dict[str, Site]:
    return {str(at): Site(str(at), heads, kv, 8, 8) for at, (heads, kv) in enumerate(sizes)}


def scored(model: dict[str, Site], numbers: list[int]) -> dict[Head, float]:
    every = [head for site in model.values() for head in site.heads()]
    return {head: float(numbers[at % len(numbers)]) + at / 1000 for at, head in enumerate(every)}


scores = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(scores, st.integers(1, 7))
def test_the_least_important_heads_go_and_one_stays_at_every_site(numbers: list[int], count: int) -> None:
    model = sites((4, 4), (2, 1), (3, 3))
    scale = scored(model, numbers)
    kept = _remove_least_important(model, scale, min(count, 6))
    gone = [Head(name, at) for name, left in kept.items() for at in range(model[name].n_heads) if at not in left]
    assert len(gone) == min(count, 6)
    assert all(kept[name] for name in kept)
    left = {name: set(kept.get(name, range(site.n_heads))) for name, site in model.items()}
    for head in gone:
        for name, heads in left.items():
            if len(heads) > 1:
                assert all(scale[Head(name, other)] >= scale[head] for other in heads), "a lesser head was spared"


@settings(max_examples=50)
@given(scores, st.integers(1, 3), st.integers(1, 2))
def test_the_best_heads_of_the_best_groups_are_the_best_choice_there_is(
    numbers: list[int], n_kv: int, group: int
) -> None:
    site = Site("0", 6, 3, 8, 8)
    scale = scored({"0": site}, numbers)
    found = _best_groups(site, scale, n_kv, group)
    choices = [
        sorted(head for chosen in parts for head in chosen)
        for groups in combinations(range(3), n_kv)
        for parts in product(*(combinations((2 * at, 2 * at + 1), group) for at in groups))
    ]
    best = max(sum(scale[Head("0", head)] for head in choice) for choice in choices)
    assert found in choices
    assert sum(scale[Head("0", head)] for head in found) == pytest.approx(best)


@given(scores, st.floats(0.05, 0.95))
def test_even_choices_are_as_large_everywhere_and_as_near_as_can_be(numbers: list[int], keep: float) -> None:
    model = sites((6, 3), (6, 3))
    kept = _keep_evenly(model, scored(model, numbers), keep)
    assert list(kept) == ["0", "1"]
    shapes = {tuple(sorted([head // 2 for head in heads].count(kv) for kv in range(3))) for heads in kept.values()}
    assert len(shapes) == 1
    (counts,) = shapes
    assert len({count for count in counts if count}) == 1
    possible = {n_kv * group for n_kv in (1, 2, 3) for group in (1, 2)} - {6}
    assert abs(sum(counts) - 6 * keep) == pytest.approx(min(abs(size - 6 * keep) for size in possible))


def test_at_first_order_a_head_that_helps_and_one_that_hurts_both_matter(llama: Scope, ids: list[int]) -> None:
    """The slope's sign says which way the loss goes; what goes first is what moves it least either way."""
    slopes = {entry.head: entry.loss.mean for entry in importance(llama.model, [ids], "gradient")}
    assert min(slopes.values()) < 0 < max(slopes.values())
    found = _scores(llama.model, [ids], "gradient")
    assert found == {head: pytest.approx(abs(slope)) for head, slope in slopes.items()}
    exact = {entry.head: entry.kl.mean for entry in importance(llama.model, [ids]) if entry.kl is not None}
    assert _scores(llama.model, [ids], "exact") == {head: pytest.approx(value) for head, value in exact.items()}
