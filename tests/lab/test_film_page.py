"""The docs page about the film says what the film shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.heads.film import Film
from headscope.lab.film_page import EMBEDDED, crossing, crossings, page, stretch

DOCS = Path(__file__).parents[2] / "docs" / "film.md"


def test_the_page_is_the_one_the_film_writes() -> None:
    assert DOCS.read_text(encoding="utf-8") == page(Film.load(EMBEDDED))


def test_induction_the_previous_token_head_and_the_loss_on_copies_change_together() -> None:
    film = Film.load(EMBEDDED)
    quiet, risen = stretch(film.best("induction"))
    tokens = film.series("tokens_seen")
    assert tokens[risen] < 1.5 * tokens[quiet]
    assert film.best("previous")[risen] > film.best("previous")[quiet] + 0.15
    assert film.series("second_copy")[risen] < film.series("second_copy")[quiet] - 1.0
    assert abs(film.series("first_copy")[risen] - film.series("first_copy")[quiet]) < 0.3
    _, induction, loss = crossings(film)
    assert loss.after < 1.25 * induction.after


def test_a_crossing_is_between_two_points() -> None:
    found = crossing("x", [0.0, 0.1, 0.4, 0.9, 1.0], [0.0, 10.0, 20.0, 30.0, 40.0])
    assert (found.before, found.after) == (20, 30)
    falling = crossing("x", [9.0, 8.9, 2.0, 1.0], [0.0, 10.0, 20.0, 30.0])
    assert (falling.before, falling.after) == (10, 20)


def test_a_film_without_induction_is_said_to_have_none() -> None:
    with pytest.raises(InputError, match=r"no head of this film reaches an induction score of 0\.7; its best is 0\.20"):
        stretch([0.0, 0.2, 0.1])
