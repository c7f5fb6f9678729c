"""Targets that are guessed for a sentence of one's own."""

from __future__ import annotations

import pytest

from headscope.lab.teach.target_patterns import sentence_targets, split_words


def guessed(sentence: str) -> list[str]:
    """The arrows as words, without those of the previous token."""
    words = split_words(sentence)
    return [f"{words[start]} > {words[end]}" for target in sentence_targets(words)[:3] for start, end in target.arrows]


@pytest.mark.parametrize(
    ("sentence", "arrows"),
    [
        ("My old dog sleeps in the garden", ["sleeps > dog", "dog > old"]),
        ("The doctor told Anna that she was ill", ["told > doctor", "was > she", "she > doctor"]),
        ("The cat that chased the mouse was hungry", ["chased > cat", "was > cat"]),
        ("He said the dog was ill", ["said > He", "was > dog"]),
        ("A small boy in a red coat ran home", ["ran > boy", "boy > small", "coat > red"]),
        ("Anna saw the ship and waved to it", ["saw > Anna", "waved > Anna", "it > ship"]),
    ],
)
def test_arrows_of_sentences_people_write(sentence: str, arrows: list[str]) -> None:
    found = guessed(sentence)
    for arrow in arrows:
        assert arrow in found


@pytest.mark.parametrize("sentence", ["no no", "Run!", "x y z", "?!", "the the the", "it it it", "Ein Hund lief weg"])
def test_a_sentence_that_cannot_be_placed_keeps_the_previous_token(sentence: str) -> None:
    words = split_words(sentence)
    *_, previous = sentence_targets(words)
    assert len(previous.arrows) == len(words) - 1
    for target in sentence_targets(words):
        assert all(end < start for start, end in target.arrows)
