"""What headscope says of roles in words, measured again on the built-in model and texts that the tests did not use."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import headscope
from headscope.app.pages.roles import shipped
from headscope.heads.look.look import Look
from headscope.heads.questions.where import FIRST
from headscope.heads.roles.probes.grammar import arcs
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import ORDINARY
from headscope.scope import Scope

OTHER_VERBS = (
    "The <t:person> whom the <d:person> had seen <q:verb> again.",
    "Next to the <d:person> the old <t:person> <q:verb> again.",
    "While the <d:person> waited, the <t:person> with the lamp <q:verb> again.",
    "We asked the <d:person> why the <t:person> <q:verb> again.",
    "The <t:person>, and not the <d:person>, <q:verb> again.",
    "The <t:person> of the <d:person> from the village <q:verb> again.",
)
"""Frames that the role's test does not use."""


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    with headscope.load() as scope:
        yield scope


@pytest.fixture(scope="module")
def report(scope: Scope) -> Report:
    found = shipped(scope)
    assert found is not None
    return found


def test_verb_to_subject_holds_in_other_frames(scope: Scope, report: Report) -> None:
    named = [finding.head for finding in report.with_role("verb to subject")]
    assert named == ["7.0"]  # 4.4 prefers the other person after “that the doctor knew”
    for frame in OTHER_VERBS:
        subject = distractor = 0.0
        for seed in range(8):
            arc = arcs((frame,), 1, seed)[0]
            look = scope.look(arc.text)
            spans = [(token.start, token.end) for token in look.tokens]
            query, target, other = (
                [at for at, (a, b) in enumerate(spans) if a is not None and b is not None and a < stop and b > start]
                for start, stop in (arc.query, arc.target, arc.distractor)
            )
            row = look.pattern(named[0])[query[-1]]
            subject, distractor = subject + float(row[target].sum()) / 8, distractor + float(row[other].sum()) / 8
        assert subject > max(0.2, 2 * distractor), frame


def test_the_first_token_on_ordinary_text_is_measured_there(scope: Scope, report: Report) -> None:
    """A mean over all rows but the first of each text, by hand."""
    texts = ORDINARY.read_text(encoding="utf-8").split("\n----\n")
    looks = [scope.look(text) for text in texts]
    rows = sum(len(look.tokens) - 1 for look in looks)
    line = next(line for line in str(report).splitlines() if line.startswith("  first token ("))
    said = re.findall(r"(\d\.\d) \d\.\d\d \((\d\.\d\d)\)", line)
    assert len(said) == len(report.with_role("first token"))
    for head, share in said:
        by_hand = sum(float(look.pattern(head)[1:, 0].double().sum()) for look in looks) / rows
        assert float(share) == pytest.approx(by_hand, abs=0.0051)
        assert report.where[head].shares[FIRST].share == pytest.approx(by_hand, abs=1e-4)


def test_heads_that_attend_to_the_first_token_of_random_words_are_not_idle(scope: Scope) -> None:
    text = "My white horse drank at the river. My white horse drank at the"
    look = scope.look(text)
    with scope.edit(headscope.ablate("3.7")):
        without = scope.look(text)
    river, fallen = (float(each.logits[-1].softmax(-1)[look.token_id(" river")]) for each in (look, without))
    assert river > 0.4
    assert fallen < river / 2


def test_what_a_head_costs_on_ordinary_texts_is_measured_there(scope: Scope, report: Report) -> None:
    """The loss with the head's output set to zero, less the loss with it, in the mean over texts."""
    texts = ORDINARY.read_text(encoding="utf-8").split("\n----\n")

    def loss(look: Look) -> float:
        ids = torch.tensor([token.id for token in look.tokens])
        return float(torch.nn.functional.cross_entropy(look.logits[:-1].double(), ids[1:]))

    for head, changes in {"5.6": True, "0.3": False}.items():
        with scope.edit(headscope.ablate(head)):
            without = [loss(scope.look(text)) for text in texts]
        rise = sum(without) / len(texts) - sum(loss(scope.look(text)) for text in texts) / len(texts)
        assert report.importance[head].mean == pytest.approx(rise, abs=2e-4)
        said = re.search(r"rises by (.*?) nats per token|no clear change", report.sentence(head))
        assert said is not None
        assert (said[1] is not None) == changes
        assert said[1] is None or float(said[1]) == pytest.approx(rise, abs=0.00051)
