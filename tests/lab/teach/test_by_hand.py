"""Hand-written heads have their role and no other."""

from __future__ import annotations

import pytest
import torch
from tests.lab.by_hand import HandModel, by_hand
from torch import Tensor

from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, observing, plain
from headscope.heads.questions.head_scores import head_scores
from headscope.heads.roles.probes.repeat_probe import RepeatProbe

PROBE = RepeatProbe(vocabulary=32, length=30, rows=8)
QUESTION = {
    "previous token": "previous",
    "itself": "itself",
    "first token": "first",
    "duplicate token": "duplicate",
    "induction": "induction",
}


def without(model: HandModel, layer: int, ids: Tensor) -> Tensor:
    """The last layer's pattern, with what one layer's head delivers set to zero."""
    sites = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    seen: list[Tensor] = []

    def observer(call: Call) -> Tensor:
        scores = call.scores.bind(call.q, call.k)
        place = torch.arange(ids.shape[1])
        seen.append(torch.softmax(scores.block(call.q, call.k, place, place, 0), -1))
        return torch.zeros_like(plain(call)) if call.site is sites[layer] else plain(call)

    with observing(observer):
        model(ids)
    return seen[-1][:, 0]


@pytest.mark.parametrize(("role", "question"), QUESTION.items())
def test_each_role_answers_its_question_and_no_other(role: str, question: str) -> None:
    scores, _ = head_scores(by_hand(role), PROBE.tokens())
    last = len(scores.heads) - 1
    answers = {name: float(scores.mean(name)[last]) for name in scores.counts}
    assert answers.pop(question) >= 0.99
    assert max(answers.values()) < 0.2


def test_the_separator_head_reads_separators() -> None:
    model = by_hand("separators")
    ids = torch.tensor([[5, 1, 9, 8, 2, 7, 3, 3]])
    pattern = without(model, 0, ids)[0]
    assert pattern[1:, [1, 4]].sum(-1).min() > 0.99
    assert pattern[4, 4] == pytest.approx(0.5)


def test_induction_scores_on_random_repeats_and_falls_to_chance_without_its_first_layer() -> None:
    generator = torch.Generator().manual_seed(1)
    once = torch.stack([torch.randperm(32, generator=generator)[:30] for _ in range(16)])
    ids = torch.cat((once, once), dim=1)
    length = ids.shape[1]
    rows = torch.arange(30, length)
    whole, broken = (
        model_pattern[:, rows, rows - 29].mean()
        for model_pattern in (without(by_hand("induction"), 1, ids), without(by_hand("induction"), 0, ids))
    )
    assert whole >= 0.99
    assert broken <= 2 / length


def test_induction_finishes_the_second_copy() -> None:
    ids = PROBE.tokens()
    guessed = by_hand("induction")(ids).argmax(-1)
    assert torch.equal(guessed[:, 31:-1], ids[:, 32:])
