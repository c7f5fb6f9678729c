"""Cards and lessons on the page: valid choices, sums that agree, and no file opened."""

from __future__ import annotations

import json

import pytest

from headscope.app.pages.cards import LONGEST, MOST_CHOICES, SHORTEST, CardRequest, Sizes, card_list, read_card
from headscope.app.pages.course import lessons as lessons_page
from headscope.errors import InputError
from headscope.lab.cards.card import built_in
from headscope.lab.teach import lessons

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 3000, "vocab_size": 100, "intermediate_size": 128,
}  # fmt: skip


def pasted(**changed: object) -> CardRequest:
    return CardRequest(config=json.dumps({**CONFIG, **changed}))


@pytest.mark.parametrize("name", list(built_in()))
def test_the_parts_of_every_card_sum_to_its_parameters(name):
    response = read_card(CardRequest(name=name))
    own = built_in()[name]
    assert response.total == own.parameters.total
    assert response.total in (None, sum(part.count for part in response.parts))
    assert not response.changed
    assert len(response.cache) == len(response.work) == len(response.lengths)
    assert response.token_bytes == own.kv_bytes(1)
    assert all(small <= large for small, large in zip(response.cache, response.cache[1:], strict=False))
    line = next(line for line in card_list() if line.name == name)
    assert (line.total, line.n_heads, line.n_kv_heads) == (response.total, response.n_heads, response.n_kv_heads)


def test_lengths_are_powers_of_two_and_the_model_s_context():
    response = read_card(pasted())
    assert response.lengths[0] == SHORTEST
    assert response.lengths[-1] == LONGEST
    assert 3000 in response.lengths
    assert [length for length in response.lengths if length != 3000] == [SHORTEST << power for power in range(11)]


@pytest.mark.parametrize(("n_kv_heads", "kind"), [(8, "MHA"), (4, "GQA"), (2, "GQA"), (1, "MQA")])
def test_every_choice_of_kv_heads_equals_the_changed_card(n_kv_heads, kind):
    config = json.dumps(CONFIG)
    choices = {choice.n_kv_heads: choice for choice in read_card(CardRequest(config=config)).kv_choices}
    response = read_card(CardRequest(config=config, n_kv_heads=n_kv_heads))
    assert list(choices) == [8, 4, 2, 1]
    assert (response.attention, response.cache, response.total) == (
        kind,
        choices[n_kv_heads].cache,
        choices[n_kv_heads].total,
    )
    assert choices[n_kv_heads].attention == kind
    assert response.changed is (n_kv_heads != 2)
    assert response.published_kv_heads == 2


def test_the_published_numbers_of_heads_are_no_change():
    response = read_card(CardRequest(config=json.dumps(CONFIG), n_heads=8, n_kv_heads=2))
    assert not response.changed
    assert response.lit == {"num_attention_heads": 8, "num_key_value_heads": 2}


def test_a_config_without_kv_heads_highlights_no_kv_field():
    bare = {name: value for name, value in CONFIG.items() if name != "num_key_value_heads"}
    response = read_card(CardRequest(config=json.dumps(bare)))
    assert response.lit == {"num_attention_heads": 8}
    changed = read_card(CardRequest(config=json.dumps(bare), n_kv_heads=4))
    assert changed.lit["num_key_value_heads"] == 4, "but the change needs it"


def test_every_offered_number_of_heads_can_be_requested():
    response = read_card(pasted(num_key_value_heads=8))
    for choice in response.head_choices:
        chosen = read_card(CardRequest(config=pasted(num_key_value_heads=8).config, n_heads=choice.n_heads))
        assert (chosen.n_heads, chosen.d_head) == (choice.n_heads, choice.d_head)
        assert chosen.n_heads * chosen.d_head == 64


@pytest.mark.parametrize("n_heads", [720, 5040, 83_160])
def test_many_divisors_are_thinned_to_include_first_last_and_published(n_heads):
    response = read_card(CardRequest(sizes=Sizes(d_model=n_heads, n_heads=n_heads, n_kv_heads=n_heads // 9)))
    counts = [choice.n_kv_heads for choice in response.kv_choices]
    assert counts == sorted(set(counts), reverse=True)
    assert {n_heads, n_heads // 9, 1} <= set(counts)
    assert len(counts) <= MOST_CHOICES + 2
    assert all(n_heads % count == 0 for count in counts)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"config": " [1]"}, "it does not begin with a brace"),
        ({"config": "~/config.json"}, "it does not begin with a brace"),
        ({"name": "gpt5"}, rf"there is no card called 'gpt5'; pick one of the {len(built_in())}, or paste a config"),
        ({"name": "gpt2", "sizes": {"d_model": 8, "n_heads": 2}}, "this request has 2 of them"),
        ({"config": json.dumps(CONFIG), "n_kv_heads": 3}, "8 heads cannot share 3 KV heads evenly"),
    ],
)
def test_requests_without_exactly_one_card_are_refused(asked, said):
    with pytest.raises(InputError, match=said):
        read_card(CardRequest(**asked))


def test_a_config_may_begin_with_white_space():
    assert read_card(CardRequest(config="\n  " + json.dumps(CONFIG))).n_heads == 8


def test_the_lesson_list_runs_no_code_and_counts_the_questions(monkeypatch):
    monkeypatch.setattr(lessons, "lesson", lambda _: pytest.fail("computed"))
    listed = lessons_page.contents().lessons
    assert [line.number for line in listed] == list(range(len(listed)))
    assert all(line.questions >= 1 for line in listed)


@pytest.mark.parametrize("number", [1, 2])
def test_a_lesson_response_equals_the_computed_lesson(number):
    card, own = lessons_page.lesson(number), lessons.lesson(number)
    assert (card.title, card.output, card.computed) == (own.title, own.output, own.computed)
    listed = lessons_page.contents().lessons[number]
    assert len(card.questions) == len(own.questions) == listed.questions


@pytest.mark.parametrize("number", [-1, 99])
def test_an_unknown_lesson_is_refused(number):
    with pytest.raises(InputError, match=f"there is no lesson {number}"):
        lessons_page.lesson(number)
    with pytest.raises(InputError, match=f"there is no lesson {number}"):
        lessons_page.mark(number, lessons_page.AnswerRequest(question=1, answer="1"))
