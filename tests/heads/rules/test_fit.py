"""Fitting on patterns whose mixture is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headscope.heads.questions.token_features import CLASSES, TokenFeatures
from headscope.heads.rules.class_table import Cells, fit_table
from headscope.heads.rules.fit import Candidates, Fitted, _shortlist, fit_path, shares
from headscope.heads.rules.fit_heads import families
from headscope.heads.rules.library import built_in
from headscope.heads.rules.rule import Targeted
from headscope.models.protocol import Token

RULES = built_in()
AT = {rule.name: index for index, rule in enumerate(RULES)}
LENGTH = 96


def sample_text() -> TokenFeatures:
    words = ["<s>", " the", " horse", ",", " river", ".", " Anna", " of", " stone", " cold", " and", "ing"]
    chosen = torch.randint(1, len(words), (LENGTH,), generator=torch.Generator().manual_seed(3)).tolist()
    return TokenFeatures.of([Token(place, words[place]) for place in [0, *chosen[1:]]])


def candidates() -> tuple[Candidates, Cells]:
    rows = torch.arange(16, LENGTH)
    visible = torch.arange(LENGTH) <= rows[:, None]
    text = sample_text()
    return Candidates.of(Targeted(RULES, text).block(rows, visible), families(RULES)), Cells.of(text, rows, visible)


def made_of(rules: Candidates, **weights: float) -> Tensor:
    names = {name.replace("_", " "): weight for name, weight in weights.items()}
    return rules.mixture(Fitted([AT[name] for name in names], torch.tensor(list(names.values())), 0.0))


@pytest.mark.parametrize(
    "weights",
    [
        {"previous_token": 1.0},
        {"first_token": 0.6, "copies": 0.4},
        {"decay_4": 0.7, "first_token": 0.3},
        {"after_a_copy": 0.5, "first_token": 0.3, "previous_token": 0.2},
        {"previous_token": 0.95, "2_back": 0.05},
    ],
)
def test_a_mixture_is_found_again_with_its_weights(weights: dict[str, float]) -> None:
    rules, _ = candidates()
    pattern = made_of(rules, **weights)
    best = fit_path(pattern, rules, 4, rules.alone(pattern))[len(weights) - 1]
    found = {RULES[index].name: float(weight) for index, weight in zip(best.rules, best.weights, strict=True)}
    assert set(found) == {name.replace("_", " ") for name in weights}
    for name, weight in weights.items():
        assert found[name.replace("_", " ")] == pytest.approx(weight, abs=0.05)


def test_a_rule_yields_its_weight_where_it_has_no_target() -> None:
    rules, _ = candidates()
    copies = AT["after a copy of two"]
    mixed = rules.mixture(Fitted([copies, AT["first token"]], torch.tensor([0.8, 0.2]), 0.0))
    assert torch.allclose(mixed.sum(-1), torch.ones(len(mixed)), atol=1e-5)
    without = ~rules.applies[copies]
    assert bool(without.any())
    assert bool((mixed[without, 0] == 1).all())
    assert torch.allclose(mixed[~without, 0], torch.tensor(0.2), atol=1e-5)


def test_shares_equal_their_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    pattern, mixture = (torch.rand(5, 9, generator=generator).softmax(-1) for _ in range(2))
    found = shares(pattern, mixture)
    variation = 0.5 * (pattern - mixture).abs().sum(-1)
    assert torch.allclose(found.explained(), (1 - variation).mean(), atol=1e-6)
    rest, other = (part[:, 1:] / part[:, 1:].sum(-1, keepdim=True) for part in (pattern, mixture))
    mass = 1 - pattern[:, 0]
    wanted = (mass * (1 - 0.5 * (rest - other).abs().sum(-1))).sum() / mass.sum()
    assert torch.allclose(found.of_the_rest(), wanted, atol=1e-6)


def test_what_each_rule_explains_alone_equals_its_shares() -> None:
    rules, _ = candidates()
    pattern = made_of(rules, first_token=0.2, copies=0.3, decay_8=0.5)
    explained, rest = rules.alone(pattern)
    for name in ("first token", "previous token", "decay 4", "copies", "last commas", "matching bracket"):
        found = rules.shares(pattern, Fitted([AT[name]], torch.ones(1), 0.0))
        assert explained[AT[name]] == pytest.approx(float(found.explained()), abs=1e-5), name
        assert rest[AT[name]] == pytest.approx(float(found.of_the_rest()), abs=1e-5), name


def test_the_gradient_of_the_objective_is_its_slope_towards_each_rule() -> None:
    rules, _ = candidates()
    noise = torch.rand(len(rules.applies[0]), LENGTH, generator=torch.Generator().manual_seed(2))
    pattern = made_of(rules, first_token=0.2, copies=0.3, decay_8=0.5) * (0.5 + noise)
    pattern = pattern / pattern.sum(-1, keepdim=True)
    before = Fitted([AT["first token"], AT["decay 16"]], torch.tensor([0.3, 0.7]), 0.0)
    mixture = rules.mixture(before)
    slopes = rules.slopes(pattern, mixture)
    for name in ("decay 4", "copies", "last commas", "previous token"):
        rule, applies = rules.at(AT[name])
        moved = mixture + 1e-4 * applies[:, None] * (rule - mixture)
        grown = (shares(pattern.double(), moved.double()).objective() -
                 shares(pattern.double(), mixture.double()).objective()) / 1e-4  # fmt: skip
        assert float(slopes[AT[name]]) == pytest.approx(float(grown), abs=0.02), name


def test_rules_of_a_family_have_the_same_targets() -> None:
    rules, _ = candidates()
    assert {RULES[at].name for at in rules.relatives(AT["commas"])} == {
        "commas, near 3", "commas, near 8", "commas, near 24", "last commas"
    }  # fmt: skip
    assert rules.relatives(AT["first token"]) == []
    assert {RULES[at].name for at in rules.relatives(AT["decay 8"])} == {"decay 4", "decay 6", "decay 12", "decay 16"}


def test_the_short_list_holds_few_rules_of_a_family() -> None:
    rules, _ = candidates()
    slopes = torch.zeros(len(RULES))
    slopes[[AT[name] for name in ("decay 2", "decay 3", "decay 4", "decay 6", "decay 8", "decay 12")]] = 2.0
    slopes[[AT[name] for name in ("itself", "2 back", "copies", "commas, near 8", "last commas")]] = 1.0
    found = [RULES[at].name for at in _shortlist(slopes, rules, [AT["itself"]])]
    assert sum(name.startswith("decay") for name in found) == 2
    assert set(found) >= {"2 back", "copies", "commas, near 8", "last commas"}
    assert "itself" not in found


def test_more_rules_never_fit_worse_on_the_rows_of_the_fit() -> None:
    rules, _ = candidates()
    pattern = torch.rand(80, LENGTH, generator=torch.Generator().manual_seed(1)) * (rules.rules[AT["all tokens"]] > 0)
    pattern = pattern / pattern.sum(-1, keepdim=True)
    objectives = [fitted.objective for fitted in fit_path(pattern, rules, 4, rules.alone(pattern))]
    assert objectives == sorted(objectives)


def test_a_class_table_learns_which_classes_are_read() -> None:
    _, cells = candidates()
    capitals = CLASSES.index("capital")
    pattern = ((cells.key_class == capitals) * 9.0 + 1.0) * cells.visible
    pattern = pattern / pattern.sum(-1, keepdim=True)
    table, rows = fit_table(pattern, cells, (1e6,))
    assert float(shares(pattern, rows).explained()) > 0.97
    assert {key for _, key, _ in table.strongest(3)} == {"capital"}
    assert torch.allclose(table.rows(cells), rows, atol=1e-4)
