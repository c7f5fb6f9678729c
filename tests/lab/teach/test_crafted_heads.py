"""Trained heads reach their targets or explain why not, and form an ordinary model."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import headscope
from headscope.errors import InputError
from headscope.lab.teach.crafted_heads import Crafted, CraftSettings, craft
from headscope.lab.teach.target_patterns import (
    SENTENCE,
    Target,
    previous_token,
    sentence_targets,
    split_words,
)


@pytest.fixture(scope="module")
def crafted() -> Crafted:
    return craft(SENTENCE, sentence_targets(split_words(SENTENCE)))


@pytest.mark.soak
def test_four_heads_are_trained_in_two_seconds() -> None:
    start = time.process_time()
    craft(SENTENCE, sentence_targets(split_words(SENTENCE)), CraftSettings(seed=3))
    assert time.process_time() - start <= 2


def test_four_heads_hit_their_targets() -> None:
    crafted = craft(SENTENCE, sentence_targets(split_words(SENTENCE)), CraftSettings(seed=3))
    assert [head.name for head in crafted.heads][2] == "Pronoun to antecedent"
    for head in crafted.heads:
        assert head.hit >= 0.9
        assert not head.misses


def test_the_output_predicts_the_attended_words(crafted: Crafted) -> None:
    ids = crafted.tokenizer.encode(SENTENCE).ids
    assert ids == crafted.ids[0].tolist()
    assert crafted.tokenizer.decode(ids) == SENTENCE
    best = crafted.model(crafted.ids)[0, crafted.words.index("it")].topk(2).indices
    named = {crafted.tokenizer.id_to_token(int(token)) for token in best}
    assert named == {"horse", "because"}


def test_it_opens_in_the_microscope(crafted: Crafted) -> None:
    position = crafted.words.index("it")
    scope = headscope.load(crafted.model, tokenizer=crafted.tokenizer)
    try:
        look = scope.look(SENTENCE)
        torch.testing.assert_close(look.pattern("0.2")[position], crafted.snapshots[-1].patterns[2, position])
    finally:
        scope.close()


def test_a_target_pattern_with_two_keys_shares_its_row() -> None:
    wanted = ((1.0, 0, 0, 0), (0, 0, 0, 0), (0.5, 0.5, 0, 0), (0, 0.3, 0.7, 0))
    crafted = craft("red green blue red", [Target("pattern", **painted(wanted))])
    assert crafted.heads[0].hit >= 0.9
    torch.testing.assert_close(crafted.snapshots[-1].patterns[0, 3], torch.tensor([0, 0.3, 0.7, 0]), atol=0.05, rtol=0)


def painted(rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Arrows and shares of a pattern."""
    cells = [(start, end) for start, row in enumerate(rows) for end, share in enumerate(row) if share]
    return {"arrows": tuple(cells), "shares": tuple(rows[start][end] for start, end in cells)}


REACHED = 0.01
"""How far any weight of a crafted head may be from its wanted share, after the usual 120 steps."""


@pytest.mark.parametrize("seed", range(3))
def test_four_heads_reach_unequal_shares(seed: int) -> None:
    draw, words = random.Random(seed), split_words(SENTENCE)
    targets, wanted = [], []
    for head in range(4):
        rows: list[tuple[float, ...]] = [()]
        for position in range(1, len(words)):
            parts = {
                key: draw.choice((1, 2, 3, 5, 7)) for key in draw.sample(range(position + 1), min(3, position + 1))
            }
            rows.append(tuple(parts.get(key, 0) / sum(parts.values()) for key in range(len(words))))
        targets.append(Target(f"head {head}", **painted(rows)))
        wanted.append(rows)
    crafted = craft(SENTENCE, targets)
    patterns = crafted.snapshots[-1].patterns
    for head in range(4):
        for position, row in enumerate(wanted[head]):
            if row:
                assert patterns[head, position].tolist() == pytest.approx(list(row), abs=REACHED)
    assert not any(head.misses for head in crafted.heads)


def test_any_pattern_on_a_short_sentence_is_reached() -> None:
    """Sixteen heads, rows of any shape. Few words leave a head little room, so the tolerance is wider."""
    draw, patterns_wanted = random.Random(1), []
    for _ in range(16):
        rows: list[tuple[float, ...]] = []
        for position in range(5):
            parts = [draw.choice((0, 0, 1, 2, 3, 9)) for _ in range(position + 1)]
            rows.append(tuple(part / sum(parts) for part in parts) + (0.0,) * (4 - position) if any(parts) else ())
        patterns_wanted.append(tuple(rows))
    crafted = craft("so it goes and went", [Target("any", **painted(wanted)) for wanted in patterns_wanted])
    for head, wanted in enumerate(patterns_wanted):
        reached = crafted.snapshots[-1].patterns[head]
        for position, row in enumerate(wanted):
            if row:
                assert reached[position].tolist() == pytest.approx(list(row), abs=5 * REACHED)
        assert crafted.targets[head].rows(crafted.words)[1].tolist() == [bool(row) for row in wanted]


def test_a_head_that_is_too_small_is_diagnosed() -> None:
    sentence = " ".join(f"word{number}" for number in range(40))
    targets = [previous_token(split_words(sentence))]
    crafted = craft(sentence, targets, CraftSettings(d_head=1, steps=60))
    assert crafted.heads[0].misses
    assert any("d_head=1 is too small: a head of 32 numbers reaches" in row.why for row in crafted.heads[0].misses)


def test_two_words_that_look_alike_are_named() -> None:
    sentence = "the cat saw the dog"
    settings = CraftSettings(positions=False)
    keys = craft(sentence, [Target("key", arrows=((4, 3),))], settings)
    assert keys.heads[0].misses[0].why.startswith("'the' at 0 and at 3 look alike without positions")
    asked, sentence = Target("query", arrows=((2, 1), (4, 0))), "so cat the dog the"
    queries = craft(sentence, [asked], settings)
    assert any("have the same query without positions" in row.why for row in queries.heads[0].misses)
    assert not craft(sentence, [asked]).heads[0].misses


ONE = [Target("t", arrows=((1, 0),))]


@pytest.mark.parametrize(
    ("sentence", "targets", "message"),
    [
        ("", ONE, "the sentence has no word; attention needs at least two, as in 'The tired horse"),
        ("alone", ONE, "the sentence has one word, 'alone'; attention needs at least two"),
        ("word " * 200, ONE, "the sentence has 200 words; at most 64"),
        ("two words", [], "0 targets: give 1 to 16, one per head"),
        ("two words", [Target("t", arrows=((0, 1),))], r"t: 'two' \(0\) cannot attend ahead to 'words' \(1\)"),
        ("two words", [Target("t", arrows=((5, 1),))], "the arrow 5 → 1 is outside the words 0–1"),
        (
            "two words",
            [Target("t", arrows=((1, 0), (1, 1)), shares=(1.0, 1.0))],
            r"the row of 'words' \(1\) adds up to 2; a softmax",
        ),
        ("two words", [Target("t", arrows=((0, 0),), shares=(0.2,))], "adds up to 0.2; .*give more"),
        (
            "two words",
            [Target("t", arrows=((1, 0), (1, 1)), shares=(2.0, -1.0))],
            "shares are numbers from 0 to 1",
        ),
    ],
)
def test_bad_input_is_refused(sentence: str, targets: list[Target], message: str) -> None:
    with pytest.raises(InputError, match=message):
        craft(sentence, targets)
