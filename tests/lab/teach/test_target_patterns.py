"""Sentences are split into words, and their arrows are guessed."""

from __future__ import annotations

import pytest

from headscope.errors import InputError
from headscope.lab.teach.target_patterns import SENTENCE, made_sentence, sentence_targets, split_words


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Well, it isn't.", ["Well", ",", "it", "isn't", "."]),
        ("a well-known thing!?", ["a", "well-known", "thing", "!", "?"]),
        ("it’s  spaced\nout", ["it’s", "spaced", "out"]),
        ("Ünï cödé 世界", ["Ünï", "cödé", "世界"]),
    ],
)
def test_words_and_marks_are_tokens(sentence: str, words: list[str]) -> None:
    assert split_words(sentence) == words


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "the sentence has no word; attention needs at least two, as in 'The tired horse"),
        ("alone", "the sentence has one word, 'alone'; attention needs at least two"),
        ("word " * 200, "the sentence has 200 words; at most 64"),
    ],
)
def test_a_sentence_of_too_few_or_too_many_words_is_refused(sentence: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_words(sentence)


def test_the_default_sentence_and_what_its_heads_should_find() -> None:
    words = split_words(SENTENCE)
    read = {
        target.name: [(words[start], words[end]) for start, end in target.arrows]
        for target in sentence_targets(split_words(SENTENCE))[:3]
    }
    assert read == {
        "Verb to subject": [("crossed", "horse"), ("was", "it")],
        "Noun to modifier": [("horse", "tired"), ("road", "narrow")],
        "Pronoun to antecedent": [("it", "horse")],
    }


@pytest.mark.parametrize("seed", range(40))
def test_made_sentences_follow_the_grammar_and_their_arrows(seed: int) -> None:
    sentence = made_sentence(seed)
    words = split_words(sentence)
    verb, noun, pronoun, previous = sentence_targets(words)
    assert " ".join(words) == sentence
    assert words[-3:-1] == ["it", "was"]
    (who, subject), (was, it) = verb.arrows
    assert (words[it], words[was]) == ("it", "was")
    assert who - subject in (1, 2)
    assert (who - subject == 2) == (words[who - 1] == "quickly")
    assert noun.arrows == ((subject, subject - 1), (who + 3, who + 2))
    assert pronoun.arrows == ((it, subject),)
    assert len(previous.arrows) == len(words) - 1
    assert all(key < query for target in (verb, noun, pronoun, previous) for query, key in target.arrows)
