"""Models made on the lab's pages, and what a name means; the stored results of One or many."""

from __future__ import annotations

import pytest
from tests.lab.crafted import trained_heads

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages import four_heads, one_or_many
from headscope.app.pages.by_hand import HandRequest, hand_roles, open_by_hand
from headscope.app.pages.four_heads import HeadsRequest, MadeModels, SentenceRequest, open_heads
from headscope.app.pages.one_or_many import RunRequest
from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import SOLVED, stored_results


@pytest.fixture
def made() -> MadeModels:
    return MadeModels(ModelRegistry(), "me")


@pytest.mark.parametrize("sentence", ["a dog", "a red dog", "one red dog saw the old cat on a mat"])
def test_heads_of_a_sentence_of_any_length_open_in_the_microscope(made, sentence):
    opened = open_heads(made, HeadsRequest(**trained_heads(sentence, heads=2)))
    assert opened.text == sentence
    scope = made.registry.session(opened.model, "me").scope
    assert scope.shape.n_heads == 2
    assert scope.look(opened.text).pattern("0.0").shape == (len(sentence.split()), len(sentence.split()))


@pytest.mark.parametrize("other", [{"seed": 1}, {"d_head": 4}, {"sentence": "a red cat"}])
def test_equal_requests_give_the_same_model_and_others_another(made, other):
    usual = {"sentence": "a red dog", "heads": 2}
    requests = [HeadsRequest(**trained_heads(**usual | how)) for how in ({}, {}, other)]
    first, again, second = (open_heads(made, asked).model for asked in requests)
    assert first == again != second


def test_every_by_hand_model_is_listed_with_its_description_and_layers(made):
    roles = hand_roles()
    assert all(card.says.endswith(".") for card in roles)
    assert {card.role: card.layers for card in roles}["induction"] == 2
    for card in roles:
        opened = open_by_hand(made, HandRequest(role=card.role))
        scope = made.registry.session(opened.model, "me").scope
        assert len(scope.shape.sites) == card.layers
        look = scope.look(opened.text)
        assert "".join(token.text for token in look.tokens[1:]) == opened.text
        reads = look.pattern(f"{card.layers - 1}.0").argmax(-1).tolist()
        assert reads[14] == {
            "previous token": 13,
            "itself": 14,
            "separators": 6,
            "duplicate token": 4,
            "induction": 5,
        }.get(card.role, 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_generated_sentence_has_targets_within_its_words(seed):
    card = four_heads.sentence(SentenceRequest(seed=seed))
    again = four_heads.sentence(SentenceRequest(seed=seed))
    assert card == again
    assert all(0 <= key <= query < len(card.words) for target in card.targets for query, key in target.arrows)
    assert len(card.targets) > 1


@pytest.mark.parametrize("task", [0, 1])
def test_the_arms_of_a_task_have_about_the_same_parameters(task):
    chosen, ways = one_or_many._plan(RunRequest(experiment="arms", task=task))
    assert chosen is one_or_many.TASKS[task]
    assert ways[0].n_heads == chosen.lookups
    assert ways[1].d_head == Budget().d_model


def test_the_results_shown_are_the_stored_ones():
    card, stored = one_or_many.results(), stored_results()
    assert (card.seeds, card.steps) == (stored.seeds, stored.budget.steps)
    assert {each.n_heads * each.d_head for each in card.partition} == {8, 16, 32}
    for shown, own in zip(
        [*card.arms, *card.partition], [*stored.arms, *stored.partition, *stored.other_widths], strict=True
    ):
        assert (shown.arm, shown.accuracies) == (own.arm, own.accuracies)
        assert shown.caught_up is (own.mean >= SOLVED)
        assert shown.low <= shown.average <= shown.high
    assert len(card.rows) == one_or_many.SHOWN_ROWS
    for row in card.rows:
        assert [dict(row.pairs)[key] for key in row.asks] == row.answer
