"""Which heads go: chosen from scores alone, against every choice there is."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.heads.pruning import _best_groups, _evenly, _least_first, _without_named
from headscope.names import Head, Site
from headscope.scope import Scope


def sites(*sizes: tuple[int, int]) -> dict[str, Site]:
    return {str(at): Site(str(at), heads, kv, 8, 8) for at, (heads, kv) in enumerate(sizes)}


def scored(model: dict[str, Site], numbers: list[int]) -> dict[Head, float]:
    every = [head for site in model.values() for head in site.heads()]
    return {head: float(numbers[at % len(numbers)]) + at / 1000 for at, head in enumerate(every)}


scores = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(scores, st.integers(1, 7))
def test_the_least_go_wherever_they_are_and_one_stays_at_every_site(numbers: list[int], count: int) -> None:
    model = sites((4, 4), (2, 1), (3, 3))
    scale = scored(model, numbers)
    kept = _least_first(model, scale, min(count, 6))
    gone = [Head(name, at) for name, left in kept.items() for at in range(model[name].n_heads) if at not in left]
    assert len(gone) == min(count, 6)
    assert all(kept[name] for name in kept)
    left = {name: set(kept.get(name, range(site.n_heads))) for name, site in model.items()}
    for head in gone:
        for name, heads in left.items():
            if len(heads) > 1:
                assert all(scale[Head(name, other)] >= scale[head] for other in heads), "a lesser head was spared"


def test_a_site_that_loses_nothing_is_not_named() -> None:
    model = sites((3, 3), (2, 2))
    scale = {Head("0", 0): 5.0, Head("0", 1): 1.0, Head("0", 2): 6.0, Head("1", 0): 7.0, Head("1", 1): 8.0}
    assert _least_first(model, scale, 1) == {"0": [0, 2]}
    assert _least_first(model, scale, 2) == {"0": [2]}
    assert _least_first(model, scale, 3) == {"0": [2], "1": [1]}


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
    kept = _evenly(model, scored(model, numbers), keep)
    assert list(kept) == ["0", "1"]
    shapes = {tuple(sorted([head // 2 for head in heads].count(kv) for kv in range(3))) for heads in kept.values()}
    assert len(shapes) == 1
    (counts,) = shapes
    assert len({count for count in counts if count}) == 1
    possible = {n_kv * group for n_kv in (1, 2, 3) for group in (1, 2)} - {6}
    assert abs(sum(counts) - 6 * keep) == pytest.approx(min(abs(size - 6 * keep) for size in possible))


def test_even_pruning_needs_sites_alike_and_more_than_one_head() -> None:
    with pytest.raises(InputError, match="even=True needs sites of one size"):
        _evenly(sites((4, 4), (2, 2)), {}, 0.5)
    with pytest.raises(InputError, match="even=True cannot shrink sites of 1 head; leave it out"):
        _evenly(sites((1, 1)), {}, 0.5)


def test_named_heads_go_once_each_and_one_stays(llama: Scope) -> None:
    assert _without_named(llama.model, ["0.1", "0.1", Head("0", 5), "2.0"]) == {"0": [0, 2, 3, 4], "2": [1, 2, 3, 4, 5]}
    with pytest.raises(InputError, match=r"site 1 would lose all of its heads \(6\).*leave one of 1\.0–1\.5 out"):
        _without_named(llama.model, [f"1.{head}" for head in range(6)])
    with pytest.raises(InputError, match=r"heads=\[\] removes nothing"):
        _without_named(llama.model, [])
