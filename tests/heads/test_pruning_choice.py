"""The heads that pruning chooses from scores, compared with every possible choice."""

from __future__ import annotations

import hashlib
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.heads.look.importance import importance
from headscope.heads.pruning import _best_groups, _keep_evenly, _keep_unnamed, _remove_least_important, _scores
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


def test_a_site_that_loses_nothing_is_not_named() -> None:
    model = sites((3, 3), (2, 2))
    scale = {Head("0", 0): 5.0, Head("0", 1): 1.0, Head("0", 2): 6.0, Head("1", 0): 7.0, Head("1", 1): 8.0}
    assert _remove_least_important(model, scale, 1) == {"0": [0, 2]}
    assert _remove_least_important(model, scale, 2) == {"0": [2]}
    assert _remove_least_important(model, scale, 3) == {"0": [2], "1": [1]}


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


def test_even_pruning_needs_sites_alike_and_more_than_one_head() -> None:
    with pytest.raises(InputError, match="even=True needs sites of one size"):
        _keep_evenly(sites((4, 4), (2, 2)), {}, 0.5)
    with pytest.raises(InputError, match="even=True cannot shrink sites of 1 head; leave it out"):
        _keep_evenly(sites((1, 1)), {}, 0.5)


def test_named_heads_go_once_each_and_one_stays(llama: Scope) -> None:
    assert _keep_unnamed(llama.model, ["0.1", "0.1", Head("0", 5), "2.0"]) == {"0": [0, 2, 3, 4], "2": [1, 2, 3, 4, 5]}
    with pytest.raises(InputError, match=r"site 1 would lose all of its heads \(6\).*leave one of 1\.0–1\.5 out"):
        _keep_unnamed(llama.model, [f"1.{head}" for head in range(6)])
    with pytest.raises(InputError, match=r"heads=\[\] removes nothing"):
        _keep_unnamed(llama.model, [])


def test_a_recipe_says_what_was_chosen_on_which_texts_and_with_what(llama: Scope, ids: list[int]) -> None:
    texts = [ids, ids[5:]]
    made = llama.prune(keep=0.7, texts=texts, by="gradient").to_dict()
    assert made["choice"] == {"keep": 0.7, "even": False, "by": "gradient"}
    assert made["texts"] == {"count": 2, "sha256": hashlib.sha256(repr(texts).encode()).hexdigest()}
    assert set(made["versions"]) == {"torch", "transformers"}
    other = llama.prune(keep=0.7, texts=[ids, ids[6:]], by="gradient").to_dict()
    assert other["texts"]["sha256"] != made["texts"]["sha256"]
    named = llama.prune(heads=["0.1", "1.2"]).to_dict()
    assert (named["choice"], named["texts"], named["loss_nats"]) == ({}, None, None)
    assert named["removed"] == ["0.1", "1.2"]


@pytest.mark.parametrize(("lengths", "counted"), [([], 1024), ([23], 23), ([9, 23, 4], 23)])
def test_costs_are_counted_at_the_length_of_the_longest_text(
    llama: Scope, ids: list[int], lengths: list[int], counted: int
) -> None:
    pruned = llama.prune(heads=["0.0", "0.1"], texts=[ids[:length] for length in lengths])
    assert pruned.before.length == pruned.after.length == counted


def test_a_summary_counts_what_is_left(llama: Scope, ids: list[int]) -> None:
    pruned = llama.prune(heads=["0.0", "0.1", "2.3"], texts=[ids])
    said = str(pruned).splitlines()
    assert said[0] == f"{llama.shape.name}: 3 of 18 heads removed, 15 left"
    share = pruned.after.attention_parameters / pruned.before.attention_parameters - 1
    assert share < 0
    assert f"({share:+.0%})" in next(line for line in said if "attention's parameters" in line)
    assert pruned.loss is not None
    assert f"  loss {pruned.loss[0]:.3f} -> {pruned.loss[1]:.3f} nats per token" in said
    assert said[-1] == "  removed 0.0, 0.1, 2.3"


def test_at_first_order_a_head_that_helps_and_one_that_hurts_both_matter(llama: Scope, ids: list[int]) -> None:
    """The slope's sign says which way the loss goes; what goes first is what moves it least either way."""
    slopes = {entry.head: entry.loss.mean for entry in importance(llama.model, [ids], "gradient")}
    assert min(slopes.values()) < 0 < max(slopes.values())
    found = _scores(llama.model, [ids], "gradient")
    assert found == {head: pytest.approx(abs(slope)) for head, slope in slopes.items()}
    exact = {entry.head: entry.kl.mean for entry in importance(llama.model, [ids]) if entry.kl is not None}
    assert _scores(llama.model, [ids], "exact") == {head: pytest.approx(value) for head, value in exact.items()}
