"""The embedded model's training: its mixture of rows, the tasks of its film, and the tasks on which it is judged."""

from __future__ import annotations

import pytest
import torch
from bench.curriculum import held_out
from bench.curriculum.mixture import KINDS
from bench.judged_tasks import Task, ablated, ablation_table, answers
from bench.train_model import EMBEDDED, WEIGHTS, Mixture, film_tasks, paragraphs, task_text
from tokenizers import Tokenizer

from headscope.errors import InputError
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.text_files import Document, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """One in which the answers of the judged questions are single tokens."""
    words = [*held_out.NAMES, *held_out.THINGS]
    texts = [" ".join(["", *[word] * 50]) for word in words]
    return train_tokenizer([*texts, "Last week they visited the hotel together and lost it. " * 20], 700)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> GPT:
    config = GPTConfig(vocabulary=tokenizer.get_vocab_size(), d_model=16, n_layers=2, n_heads=2, context=256)
    return GPT(config, seed=1).eval()


def test_the_kinds_of_text_share_the_generated_rows_of_both_stages() -> None:
    kinds = Mixture(WEIGHTS, {"tables": 0.5}, 1.0, 0).kinds()
    for stage in (0, 1):
        assert sum(both[stage] for both in kinds.values()) == pytest.approx(WEIGHTS["generated"])
    assert kinds["tables"][0] == max(both[0] for both in kinds.values())
    assert set(kinds) == {name for name, kind in KINDS.items() if kind.share or kind.long_share}


def test_a_kind_without_a_share_of_its_own_takes_part_in_the_short_stage_when_it_is_named() -> None:
    kinds = Mixture(WEIGHTS, {"exchanges": 0.34, "deeds of novels": 0.0}, 1.0, 0).kinds()
    assert kinds["exchanges"] == pytest.approx((0.34 * WEIGHTS["generated"], 0.0))
    assert kinds["deeds of novels"][0] == 0


def test_more_than_a_fifth_of_generated_rows_and_unknown_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="25% of rows would be generated; at most a fifth may"):
        Mixture({"novels": 0.6, "code": 0.15, "generated": 0.25}, {}, 1.0, 0)
    with pytest.raises(InputError, match="unknown: poems"):
        Mixture(WEIGHTS, {"poems": 0.5}, 1.0, 0)


def test_the_recipe_fits_into_thirty_megabytes_with_two_bytes_per_weight() -> None:
    with torch.device("meta"):
        n_weights = GPT(EMBEDDED.gpt(EMBEDDED.vocabulary)).n_parameters()
    assert 2 * n_weights <= 28_200_000


def test_paragraphs_of_novels_are_kept_between_facts_unless_a_probe_s_name_is_in_them() -> None:
    plain, named = (
        "The clock struck, and nobody stirred in the house. " * 6,
        "Mary came home from the sea again. " * 8,
    )
    assert paragraphs([Document("a", f"{plain}\n{named}\nshort")]) == [plain.strip()]


def test_a_film_s_task_ends_where_the_answer_is_due_and_knows_where_it_stood(tokenizer: Tokenizer) -> None:
    for question in (held_out.indirect_objects(1)[0], held_out.pronouns(1)[0], held_out.needles(1, 60)[0]):
        text = task_text(tokenizer, question)
        assert text is not None
        assert tokenizer.decode([text.right]).strip() == question.right
        assert tokenizer.decode([text.ids[at] for at in text.answer]).strip() == question.right
        assert tokenizer.decode(list(text.ids)) == question.text
    assert task_text(tokenizer, held_out.Question("It was", "extraordinary", "red", (0, 2))) is None
    assert {"indirect object", "pronoun", "retrieval"} <= set(film_tasks(tokenizer))


def test_the_receiver_is_named_first_in_every_second_indirect_object() -> None:
    for at, question in enumerate(held_out.indirect_objects(40)):
        assert (question.text.index(question.right) < question.text.index(question.wrong)) == (at % 2 == 0)


def test_questions_come_in_pairs_that_differ_in_their_answers() -> None:
    for questions in (held_out.indirect_objects(40), held_out.pronouns(40)):
        for one, other in zip(questions[::2], questions[1::2], strict=True):
            assert one.text != other.text
            assert all(each.text[slice(*each.source)] == each.right != each.wrong for each in (one, other))


@torch.no_grad()
def test_answers_are_those_of_each_question_alone(tokenizer: Tokenizer, model: GPT) -> None:
    task = Task.of(tokenizer, held_out.indirect_objects(40))
    right = first = 0
    for ids, wanted, wrong in zip(task.ids, task.right, task.wrong, strict=True):
        logits = model(torch.tensor([ids]))[0, -1]
        right += bool(logits[wanted] > logits[wrong])
        first += int(logits.argmax()) == wanted
    found = answers(model, task)
    assert (found["right"], found["first"]) == (pytest.approx(right / 40), pytest.approx(first / 40))
    assert (found["questions"], found["left_out"]) == (40, 0)
    with pytest.raises(InputError, match="none of 1 questions"):
        Task.of(tokenizer, [held_out.Question("It was", "extraordinary", "unmistakable", (0, 2))])


def test_an_ablated_head_changes_what_depends_on_it(tokenizer: Tokenizer, model: GPT) -> None:
    task = Task.of(tokenizer, held_out.pronouns(8))
    whole = task.difference(model)
    with ablated(model, {"0.0", "1.1"}):
        without = task.difference(model)
    assert task.difference(model) == whole != without
    table = ablation_table(model, {"pronoun": task}, {"coreference": {"0.0": 0.4, "1.1": 0.3}})
    assert table["whole model"]["pronoun"] == pytest.approx(whole, abs=1e-3)
    assert table["coreference"]["pronoun"] == pytest.approx(whole - without, abs=2e-3)
