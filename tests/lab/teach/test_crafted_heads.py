"""Heads that the page has trained form an ordinary model, which predicts the words that they attend to."""

from __future__ import annotations

import math

import pytest
import torch

import headscope
from headscope.lab.teach.crafted_heads import CraftedHeads, word_tokenizer
from headscope.lab.teach.target_patterns import SENTENCE, split_words

WORDS = split_words(SENTENCE)
ARROWS = {8: 2, 9: 8, 3: 2}  # it to horse, was to it, crossed to horse


@pytest.fixture(scope="module")
def crafted() -> CraftedHeads:
    """Two heads, of which the first attends along the arrows: its queries and keys know the places alone."""
    places = 8 * torch.eye(len(WORDS), 32)
    w_q, w_k = torch.zeros(2, 16, 32), torch.zeros(2, 16, 32)
    w_k[0] = torch.eye(16, 32) / 8
    for query in range(len(WORDS)):
        w_q[0, ARROWS.get(query, 0), query] = 7.5
    finds = torch.tensor([[at in ARROWS for at in range(len(WORDS))], [False] * len(WORDS)])
    return CraftedHeads(WORDS, finds, torch.zeros(12, 32), places, w_q.flatten(0, 1), w_k.flatten(0, 1))


def test_the_output_predicts_the_attended_words(crafted: CraftedHeads) -> None:
    tokenizer, model = word_tokenizer(WORDS), crafted.model()
    ids = tokenizer.encode(SENTENCE).ids
    assert ids == crafted.ids[0].tolist()
    assert tokenizer.decode(ids) == SENTENCE
    best = model(crafted.ids)[0].argmax(-1)
    for query, key in ARROWS.items():
        assert tokenizer.id_to_token(int(best[query])) == WORDS[key]


def test_it_opens_in_the_microscope_with_the_trained_patterns(crafted: CraftedHeads) -> None:
    with headscope.load(crafted.model(), tokenizer=word_tokenizer(WORDS)) as scope:
        look = scope.look(SENTENCE)
        for query, key in ARROWS.items():
            assert float(look.pattern("0.0")[query, key]) > 0.99
        torch.testing.assert_close(look.pattern("0.1")[3, :4], torch.full((4,), 0.25))


def test_equal_heads_give_equal_models(crafted: CraftedHeads) -> None:
    one, two = crafted.model(), crafted.model()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_answers_are_the_words_that_heads_with_a_target_attend_to() -> None:
    words = ["the", "cat", "saw", "the", "dog"]
    finds = torch.tensor([[False, False, True, False, True], [False, False, False, False, True]])
    empty = torch.zeros(5, 32), torch.zeros(5, 32), torch.zeros(2, 32), torch.zeros(2, 32)
    weights = torch.zeros(2, 5, 5)
    weights[:, :, 0] = 1
    weights[0, 2] = torch.tensor([0, 1.0, 0, 0, 0])
    weights[0, 4] = torch.tensor([0, 0.75, 0.25, 0, 0])
    weights[1, 4] = torch.tensor([0, 1.0, 0, 0, 0])
    answers = CraftedHeads(words, finds, *empty).answers(weights)
    assert answers.argmax(-1).tolist() == [1, 1, 2, 1, 2], "a row without a target rests on the first word"
    assert answers[4].tolist() == pytest.approx([0, 0, 1.75 / 2, 0.25 / 2, 0])
    assert math.isclose(float(answers.sum()), 5, rel_tol=1e-6)
