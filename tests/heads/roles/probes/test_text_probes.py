"""Probes made of English: queries, targets, rivals and answers, read back as words."""

from __future__ import annotations

import re

import pytest
from tests.heads.controls import SIZES, WORDS, opened
from tests.lab.by_hand import HandSizes, by_hand

from headscope.attention.questions import Question
from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.probes import text_probes
from headscope.heads.roles.probes.grammar import (
    COREFERENCE,
    LEAD,
    NEGATION,
    NOUN_TO_MODIFIER,
    VERB_TO_SUBJECT,
    arcs,
)
from headscope.heads.roles.probes.grammar import WORDS as CLASSES
from headscope.heads.roles.probes.probe import ProbeQuestion
from headscope.heads.roles.probes.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary(opened(by_hand("induction", SIZES)))


@pytest.fixture(scope="module")
def roomy() -> Vocabulary:
    """The same words, with room for a long text."""
    model = opened(by_hand("induction", HandSizes(vocabulary=SIZES.vocabulary, context=256)))
    return Vocabulary(model)


def place(question: Question, item: int) -> tuple[int, list[int]]:
    """The one row that asks, and the keys it asks for."""
    (row,) = (question.query[item] == 1).nonzero().flatten().tolist()
    keys = question.key[item if len(question.key) > 1 else 0]
    return row, (keys == 1).nonzero().flatten().tolist()


def test_the_receiver_is_the_person_named_once(words: Vocabulary) -> None:
    probe = text_probes.indirect_objects(words, 24, seed=0)
    for batch in probe.batches:
        assert batch.logit_difference is not None
        for item, ids in enumerate(batch.ids.tolist()):
            end = int(batch.logit_difference.position[item])
            text = [WORDS[token] for token in ids[: end + 1]]
            people = [word for word in text if word in text_probes.NAMES]
            right, wrong = (
                WORDS[int(part[item])] for part in (batch.logit_difference.right, batch.logit_difference.wrong)
            )
            assert (people.count(right), people.count(wrong)) == (1, 2)
            assert text[-1] == "to"
            assert not {WORDS[int(token)] for token in batch.logit_difference.absent[item]} & set(people)
            row, (found,) = place(batch.questions["receiver"].wanted, item)
            assert (row, text[found]) == (end, right)
            _, (first,) = place(batch.questions["receiver"].rivals["the giver"], item)
            _, (again,) = place(batch.questions["receiver"].rivals["the giver again"], item)
            assert first < again
            assert text[first] == text[again] == wrong


def test_each_pair_of_names_comes_in_both_orders(words: Vocabulary) -> None:
    (batch,) = text_probes.indirect_objects(words, 24, seed=0).batches
    assert batch.logit_difference is not None
    order = []
    for item, ids in enumerate(batch.ids.tolist()):
        _, (receiver,) = place(batch.questions["receiver"].wanted, item)
        _, (giver,) = place(batch.questions["receiver"].rivals["the giver"], item)
        order.append(receiver < giver)
        assert len(ids) == batch.ids.shape[1]
    assert order[::2] == [not each for each in order[1::2]]
    assert sum(order) == len(order) // 2


def test_a_counterfactual_is_the_same_sentence_with_a_third_person_acting(words: Vocabulary) -> None:
    (batch,) = text_probes.indirect_objects(words, 12, seed=3).batches
    assert batch.counterfactual is not None
    for ids, twin in zip(batch.ids.tolist(), batch.counterfactual.ids.tolist(), strict=True):
        (changed,) = [at for at, (one, other) in enumerate(zip(ids, twin, strict=True)) if one != other]
        people = [WORDS[token] for token in twin if WORDS[token] in text_probes.NAMES]
        assert WORDS[ids[changed]] in text_probes.NAMES
        assert len(set(people)) == 3


