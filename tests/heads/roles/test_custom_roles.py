"""Custom roles: which rows are asked, for which keys, and beside which rivals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from tests.heads.controls import SIZES, WORDS, opened
from tests.lab.by_hand import HandSizes, by_hand

from headscope.attention.questions import Question
from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.heads.roles.custom_roles import own_role
from headscope.heads.roles.probes import grammar
from headscope.heads.roles.probes.probe import Batch
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.models.native import NativeModel
from headscope.models.protocol import Token

TEXTS = ["the horse met the man", "the man met the horse", "not a horse", "the man told the man"]


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary(opened(by_hand("induction", SIZES)))


def pairs(question: Question, item: int) -> set[tuple[int, int]]:
    query, key = question.query[item].tolist(), question.key[min(item, len(question.key) - 1)].tolist()
    return {
        (row, place)
        for row, asked in enumerate(query)
        for place, label in enumerate(key)
        if asked == label != -1 and not (question.exclude_self and row == place)
    }


def read(batch: Batch, item: int) -> list[str]:
    return [WORDS[token] for token in batch.ids[item].tolist()]


SAME = LabelRule("same word", lambda tokens: [token.id for token in tokens], lambda tokens: [token.id for token in tokens], True)  # fmt: skip  # noqa: E501


def test_only_rows_with_an_earlier_match_are_asked(words: Vocabulary) -> None:
    probe = own_role(SAME, TEXTS).probe.make(words, 99, 0)
    seen = 0
    for batch in probe.batches:
        for item in range(len(batch)):
            text = read(batch, item)
            wanted = batch.questions["same word"].wanted
            expected = {(row, place) for row in range(len(text)) for place in range(row) if text[place] == text[row]}
            behind = {(row, place) for row, place in pairs(wanted, item) if place < row}
            assert behind == expected
            assert {row for row, _ in pairs(wanted, item)} == {row for row, _ in expected}
            seen += 1
    assert seen == probe.n_inputs == 3, "a text in which nothing is said twice asks nothing"
    assert probe.description == "3 texts in which the question has an answer"


def test_rivals_are_shuffled_labels_and_the_nearest_offsets(words: Vocabulary) -> None:
    for batch in own_role(SAME, TEXTS).probe.make(words, 4, 0).batches:
        ask = batch.questions["same word"]
        assert set(ask.rivals) == {"the same labels, shuffled", "itself", "offset -1"}
        shuffled = ask.rivals["the same labels, shuffled"]
        assert torch.equal(shuffled.key.sort(1).values, ask.wanted.key.sort(1).values)
        assert torch.equal(shuffled.query, ask.wanted.query)
        for item in range(len(batch)):
            rows = {row for row, _ in pairs(ask.wanted, item)}
            assert pairs(ask.rivals["itself"], item) == {(row, row) for row in rows}
            assert pairs(ask.rivals["offset -1"], item) == {(row, row - 1) for row in rows}


def test_without_texts_the_grammar_writes_sentences_by_the_seed(words: Vocabulary) -> None:
    rule = token_class("full stops", r"\.")
    one, same, other = (own_role(rule).probe.make(words, 6, seed) for seed in (0, 0, 5))
    assert one.n_inputs == 6
    ids = [[batch.ids.tolist() for batch in probe.batches] for probe in (one, same, other)]
    assert ids[0] == ids[1] != ids[2]


def test_a_question_that_cannot_be_asked_gives_the_reason(words: Vocabulary) -> None:
    with pytest.raises(UntestableError, match="in none of the 2 texts does the question 'digits' have an answer"):
        own_role(token_class("digits", r"\d"), TEXTS[:2]).probe.make(words, 4, 0)
    bare = Vocabulary(NativeModel(by_hand("induction", HandSizes(vocabulary=64, context=96)), None, "bare"))
    with pytest.raises(UntestableError, match="it reads no text"):
        own_role(SAME, TEXTS).probe.make(bare, 4, 0)


def places(tokens: Sequence[Token]) -> list[int]:
    return list(range(len(tokens)))


def before(tokens: Sequence[Token]) -> list[int]:
    return [place - 1 for place in places(tokens)]


PERSON = set(grammar.WORDS["person"])
BEFORE = LabelRule("mine: the token before", before, places)
ITSELF = LabelRule("mine: itself", places, places)
BEFORE_PEOPLE = LabelRule(
    "before a person",
    lambda tokens: [place - 1 if token.text in PERSON else -1 for place, token in enumerate(tokens)],
    places,
)
ANYTHING = LabelRule("anything", lambda tokens: [1] * len(tokens), lambda tokens: [1] * len(tokens))
FIRST = LabelRule("mine: the first", lambda tokens: [0] * len(tokens), places)


@pytest.mark.parametrize(
    ("head", "rule", "rivals", "named"),
    [
        ("previous token", BEFORE, {"itself"}, True),
        ("itself", ITSELF, {"offset -1"}, True),
        ("first token", FIRST, {"itself", "offset -1"}, True),
        ("itself", BEFORE, {"itself"}, False),
        ("previous token", ITSELF, {"offset -1"}, False),
        ("previous token", BEFORE_PEOPLE, {"itself", "offset -1"}, False),
        ("first token", ANYTHING, {"itself", "offset -1"}, False),
    ],
    ids=lambda value: value.name if isinstance(value, LabelRule) else None,
)
def test_a_question_is_not_its_own_rival(head: str, rule: LabelRule, rivals: set[str], named: bool) -> None:
    """One's own "previous token" can be earned; where only some rows ask it, looking back is still no answer."""
    model = opened(by_hand(head, SIZES))
    role = own_role(rule)
    for batch in role.probe.make(Vocabulary(model), 4, 0).batches:
        assert set(batch.questions[rule.name].rivals) == {"the same labels, shuffled"} | rivals
    report = run_battery(model, RoleOptions(roles=(), own=(role,), controls=0, ablate=0))
    assert [finding.head for finding in report.findings] == (["0.0"] if named else [])
    assert report.trial(rule.name).tested


def test_one_text_in_which_question_and_offset_differ_keeps_the_rival(words: Vocabulary) -> None:
    """In three of these texts the question is the token before; in the one with a "not", the one before that."""

    def back(tokens: Sequence[Token]) -> list[int]:
        steps = 2 if any(token.text == "not" for token in tokens) else 1
        return [max(place - steps, -1) for place in places(tokens)]

    rule = LabelRule("one or two back", back, places)
    for texts, kept in ((TEXTS, True), ([text for text in TEXTS if "not" not in text], False)):
        for batch in own_role(rule, texts).probe.make(words, 4, 0).batches:
            assert ("offset -1" in batch.questions[rule.name].rivals) == kept


def test_a_name_that_the_battery_has_is_refused() -> None:
    with pytest.raises(InputError, match="a role called 'previous token' is there already; give yours another name"):
        RoleOptions(own=(own_role(replace_name(BEFORE, "previous token")),))
    with pytest.raises(InputError, match="a role called 'commas' is there already"):
        RoleOptions(own=(own_role(token_class("commas", ",")), own_role(token_class("commas", ";"))))


def replace_name(rule: LabelRule, name: str) -> LabelRule:
    return LabelRule(name, rule.query, rule.key, rule.exclude_self)
