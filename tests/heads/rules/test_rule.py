"""Rules against distributions written out cell by cell."""

from __future__ import annotations

import math

import pytest
import torch

from headscope import LabelRule
from headscope.errors import InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.library import built_in
from headscope.heads.rules.rule import Rule, Targeted, as_rules, before, last, near
from headscope.models.protocol import Token

WORDS = [
    "<s>",
    "My",
    " white",
    " horse",
    ",",
    " my",
    " black",
    " horse",
    ".",
    " White",
    " (",
    "5",
    " x",
    ")",
    "\n",
    "ing",
]
BUILT_IN = {rule.name: rule for rule in built_in()}


def features(words: list[str] = WORDS) -> TokenFeatures:
    numbers: dict[str, int] = {}
    return TokenFeatures.of([Token(numbers.setdefault(word, len(numbers)), word) for word in words])


def row(rule: Rule, query: int, text: TokenFeatures | None = None) -> dict[int, float]:
    """The keys that a query has under a rule, and their weights."""
    text = text or features()
    visible = (torch.arange(len(text)) <= query)[None]
    weights = Targeted([rule], text).block(torch.tensor([query]), visible)[0, 0]
    return {key: round(float(weight), 4) for key, weight in enumerate(weights) if weight > 0}


@pytest.mark.parametrize(
    ("name", "query", "keys"),
    [
        ("first token", 6, [0]),
        ("previous token", 6, [5]),
        ("itself", 6, [6]),
        ("3 back", 6, [3]),
        ("copies", 7, [3]),
        ("after a copy", 7, [4]),
        ("two after a copy", 7, [5]),
        ("same word anywhere", 5, [1]),
        ("after the same word", 5, [2]),
        ("after a copied content word", 7, [4]),
        ("after a copied content word", 8, []),
        ("punctuation", 8, [4]),
        ("last punctuation", 12, [10]),
        ("sentence ends", 12, [8]),
        ("commas", 9, [4]),
        ("function words", 8, [1, 5]),
        ("capitals", 12, [1, 9]),
        ("digits", 12, [11]),
        ("matching bracket", 13, [10]),
        ("matching bracket", 12, []),
        ("open bracket", 12, [10]),
        ("start of sentence", 11, [9]),
        ("start of line", 7, []),
        ("previous word", 7, [6]),
        ("same sentence", 11, [9, 10]),
        ("separators", 15, [14]),
    ],
)
def test_a_built_in_rule_selects_the_keys_that_its_name_says(name: str, query: int, keys: list[int]) -> None:
    assert list(row(BUILT_IN[name], query)) == keys


def test_weights_of_a_row_add_up_to_one_and_fall_with_distance() -> None:
    found = row(BUILT_IN["decay 2"], 6)
    assert sum(found.values()) == pytest.approx(1, abs=1e-3)
    assert found[4] / found[6] == pytest.approx(math.exp(-1), abs=1e-3)
    assert 0 not in found  # the first key belongs to the first token's rule alone


def test_near_and_last_change_weights_and_keep_targets() -> None:
    capitals = BUILT_IN["capitals"]
    closer = row(near(capitals, 4.0), 12)
    assert set(closer) == {1, 9}
    assert closer[1] / closer[9] == pytest.approx(math.exp(-2), abs=1e-3)
    assert row(last(capitals), 12) == {9: 1.0}


def test_before_takes_targets_that_stand_directly_before_others() -> None:
    assert row(before(BUILT_IN["content words"], BUILT_IN["punctuation"]), 12) == {3: 0.3333, 7: 0.3333, 9: 0.3333}


def test_a_users_question_is_a_rule_with_its_combinations() -> None:
    vowels = LabelRule(
        "vowels", lambda t: [1] * len(t), lambda t: [1 if x.text.strip()[:1] in tuple("aeiou") else -1 for x in t]
    )
    rules = as_rules([vowels])
    assert [rule.name for rule in rules] == ["vowels", "vowels, near 8", "last vowels"]
    assert row(rules[0], 15) == {15: 1.0}  # "ing"; the question itself does not exclude the query's own position


def test_labels_of_a_wrong_length_are_refused_with_the_rule_s_name() -> None:
    wrong = Rule("short", "nothing", lambda text: (torch.ones(3).long(), torch.ones(3).long()))
    with pytest.raises(InputError, match=r"query labels of the rule 'short' are torch.int64 of shape \(3,\).*16"):
        row(wrong, 3)


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"near=0\.0"):
        near(BUILT_IN["capitals"], 0.0)


def test_names_of_built_in_rules_are_unique_and_position_comes_first() -> None:
    rules = built_in()
    assert len({rule.name for rule in rules}) == len(rules)
    firsts = [rule.position for rule in rules]
    assert firsts == sorted(firsts, reverse=True)