def test_a_needle_is_asked_for_at_the_end_and_occurs_once(roomy: Vocabulary) -> None:
    probe = text_probes.needle(roomy, 12, seed=0)
    for batch in probe.batches:
        assert batch.logit_difference is not None
        for item, ids in enumerate(batch.ids.tolist()):
            end = int(batch.logit_difference.position[item])
            assert end < text_probes.NEEDLE_TOKENS
            text = " ".join(WORDS[token] for token in ids[1 : end + 1])
            asked = re.search(r"So we know that the (\w+) box holds the$", text)
            assert asked is not None
            facts = dict(re.findall(r"The (\w+) box holds the (\w+) \.", text))
            right, wrong = (
                WORDS[int(part[item])] for part in (batch.logit_difference.right, batch.logit_difference.wrong)
            )
            assert facts[asked[1]] == right
            assert wrong in facts.values()
            assert wrong != right
            _, keys = place(batch.questions["needle"].wanted, item)
            assert [WORDS[ids[key]] for key in keys] == [right]
            assert text.split().count(right) == 1
            absent = {WORDS[int(token)] for token in batch.logit_difference.absent[item]}
            assert not absent & set(text.split())


GRAMMARS = {
    "coreference": (BATTERY["coreference"].probe.make, COREFERENCE, {"he", "she"}),
    "verb to subject": (BATTERY["verb to subject"].probe.make, VERB_TO_SUBJECT, set(CLASSES["verb"])),
    "noun to modifier": (BATTERY["noun to modifier"].probe.make, NOUN_TO_MODIFIER, set(CLASSES["object"])),
    "negation": (BATTERY["negation"].probe.make, NEGATION, set(CLASSES["feeling"])),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_an_arc_leads_from_its_query_word_to_its_target(words: Vocabulary, name: str) -> None:
    make, templates, askers = GRAMMARS[name]
    probe = make(words, 16, 0)
    sentences = arcs(templates, 16, 0)
    seen = 0
    for batch in probe.batches:
        ask: ProbeQuestion = batch.questions["arc"]
        for item, ids in enumerate(batch.ids.tolist()):
            arc = sentences[seen]
            row, keys = place(ask.wanted, item)
            assert WORDS[ids[row]] in askers
            assert [WORDS[ids[key]] for key in keys] == [arc.text[slice(*arc.target)]]
            _, others = place(ask.rivals["the distractor"], item)
            assert [WORDS[ids[key]] for key in others] == [arc.text[slice(*arc.distractor)]]
            assert not set(keys) & set(others)
            seen += 1
    assert seen == 16


@pytest.mark.parametrize("name", GRAMMARS)
def test_no_fixed_offset_finds_more_than_half_of_the_targets(words: Vocabulary, name: str) -> None:
    make, _, _ = GRAMMARS[name]
    assert make(words, 48, 0).baselines["arc"] <= 0.5


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_nearer_of_target_and_distractor_is_not_always_the_target(name: str) -> None:
    _, templates, _ = GRAMMARS[name]
    nearer = [arc.target > arc.distractor for arc in arcs(templates, 48, 0)]
    assert any(nearer)
    if name != "noun to modifier":  # a noun's own adjective stands nearest in English
        assert not all(nearer)


@pytest.mark.parametrize("templates", [each[1] for each in GRAMMARS.values()], ids=list(GRAMMARS))
def test_a_sentence_is_whole_and_its_spans_are_words(templates: tuple[str, ...]) -> None:
    for arc in arcs(templates, 40, seed=9):
        assert arc.text.startswith(LEAD)
        assert arc.text.endswith(".")
        assert not set("<>{}") & set(arc.text)
        for start, stop in (arc.query, arc.target, arc.distractor):
            assert re.fullmatch(r"\w+", arc.text[start:stop])
            assert start >= len(LEAD)
        assert len({arc.query, arc.target, arc.distractor}) == 3


def test_a_pronoun_agrees_with_its_antecedent_alone() -> None:
    for arc in arcs(COREFERENCE, 64, seed=2):
        pronoun, right, wrong = (arc.text[slice(*span)] for span in (arc.query, arc.target, arc.distractor))
        mine, other = ("man", "woman") if pronoun == "he" else ("woman", "man")
        assert right in CLASSES[mine]
        assert wrong in CLASSES[other]
