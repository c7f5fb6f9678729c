"""Running on rules: forced patterns, generation, and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.heads.rules.conftest import OPTIONS, texts, without_means

import headscope
from headscope.errors import InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.cost import HOW, Cost, CostOptions, Replaced
from headscope.heads.rules.library import built_in
from headscope.heads.rules.mixture import Drawn
from headscope.heads.rules.report import Rules, open_rules
from headscope.heads.rules.sampled_rows import Drawing, own_text, sample_rows
from headscope.scope import Scope


@pytest.mark.parametrize("how", ["rules", "table", "position", "first"])
def test_without_means_following_rules_equals_forcing_their_patterns(opened: Scope, rules: Rules, how: str) -> None:
    rules = without_means(rules)
    ids = texts()[3]
    rows = torch.arange(len(ids))
    drawn = Drawn(built_in(), TokenFeatures.of(opened.look(ids).tokens), rows, rows <= rows[:, None])
    forced = [headscope.force(head, drawn.mixture(rules.mixture(head, how))) for head in ("0.1", "1.4", "2.0")]
    with opened.edit(*forced):
        wanted = opened.look(ids).logits
    with opened.edit(headscope.follow(rules, ["0.1", "1.4", "2.0"], how)):
        found = opened.look(ids).logits
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found, opened.look(ids).logits, atol=1e-2)


@pytest.mark.parametrize("how", ["rules", "position", "first"])
def test_what_is_not_explained_is_the_mean_of_the_fitting_rows(opened: Scope, rules: Rules, how: str) -> None:
    ids, head = texts()[3], "1.4"
    seen: dict[str, torch.Tensor] = {}
    for name, given in (("mixture", without_means(rules)), ("both", rules)):
        with opened.edit(headscope.follow(given, head, how)):
            look = opened.look(ids)
            seen[name] = look.z("1")[4]
    mean = torch.tensor(rules[head].mean_z)
    share = {
        "rules": rules[head].explained.value, "position": rules[head].explained_by_position.value,
        "first": rules[head].first,
    }[how]  # fmt: skip
    assert 0 < share < 1
    assert torch.allclose(seen["both"], share * seen["mixture"] + (1 - share) * mean, atol=1e-4)


def test_the_mean_is_taken_over_the_rows_of_the_fit(opened: Scope, rules: Rules) -> None:
    parts = [own_text(opened.model.prepare(ids)) for ids in texts()[::3]]
    sample = sample_rows(opened.model, parts, built_in(), Drawing(["1"], OPTIONS.fit_rows, OPTIONS.seed, False))
    rows = [opened.look(ids).z("1")[4][at] for ids, at in zip(texts()[::3], sample.rows, strict=True)]
    assert torch.allclose(torch.tensor(rules["1.4"].mean_z), torch.cat(rows).mean(0), atol=1e-4)


def test_generation_with_a_cache_follows_rules_as_whole_looks_do(opened: Scope, rules: Rules) -> None:
    lengths = []
    for ids in texts()[:3]:
        with opened.edit(headscope.follow(rules)):
            made = [token.id for token in opened.generate(ids, n_tokens=4).tokens]
            expected: list[int] = []
            for _ in made:
                expected.append(int(opened.look(ids + expected).logits[-1].argmax()))
        assert made == expected
        lengths.append(len(made))
    assert max(lengths) > 1  # a text may end at once


def test_several_texts_at_once_are_read_one_by_one(opened: Scope, rules: Rules) -> None:
    with opened.edit(headscope.follow(rules, "1.2")):
        together = opened.look(texts()[:2])
        alone = [opened.look(ids) for ids in texts()[:2]]
    for one, other in zip(together, alone, strict=True):
        assert torch.allclose(one.logits, other.logits, atol=1e-4)


def test_an_edit_leaves_no_hook_behind(opened: Scope, rules: Rules) -> None:
    embedding = opened.model.model.get_input_embeddings()  # type: ignore[operator]
    before = len(embedding._forward_pre_hooks)
    with opened.edit(headscope.follow(rules, "1.2")):
        opened.look(texts()[0])
    assert len(embedding._forward_pre_hooks) == before


def test_where_mean_ablation_loses_nothing_no_share_of_it_is_recovered() -> None:
    cost = Cost(2.0, (Replaced("random 25%", ("0.0",), dict.fromkeys(HOW, 2.0) | {"rules": 2.5}),))
    assert cost.recovered("random 25%") is None
    assert cost.to_dict()["summary"]["random 25%"]["rules"]["recovered"] is None
    assert "recovered – (with tables –" in repr(cost)


def test_the_cost_compares_equal_heads_and_counts_what_is_recovered(opened: Scope, rules: Rules) -> None:
    cost = rules.cost(texts()[:2], CostOptions(draws=2, importance="gradient"))
    assert cost.choices() == ("random 25%", "random 50%", "most important 25%", "best explained 25%")
    assert [len(each.heads) for each in cost.replaced] == [4, 4, 9, 9, 4, 4]
    assert all(set(each.loss) == set(HOW) for each in cost.replaced)
    first = cost.replaced[4]
    lost = first.loss["rules"] - cost.loss
    assert cost.perplexity("most important 25%") == pytest.approx(math.exp(lost))
    assert cost.recovered("most important 25%") == pytest.approx(1 - lost / (first.loss["mean"] - cost.loss))
    assert cost.recovered("random 25%", "mean") == pytest.approx(0)
    written = cost.to_dict()["summary"]["random 50%"]["position"]
    assert written["recovered"] == pytest.approx(cost.recovered("random 50%", "position"), abs=1e-4)


def test_a_stopped_cost_goes_on_from_the_losses_that_are_measured(opened: Scope, rules: Rules) -> None:
    options = CostOptions(shares=(0.25,), draws=1, importance="gradient")
    kept: dict[str, float] = {}
    whole = rules.cost(texts()[:1], options, kept)
    assert len(kept) == 1 + 3 * len(HOW)
    first = next(name for name in kept if name.endswith("position"))
    kept[first] = 7.0
    again = rules.cost(texts()[:1], options, kept)
    assert again.replaced[0].loss == {**whole.replaced[0].loss, "position": 7.0}
    assert again.replaced[1:] == whole.replaced[1:]


def test_unknown_ways_and_absent_models_are_refused(opened: Scope, rules: Rules, tmp_path: object) -> None:
    with pytest.raises(InputError, match=r"how='zero'.*'position'"):
        headscope.follow(rules, "0.1", how="zero")
    with pytest.raises(InputError, match="needs the model"):
        replace(rules, opened=None).cost(texts())
    with pytest.raises(InputError, match="no heads were chosen by 'worst'"):
        rules.cost(texts()[:1], CostOptions(draws=1, shares=(0.2,), importance="gradient")).recovered("worst")


def test_rules_of_your_own_have_to_be_given_again(opened: Scope, tmp_path: object) -> None:
    even = headscope.LabelRule("even", lambda t: [0] * len(t), lambda t: [x.id % 2 for x in t])
    options = replace(OPTIONS, rules=(even,))
    rules = opened.rules(texts(), options)
    assert "even" in rules.recipe["rules"]
    path = f"{tmp_path}/rules.json"
    rules.save(path)
    assert {rule.name for rule in rules.own} <= set(rules.known())
    assert "even" not in open_rules(path, opened.model).known()
