"""The grammar: every sentence marks a query, a target and a distractor, at varying distances."""

from __future__ import annotations

import random
import re

import pytest

from headscope.heads.roles.probes.grammar import (
    COREFERENCE,
    LEAD,
    NEGATION,
    NOUN_TO_MODIFIER,
    VERB_TO_SUBJECT,
    WORDS,
    _fill,
    arcs,
)

GRAMMARS = {
    "coreference": COREFERENCE, "verb": VERB_TO_SUBJECT, "modifier": NOUN_TO_MODIFIER, "negation": NEGATION,
}  # fmt: skip


def word(text: str, span: tuple[int, int]) -> str:
    return text[span[0] : span[1]]


@pytest.mark.parametrize("name", GRAMMARS)
def test_marks_are_whole_words_of_the_sentence_and_three_different_ones(name: str) -> None:
    for arc in arcs(GRAMMARS[name], 120, 0):
        assert arc.text.startswith(LEAD)
        assert not re.search(r"[<>{}=]", arc.text), "no mark of a template is left in it"
        words = {match.span() for match in re.finditer(r"\w+", arc.text)}
        assert {arc.query, arc.target, arc.distractor} <= words
        assert len({arc.query, arc.target, arc.distractor}) == 3
        assert max(arc.target, arc.distractor) < arc.query, "what is looked for stands behind, for causal models"


@pytest.mark.parametrize("name", GRAMMARS)
def test_no_fixed_distance_finds_the_target(name: str) -> None:
    """The distance varies; and target and distractor are each the nearer one sometimes, but for adjectives."""
    found = arcs(GRAMMARS[name], 200, 0)
    nearer = sum(arc.target > arc.distractor for arc in found) / len(found)
    assert nearer == 1.0 if name == "modifier" else 0.15 < nearer < 0.85
    distances = [len(arc.text[arc.target[0] : arc.query[0]].split()) for arc in found]
    assert max(distances.count(distance) for distance in set(distances)) / len(found) <= 0.5


def test_the_target_and_its_distractor_are_of_one_class_and_never_one_word() -> None:
    for templates, kinds in ((VERB_TO_SUBJECT, ("person", "person")), (NOUN_TO_MODIFIER, ("adjective", "adjective"))):
        for arc in arcs(templates, 200, 1):
            target, other = word(arc.text, arc.target), word(arc.text, arc.distractor)
            assert (target in WORDS[kinds[0]], other in WORDS[kinds[1]]) == (True, True)
            assert target != other


def test_a_pronoun_agrees_with_its_person_and_not_with_the_other() -> None:
    seen = set()
    for arc in arcs(COREFERENCE, 200, 2):
        pronoun = word(arc.text, arc.query)
        same, other = ("woman", "man") if pronoun == "she" else ("man", "woman")
        assert word(arc.text, arc.target) in WORDS[same]
        assert word(arc.text, arc.distractor) in WORDS[other]
        seen.add(pronoun)
    assert seen == {"he", "she"}


def test_a_negated_word_is_behind_its_not() -> None:
    for arc in arcs(NEGATION, 60, 3):
        assert word(arc.text, arc.target) == "not"
        assert word(arc.text, arc.query) in WORDS["feeling"]
        assert word(arc.text, arc.distractor) in WORDS["adverb"]


@pytest.mark.parametrize("name", GRAMMARS)
def test_templates_are_taken_in_turn_and_seeds_repeat(name: str) -> None:
    templates = GRAMMARS[name]
    once, again, other = (arcs(templates, 2 * len(templates), seed) for seed in (5, 5, 6))
    assert once == again != other
    for number, arc in enumerate(once):
        parts = re.split(r"<[^>]+>|\{\w+\}", templates[number % len(templates)])
        assert re.fullmatch(r"\w+".join(map(re.escape, (LEAD + parts[0], *parts[1:]))), arc.text)


def test_words_of_a_class_do_not_repeat_in_a_sentence() -> None:
    for seed in range(60):
        arc = _fill("{person} {person} {person} <q:verb> <t:person> <d:person>", random.Random(seed))
        people = [each for each in arc.text.removeprefix(LEAD).split() if each in WORDS["person"]]
        assert len(people) == len(set(people)) == 5
