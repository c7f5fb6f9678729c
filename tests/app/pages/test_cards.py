"""Cards and lessons on the page: valid choices, sums that agree, and no file opened."""

from __future__ import annotations

import json

import pytest

from headscope.app.pages.cards import CardRequest, card_list, read_card
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
    assert response.total in (None, sum(response.parts.values()))
    assert not response.changed
    assert len(response.cache) == len(response.work) == len(response.lengths)
    assert response.token_bytes == own.kv_bytes(1)
    assert all(small <= large for small, large in zip(response.cache, response.cache[1:], strict=False))
    line = next(line for line in card_list() if line.name == name)
    assert (line.total, line.n_heads, line.n_kv_heads) == (response.total, response.n_heads, response.n_kv_heads)


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


@pytest.mark.parametrize("number", [1, 2])
def test_a_lesson_response_equals_the_computed_lesson(number):
    card, own = lessons_page.lesson(number), lessons.lesson(number)
    assert (card.title, card.output, card.computed) == (own.title, own.output, own.computed)
    listed = lessons_page.contents().lessons[number]
    assert len(card.questions) == len(own.questions) == listed.questions
