"""Heads by hand do what is written on them, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import headscope
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, plain, watching
from headscope.errors import InputError, ShapeError
from headscope.heads.probe import RepeatProbe, ask
from headscope.lab.by_hand import ROLES, HandModel, HandSizes, by_hand

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

    with watching(observer):
        model(ids)
    return seen[-1][:, 0]


@pytest.mark.parametrize(("role", "question"), QUESTION.items())
def test_each_role_answers_its_question_and_no_other(role: str, question: str) -> None:
    scores, _ = ask(by_hand(role), PROBE.tokens())
    last = len(scores.heads) - 1
    answers = {name: float(scores.mean(name)[last]) for name in scores.questions}
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


def test_only_induction_copies() -> None:
    ids = PROBE.tokens()
    for role in ROLES:
        model = by_hand(role)
        site = model.attention(-1)
        values = site.v_proj.weight.T[model.sizes.token]
        answers = (values @ site.o_proj.weight.T)[:, model.sizes.answer]
        assert float(answers.trace()) == (model.sizes.vocabulary if role == "induction" else 0)
        assert model(ids).std() > 0


@pytest.mark.parametrize("role", ROLES)
def test_it_opens_in_the_microscope(role: str) -> None:
    model = by_hand(role)
    scope = headscope.load(model)
    try:
        assert scope.shape.n_heads == len(model.blocks)
        look = scope.look(PROBE.tokens()[0].tolist())
        head = f"{len(model.blocks) - 1}.0"
        torch.testing.assert_close(look.pattern(head), without(model, -1, PROBE.tokens()[:1])[0])
    finally:
        scope.close()


def test_other_sizes() -> None:
    sizes = HandSizes(vocabulary=64, context=128)
    scores, _ = ask(by_hand("induction", sizes), RepeatProbe(vocabulary=64, length=60, rows=2).tokens())
    assert scores.best("induction") == ("1.0", pytest.approx(1.0, abs=1e-3))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: by_hand("poet"), "no head by hand for 'poet'; there are previous token, itself"),
        (lambda: by_hand("itself")(torch.zeros(1, 65).long()), "65 tokens, but this model has places for 64"),
        (lambda: by_hand("itself")(torch.tensor([[40]])), "token ids 40…40: this model knows 0…31"),
    ],
)
def test_bad_input(wrong: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong()  # type: ignore[operator]


def test_bad_sizes() -> None:
    with pytest.raises(ShapeError, match="vocabulary=5, context=8: a model by hand needs an even vocabulary"):
        HandSizes(vocabulary=5, context=8)
    with pytest.raises(ShapeError, match=r"separators=\(99,\) are not all tokens below vocabulary=32"):
        HandSizes(separators=(99,))
