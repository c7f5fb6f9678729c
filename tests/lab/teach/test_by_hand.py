"""Hand-written heads have their role and no other."""

from __future__ import annotations

import pytest
import torch
from tests.lab.by_hand import ROLES, SHARPNESS, HandModel, HandSizes, by_hand
from torch import Tensor

import headscope
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, observing, plain
from headscope.errors import InputError
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


@pytest.mark.parametrize(
    "sizes", [HandSizes(), HandSizes(vocabulary=4, context=2, separators=()), HandSizes(context=9)]
)
def test_the_parts_of_the_residual_stream_cover_it_and_do_not_overlap(sizes: HandSizes) -> None:
    parts = [sizes.token, sizes.position, sizes.note, sizes.answer]
    taken = [number for part in parts for number in range(part.start, part.stop)]
    assert taken == list(range(sizes.d_model))
    assert [part.stop - part.start for part in parts] == [sizes.vocabulary, sizes.context, *[sizes.vocabulary] * 2]


def test_a_wanted_key_scores_sharpness_nats_above_the_others() -> None:
    model = by_hand("previous token")
    x = model.embed(torch.arange(8)[None])
    q, k, _ = model.attention().project(x)
    scores = (q[0, 0] @ k[0, 0].T) * model.sizes.d_head**-0.5
    for place in range(1, 8):
        wanted = scores[place, place - 1]
        others = torch.cat((scores[place, : place - 1], scores[place, place:]))
        torch.testing.assert_close(wanted - others, torch.full((7,), SHARPNESS))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: by_hand("poet"), "no hand-written head for 'poet'; choose from previous token, itself"),
        (lambda: by_hand("itself")(torch.zeros(1, 65).long()), "65 tokens, but the context of this model is 64"),
        (lambda: by_hand("itself")(torch.tensor([[40]])), "token ids 40…40: the vocabulary of this model is 0…31"),
    ],
)
def test_bad_input(wrong: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong()  # type: ignore[operator]
