"""The phase change of a film: where a series crosses its midpoint, and where induction forms."""

from __future__ import annotations

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.lab.train.phase_change import _moment, behaviours, crossings, phase_change
from headscope.scope import EMBEDDED


def test_induction_the_previous_token_head_and_the_loss_on_copies_change_together() -> None:
    film = Film.load(EMBEDDED / "film.safetensors")
    absent, formed = phase_change(film.best("induction"))
    tokens = film.series("tokens_seen")
    assert tokens[formed] < 1.5 * tokens[absent]
    assert film.best("previous")[formed] > film.best("previous")[absent] + 0.15
    assert film.series("second_copy")[formed] < film.series("second_copy")[absent] - 1.0
    assert abs(film.series("first_copy")[formed] - film.series("first_copy")[absent]) < 0.3
    _, induction, loss = crossings(film)
    assert loss.after < 1.25 * induction.after


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, 0.2, 0.1], r"no head of this film reaches an induction score of 0\.7; its best is 0\.20"),
        ([], r"no head of this film reaches an induction score of 0\.7; its best is 0\.00"),
        ([0.1, 0.4, 0.8], r"induction never scores under 0\.1 in this film; record it from the first step on"),
        ([0.9], r"induction never scores under 0\.1"),
    ],
)
def test_a_film_without_a_phase_change_is_refused(scores: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        phase_change(scores)


@pytest.mark.parametrize(
    ("right", "before"),
    [
        ([0.5, 0.5, 0.9, 1.0], 1),
        ([0.5, 0.8, 0.6, 0.9, 1.0], 2),  # it fell back: learned is what stays
        ([0.4, 0.5, 0.6, 0.7], None),  # never learned
        ([0.9, 0.9, 1.0], None),  # known from the start
        ([], None),
    ],
)
def test_a_task_is_learned_where_its_right_answers_stay_past_half_of_their_way(
    right: list[float], before: int | None
) -> None:
    assert _moment(right) == before


def test_several_behaviours_have_a_moment_each_in_the_order_in_which_they_are_learned() -> None:
    film = Film(
        heads=("0.0", "0.1"), tasks=[{"name": name, "sentence": f"{name}."} for name in ("late", "never", "early")]
    )
    for step, right in enumerate([(0.5, 0.5, 0.5), (0.5, 0.6, 1.0), (0.6, 0.5, 1.0), (1.0, 0.5, 1.0)]):
        losses = dict.fromkeys(("loss", "text_loss", "early_loss", "late_loss", "first_copy", "second_copy"), 1.0)
        film.points.append(FilmPoint(step=step, tokens_seen=step, **losses))
        film.task_right.append(torch.tensor(right))
        film.task_loss.append(torch.tensor([4.0 - step, 4.0, 3.0]))
        film.task_attention.append(torch.tensor([[0.1, 0.1, 0.2], [step / 3, 0.0, 0.1]]))
    found = behaviours(film)
    assert [(each.name, each.before, each.after) for each in found] == [
        ("early", 0, 1),
        ("late", 2, 3),
        ("never", None, None),
    ]
    assert [each.head for each in found] == ["0.0", "0.1", "0.0"]
    assert found[1].attention == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert found[1].loss == pytest.approx([4, 3, 2, 1])
    assert behaviours(Film()) == []
