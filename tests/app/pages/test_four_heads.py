"""Models made on the lab's pages: what is streamed while they train, what is cached, and what a name means."""

from __future__ import annotations

import numpy as np
import pytest

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages import four_heads, one_or_many
from headscope.app.pages.by_hand import HandRequest, hand_roles, open_by_hand
from headscope.app.pages.four_heads import (
    CraftBegun,
    CraftDone,
    CraftRequest,
    CraftStep,
    HeadTrainer,
    MadeModels,
    SentenceRequest,
    TargetPattern,
)
from headscope.app.pages.one_or_many import RunRequest
from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import SOLVED, stored_results


@pytest.fixture
def trainer() -> HeadTrainer:
    return HeadTrainer()


@pytest.fixture
def made() -> MadeModels:
    return MadeModels(ModelRegistry(), "me")


def request_of(**how) -> CraftRequest:
    targets = [TargetPattern(name="Back", arrows=[(1, 0), (2, 1)]), TargetPattern(name="First", arrows=[(2, 0)])]
    return CraftRequest(**{"sentence": "a red dog", "targets": targets, "steps": 5, **how})


def frames_of(trainer: HeadTrainer, asked: CraftRequest) -> list[tuple[object, dict[str, np.ndarray]]]:
    frames: list[tuple[object, dict[str, np.ndarray]]] = []
    trainer.craft(asked, lambda card, arrays: frames.append((card, arrays)))
    return frames


def test_training_emits_begun_then_steps_then_done(trainer):
    begun, *steps, done = frames_of(trainer, request_of())
    assert [type(card) for card, _ in (begun, steps[0], done)] == [CraftBegun, CraftStep, CraftDone]
    assert begun[1]["wanted"].shape == (2, 3, 3)
    assert begun[1]["finds"].tolist() == [[0, 1, 1], [0, 0, 1]]
    assert [card.step for card, _ in steps] == sorted(card.step for card, _ in steps)
    for _, arrays in steps:
        np.testing.assert_allclose(arrays["patterns"].sum(-1), 1.0, atol=1e-5)
        assert not np.triu(arrays["patterns"], 1).any(), "no head looks ahead"
    assert done[1]["losses"].shape == (6, 2), "before the first step and after each"


def test_opening_trained_heads_does_not_train_them_again(trainer, made, monkeypatch):
    frames_of(trainer, request_of())
    monkeypatch.setattr(four_heads, "craft", lambda *_: pytest.fail("trained again"))
    opened = trainer.open_crafted(request_of(), made)
    assert made.registry.session(opened.model, "me").scope.shape.n_heads == 2


@pytest.mark.parametrize("sentence", ["a dog", "a red dog", "one red dog saw the old cat on a mat"])
def test_heads_of_a_sentence_of_any_length_open_in_the_microscope(trainer, made, sentence):
    asked = request_of(sentence=sentence, targets=[TargetPattern(name="Back", arrows=[(1, 0)])])
    opened = trainer.open_crafted(asked, made)
    assert opened.text == sentence
    look = made.registry.session(opened.model, "me").scope.look(opened.text)
    assert look.pattern("0.0").shape == (len(sentence.split()), len(sentence.split()))


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"steps": 6}, {"d_head": 4}, {"places": False}, {"sentence": "a red cat"}]
)
def test_equal_requests_give_the_same_model_and_others_another(trainer, made, other):
    first, again, second = (trainer.open_crafted(request_of(**how), made).model for how in ({}, {}, other))
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
def test_a_generated_sentence_has_targets_within_its_words(trainer, seed):
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
        assert shown.low <= shown.mean <= shown.high
    assert len(card.rows) == one_or_many.SHOWN_ROWS
    for row in card.rows:
        assert [dict(row.pairs)[key] for key in row.asks] == row.answer
