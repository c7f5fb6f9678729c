"""Film, card and lesson routes, compared with the lab's own objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from headscope.app.pages.film import FULL, Films
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.heads.film import Film
from headscope.lab.cards import card as card_module
from headscope.lab.teach import lessons
from headscope.lab.teach.lessons import plain
from headscope.scope import EMBEDDED


def card(client: TestClient, **asked: Any) -> dict[str, Any]:
    answer = client.post("/api/card", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def problem(client: TestClient, **asked: Any) -> str:
    answer = client.post("/api/card", json=asked)
    assert answer.status_code == 422
    return str(answer.json()["message"])


def test_the_film_holds_every_head_at_every_point(client: TestClient):
    film = Film.load(EMBEDDED / "film.safetensors")
    response = unpack(client.get("/api/film").content)
    values, arrays = response.values, response.arrays
    assert [moment["step"] for moment in values["moments"]] == [point.step for point in film.points]
    assert values["moments"][0]["loss"] is None
    assert values["moments"][-1]["second_copy"] == pytest.approx(film.points[-1].second_copy)
    assert np.array_equal(arrays["repeats"][40], film.repeats[40].numpy())
    induction = [each["name"] for each in values["questions"]].index("induction")
    assert arrays["repeats"][:, :, induction].max(1).tolist() == pytest.approx(film.best("induction"))


def test_the_film_s_patterns_sum_to_one_over_tokens(client: TestClient):
    response = unpack(client.get("/api/film").content)
    sentence, patterns = response.values["sentences"][0], response.arrays["patterns0"]
    assert "".join(sentence["tokens"][1:]) == sentence["text"]
    assert patterns.shape == (len(response.values["frames"]), 64, len(sentence["tokens"]), len(sentence["tokens"]))
    sums = patterns.sum(-1, dtype=np.int64) / FULL
    assert np.abs(sums - 1).max() < 0.005


def test_the_phase_change_is_sent_with_its_evidence():
    card, _ = Films().film()
    phase, moments = card.phase, card.moments
    assert phase is not None
    assert 26e6 < moments[phase.before].tokens < moments[phase.after].tokens < 34e6
    previous, induction, copying = phase.evidence
    assert previous.after < induction.before < copying.after
    assert copying.end < copying.start


def test_the_film_of_a_served_folder_is_listed_first(tmp_path: Path):
    film = Film.load(EMBEDDED / "film.safetensors")
    film.truncate(300)
    film.save(tmp_path / "film.safetensors")
    films = Films([str(tmp_path), "gpt2"])
    assert films.names() == [tmp_path.name, "embedded"]
    card, arrays = films.film()
    assert card.moments[-1].step <= 300
    assert card.sentences[0].tokens[0] == str(film.sentences[0]["tokens"][0])
    assert arrays["patterns0"].shape[0] == len(card.frames) == 2
    with pytest.raises(InputError, match="there is no film 'no' on this page; it has"):
        films.film("no")


def test_every_built_in_card_is_listed_and_can_be_read(client: TestClient):
    listed = client.get("/api/cards").json()
    assert [line["name"] for line in listed] == list(card_module.built_in())
    for line in listed:
        response, own = card(client, name=line["name"]), card_module.built_in()[line["name"]]
        assert response["total"] == own.parameters.total
        assert response["cache"] == [own.kv_bytes(length) for length in response["lengths"]]
        assert response["work"][0] == own.flops(response["lengths"][0])
        assert own.length in response["lengths"] or own.model.context is None


def test_other_kv_heads_change_the_cache_and_few_parameters(client: TestClient):
    own, shared = card(client, name="llama-3.1-8b"), card(client, name="llama-3.1-8b", n_kv_heads=1)
    assert own["lit"] == {"num_attention_heads": 32, "num_key_value_heads": 8}
    assert shared["lit"]["num_key_value_heads"] == 1
    assert shared["attention"] == "MQA"
    assert shared["changed"]
    assert own["token_bytes"] == 8 * shared["token_bytes"] == 131_072
    assert [choice["n_kv_heads"] for choice in own["kv_choices"]] == [32, 16, 8, 4, 2, 1]
    assert next(choice["cache"] for choice in own["kv_choices"] if choice["n_kv_heads"] == 1) == shared["cache"]
    assert own["published_kv_heads"] == shared["published_kv_heads"] == 8


def test_more_heads_are_narrower_heads(client: TestClient):
    more = card(client, name="gpt3-175b", n_heads=192)
    assert (more["n_heads"], more["d_head"], more["n_kv_heads"]) == (192, 64, 192)
    assert more["total"] == card(client, name="gpt3-175b")["total"]
    assert more["published"] == {"n_heads": 96, "d_head": 128}


def test_a_latent_cache_is_given_with_the_expanded_one(client: TestClient):
    response = card(client, name="deepseek-v3")
    assert response["attention"] == "MLA"
    assert response["kv_choices"] == []
    assert response["expanded"][0] > 10 * response["cache"][0]
    assert response["experts"] == "8 of 256"


def test_a_pasted_config_and_bare_sizes_are_read(client: TestClient):
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    assert card(client, config=json.dumps(config))["d_head"] == 16
    assert card(client, sizes={"d_model": 768, "n_heads": 12, "n_kv_heads": 4})["attention"] == "GQA"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"config": "/etc/passwd"}, "does not begin with a brace"),
        ({"config": '{"model_type": "mamba"}'}, "names no attention heads"),
        ({"config": "{"}, "is not JSON"),
        ({"name": "../../etc/passwd"}, "there is no card called"),
        ({}, "this request has 0 of them"),
        ({"name": "gpt2", "config": "{}"}, "this request has 2 of them"),
        ({"name": "gpt2", "n_kv_heads": 5}, "12 heads cannot share 5 KV heads evenly"),
        ({"sizes": {"d_model": 0, "n_heads": 1}}, "sizes.d_model"),
    ],
)
def test_invalid_card_requests_are_refused(client: TestClient, asked: dict[str, Any], said: str):
    assert said in problem(client, **asked)


def test_a_path_to_a_config_is_not_opened(client: TestClient, tmp_path: Path):
    (tmp_path / "config.json").write_text('{"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}')
    for asked in ({"name": str(tmp_path)}, {"config": str(tmp_path)}):
        assert problem(client, **asked)


def test_a_lesson_is_sent_computed_and_without_its_answers(client: TestClient):
    response = client.get("/api/lessons/3").json()
    own = lessons.lesson(3)
    assert response["output"] == own.output
    assert plain(response["computed"]) == plain(own.computed)
    assert [figure["kind"] for figure in response["figures"]] == [figure.kind for figure in own.figures]
    assert all(option.says not in json.dumps(response) for question in own.questions for option in question.options)


def test_answers_are_marked_with_an_explanation(client: TestClient):
    def mark(answer: str, question: int = 1) -> dict[str, Any]:
        return dict(
            client.post("/api/lessons/1/answer", json={"question": question, "answer": answer, "attempt": 2}).json()
        )

    assert mark(".3")["right"]
    wrong = mark("0.7")
    assert not wrong["right"]
    assert "add up to 1.40" in wrong["says"]
    assert mark("b", 2)["right"]
    assert "could not read 'many' as a number" in mark("many")["message"]
    assert "not 9" in mark("1", 9)["message"]
