"""Heads in words on the page: shipped rules, rule patterns, running on rules, and what it costs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from tests.app.conftest import WORDS, small_model, word_tokenizer

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import LookRequest, Session
from headscope.app.pages.predictions import PredictRequest
from headscope.app.pages.rules.head_words import RuleCostRequest, RulePatternRequest, RulesResponse
from headscope.app.pages.rules.shipped import GENERATED, SHIPPED, ship, shipped_rules
from headscope.app.server import HOST, application
from headscope.app.wire import unpack
from headscope.attention.progress import progress_callback
from headscope.errors import InputError
from headscope.heads.rules.sentence import decimals, numbers
from headscope.models.weight_hash import weight_hash
from headscope.scope import EMBEDDED, Scope

SENTENCE = "the old lamp on landing burned until the old lamp"
embedded = pytest.mark.skipif(not (EMBEDDED / "config.json").exists(), reason="the embedded model has not been built")


def some_texts(count: int = 6, length: int = 48) -> list[str]:
    drawn = torch.randint(len(WORDS), (count, length), generator=torch.Generator().manual_seed(0))
    return [" ".join(WORDS[index] for index in row) for row in drawn.tolist()]


def named_as_embedded() -> Scope:
    """The small model of these tests under the embedded model's name."""
    scope = headscope.load(small_model(1), word_tokenizer())
    scope.model.shape = replace(scope.model.shape, name=EMBEDDED.name)
    return scope


@pytest.fixture(scope="module")
def opened() -> Iterator[Scope]:
    with headscope.load(small_model(1), word_tokenizer()) as scope:
        yield scope


@pytest.fixture(scope="module")
def fitted(opened: Scope) -> Session:
    session = Session(opened, some_texts())
    session.words.fit()
    return session


@pytest.fixture
def client(fitted: Session) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(fitted)), base_url=f"http://{HOST}") as found:
        yield found


@embedded
def test_the_shipped_rules_are_of_the_embedded_model():
    with headscope.load() as scope:
        rules = shipped_rules(scope)
        assert rules is not None
        assert rules.recipe["weights"] == weight_hash(scope.model.model)
        assert [head.head for head in rules] == list(scope.shape.heads())
    assert json.loads(SHIPPED.read_text(encoding="utf-8"))["generated"] == GENERATED


def test_shipped_rules_are_shown_for_their_weights_only(fitted: Session, tmp_path: Path):
    path = tmp_path / "rules.json"
    ship(fitted.words.fitted(), path)
    with named_as_embedded() as same:
        found = shipped_rules(same, path)
        assert found is not None
        assert [head.sentence for head in found] == [head.sentence for head in fitted.words.fitted()]
        with torch.no_grad():
            next(iter(same.model.model.parameters())).add_(1.0)
        assert shipped_rules(same, path) is None


def test_every_number_of_a_sentence_is_a_fitted_one(client: TestClient):
    for head in RulesResponse(**client.get("/api/rules").json()).heads:
        said = sorted((part for part in head.rules if part.name != "first token"), key=lambda part: -part.part)
        wanted = [decimals(head.first), *(decimals(part.part) for part in said if part.part >= 0.01)]
        wanted.append(decimals(1 - head.rest.value))
        shown = head.example
        wanted += [] if shown is None else [decimals(shown.weight), decimals(shown.by_rules)]
        written = numbers(head.sentence)
        assert written[0] == float(wanted[0])
        assert written[-1] == float(wanted[-1]) or head.on_content >= 0.01
        assert {float(each) for each in wanted} <= set(written)
        assert shown is None or f"“{shown.query}” reads “{shown.key}”" in head.sentence


def test_the_rule_pattern_is_what_running_on_rules_attends_with(client: TestClient, fitted: Session, opened: Scope):
    look = client.post("/api/look", json={"text": SENTENCE})
    name = unpack(look.content).values["look"]
    found = unpack(client.post("/api/rules/pattern", json={"look": name, "head": "0.4"}).content)
    weights = found.arrays["weights"]
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.array_equal(weights, np.tril(weights))
    rules = fitted.words.fitted()
    with opened.edit(headscope.follow(rules, "0.4")):
        followed = opened.look(SENTENCE).z("0")[4]
    source = opened.look(SENTENCE)
    with opened.edit(headscope.force("0.4", torch.from_numpy(weights))):
        forced = opened.look(SENTENCE).z("0")[4]
    share = rules["0.4"].explained.value  # the rest is the head's mean
    wanted = share * forced + (1 - share) * torch.tensor(rules["0.4"].mean_z)
    assert torch.allclose(followed, wanted, atol=1e-5)
    assert not torch.allclose(followed, source.z("0")[4], atol=1e-3)


def test_a_prediction_on_rules_is_pythons(fitted: Session, opened: Scope):
    name = fitted.look(LookRequest(text=SENTENCE))[0].look
    asked = PredictRequest(look=name, position=9, rules=["0.1", "0.4", "0.1"])
    found = fitted.predict(asked)
    with opened.edit(headscope.follow(fitted.words.fitted(), ["0.1", "0.4"])):
        expected = opened.look(SENTENCE).logits[9].double().softmax(-1)
    assert found.rules == ["0.1", "0.4"]
    assert found.without is not None
    assert found.without == pytest.approx([float(expected[guess.id]) for guess in found.guesses], abs=1e-6)
    assert found.kl is not None
    assert found.kl > 0


def test_the_cost_of_a_head_is_the_growth_of_the_perplexity(fitted: Session, opened: Scope):
    found = fitted.words.cost(RuleCostRequest(head="0.2"))
    texts = list(fitted.words.texts[2::3][:3])

    def loss() -> float:
        total, count = 0.0, 0
        for text in texts:
            look = opened.look(text)
            ids = torch.tensor([token.id for token in look.tokens[1:]])
            total += float(torch.nn.functional.cross_entropy(look.logits[:-1].float(), ids, reduction="sum"))
            count += len(ids)
        return total / count

    base = loss()
    with opened.edit(headscope.follow(fitted.words.fitted(), "0.2")):
        assert found.perplexity["rules"] == pytest.approx(math.exp(loss() - base), rel=1e-4)
    assert found.loss == pytest.approx(base, rel=1e-5)
    assert set(found.perplexity) == {"rules", "position", "mean"}


def test_what_needs_rules_says_that_there_are_none(opened: Scope):
    session = Session(opened, some_texts())
    assert session.words.state() == RulesResponse(state="unfitted")
    name = session.look(LookRequest(text=SENTENCE))[0].look
    with pytest.raises(InputError, match="have not been fitted yet"):
        session.words.pattern(RulePatternRequest(look=name, head="0.0"))
    with pytest.raises(InputError, match="have not been fitted yet"):
        session.predict(PredictRequest(look=name, position=1, rules=["0.0"]))


def test_fitting_can_be_stopped_and_leaves_nothing_behind(opened: Scope):
    class LeftError(BaseException):
        pass

    session = Session(opened, some_texts())

    def leave(what: str, done: int, total: int) -> None:
        assert session.words.state().state == "fitting"
        if what == "fitting rules":
            raise LeftError

    with progress_callback(leave), pytest.raises(LeftError):
        session.words.fit()
    assert session.words.state().state == "unfitted"


def test_a_rule_pattern_of_a_long_text_is_refused_with_the_limit(fitted: Session):
    name = fitted.look(LookRequest(text=" ".join(["lamp river"] * 260)))[0].look
    with pytest.raises(InputError, match="520 tokens; the rule's pattern is drawn for texts of up to 512"):
        fitted.words.pattern(RulePatternRequest(look=name, head="0.0"))
