"""Published claims compared with a report, and custom questions as roles."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.heads.controls import negation, opened
from tests.lab.by_hand import by_hand

from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.custom_roles import own_role
from headscope.heads.roles.published_claims import CLAIMS, check_claims, claims_about
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.models.native import NativeModel


def test_claims_are_found_by_the_model_s_name_alone() -> None:
    assert {claim.role for claim in claims_about("openai-community/gpt2")} >= {
        "name mover",
        "S-inhibition",
        "induction",
    }
    assert claims_about("GPT2") == claims_about("gpt2")
    assert claims_about("some/other") == []


def test_claims_name_a_source_and_real_heads() -> None:
    for claim in CLAIMS:
        assert claim.source
        assert all(len(head.split(".")) == 2 for head in claim.heads)
        assert claim.role in BATTERY or claim.role.startswith("syntax: ") or claim.note


def test_a_claim_is_compared_with_a_report() -> None:
    report = run_battery(NativeModel(by_hand("induction"), None, "gpt2"), RoleOptions(inputs=16, controls=0, ablate=0))
    scores = {"5.1": 0.9, "5.5": 0.1}
    trial = dataclasses.replace(report.trial("induction"), scores=scores, rivals={"5.5": 0.3}, named=("5.1",))
    others = tuple(each for each in report.trials if each.role != "induction")
    held = {(h.head, h.claim.role): h for h in check_claims(dataclasses.replace(report, trials=(*others, trial)))}
    assert (held["5.1", "induction"].outcome, held["5.1", "induction"].rank) == ("agrees", 1)
    assert held["5.5", "induction"].outcome == "differs"
    assert held["5.5", "induction"].why == "its strongest rival answer has 0.30"
    assert str(held["5.1", "induction"]).startswith("5.1 induction: agrees, scores 0.90, rank 1. Song et al.")
    assert held["6.9", "induction"].why == "this model has no head 6.9 of that kind"
    assert "reads no text" in held["9.9", "name mover"].why
    assert "no such role" in held["10.10", "backup name mover"].why


@pytest.mark.parametrize("by", ["pattern", "functions"])
def test_a_question_of_one_s_own_is_a_role_like_any_other(by: str) -> None:
    """The head written for negation, asked in a user's words."""
    if by == "pattern":
        rule = token_class(
            "not", key="^not$", query="^(tired|happy|angry|afraid|hungry|glad|sad|ill|rich|poor|sorry|ready)$"
        )
    else:
        feelings = {
            "tired",
            "happy",
            "angry",
            "afraid",
            "hungry",
            "glad",
            "sad",
            "ill",
            "rich",
            "poor",
            "sorry",
            "ready",
        }
        rule = LabelRule(
            "not",
            query=lambda tokens: [1 if token.text in feelings else -1 for token in tokens],
            key=lambda tokens: [1 if token.text == "not" else -1 for token in tokens],
        )
    texts = [f"It was late. {name} was not {'yet ' * (turn % 3)}tired then." for turn, name in
             enumerate(["Mary", "John", "Anne", "Paul"] * 6)]  # fmt: skip
    with torch.no_grad():
        model = opened(negation().eval())
    report = run_battery(model, RoleOptions(roles=(), own=(own_role(rule, texts),), controls=0, ablate=0))
    assert [(finding.head, finding.role) for finding in report.findings] == [("0.0", "not")]


def test_a_question_without_an_answer_in_the_texts_says_so() -> None:
    with torch.no_grad():
        model = opened(negation().eval())
    role = own_role(token_class("digits", key=r"\d"), ["It was late."])
    report = run_battery(model, RoleOptions(roles=(), own=(role,), controls=0, ablate=0))
    assert "in none of the 1 texts does the question 'digits' have an answer" in report.trial("digits").why_not
