"""The docs page about the film says what the film shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.heads.roles.probes.repeat_probe import STANDARD
from headscope.lab.film_page import EMBEDDED, crossing, crossings, main, page, stretch

DOCS = Path(__file__).parents[2] / "docs" / "film.md"


def test_the_page_is_the_one_the_film_writes() -> None:
    assert DOCS.read_text(encoding="utf-8") == page(Film.load(EMBEDDED))


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["film_page", str(tmp_path / "film.md")])
    main()
    assert (tmp_path / "film.md").read_bytes() == DOCS.read_bytes()


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


@pytest.mark.parametrize(
    ("values", "between"),
    [
        ([0.0, 0.1, 0.4, 0.9, 1.0], (20, 30)),
        ([9.0, 8.9, 2.0, 1.0], (10, 20)),
        ([0.0, 1.0, 0.2, 0.9], (0, 10)),
        ([0.0, 0.5, 1.0], (0, 10)),
        ([1.0, 1.2, 0.1, 1.1], (10, 20)),
        ([0.0, 1.0, 0.0, 0.0], (0, 10)),
    ],
    ids=["rising", "falling", "the first time", "the middle itself", "towards the extreme", "lost again"],
)
def test_a_crossing_is_between_two_points(values: list[float], between: tuple[int, int]) -> None:
    found = crossing("x", values, [0.0, 10.0, 20.0, 30.0, 40.0][: len(values)])
    assert (found.before, found.after) == between
    assert found.start == values[0]
    assert abs(found.end - found.start) == max(abs(value - values[0]) for value in values)


@pytest.mark.parametrize("count", [1, 3])
def test_what_never_moves_has_no_crossing_to_show(count: int) -> None:
    with pytest.raises(InputError, match="x does not move in this film, so it has no middle to cross"):
        crossing("x", [0.5] * count, [0.0, 1.0, 2.0][:count])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.0, 0.05, 0.7], (1, 2)),
        ([0.0, 0.05, 0.3, 0.69, 0.7, 0.9], (1, 4)),
        ([0.0, 0.1, 0.2, 0.8, 0.05, 0.9], (0, 3)),
        ([0.0, 0.3, 0.02, 0.4, 0.75], (2, 4)),
    ],
    ids=["at once", "slowly", "a later fall is no beginning", "after a false start"],
)
def test_the_stretch_runs_from_the_last_quiet_point_to_the_first_that_stands(
    scores: list[float], expected: tuple[int, int]
) -> None:
    assert stretch(scores) == expected


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, 0.2, 0.1], r"no head of this film reaches an induction score of 0\.7; its best is 0\.20"),
        ([], r"no head of this film reaches an induction score of 0\.7; its best is 0\.00"),
        ([0.1, 0.4, 0.8], r"induction never scores under 0\.1 in this film; record it from the first step on"),
        ([0.9], r"induction never scores under 0\.1"),
    ],
)
def test_a_film_in_which_induction_does_not_form_says_so(scores: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        stretch(scores)


def made_film() -> Film:
    """Five points a million tokens apart; induction stands at the fourth. Another head is never the best one."""
    film = Film(heads=("0.0", "0.1"))
    for step, score in enumerate((0.01, 0.02, 0.08, 0.75, 0.9)):
        film.points.append(
            FilmPoint(
                step=step, tokens_seen=step * 1_000_000, loss=9.5, text_loss=9.25, early_loss=5.0 - step,
                late_loss=4 - step / 2, first_copy=9 + step / 100, second_copy=9.0 - 2 * step,
            )
        )  # fmt: skip
        scores = torch.zeros(2, len(STANDARD))
        scores[1, STANDARD.index("induction")] = score
        scores[0, STANDARD.index("previous")] = step / 4
        film.repeats.append(scores)
    return film


def test_the_page_prints_the_numbers_of_the_film_it_is_given() -> None:
    text = page(made_film())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    assert rows == [
        ["what", "at the start", "at its extreme", "half of the way at (million tokens)"],
        ["---"] * 4,
        ["previous-token score, best head", "0.00", "1.00", "1.0 – 2.0"],
        ["induction score, best head", "0.01", "0.90", "2.0 – 3.0"],
        ["loss on the second copy (nats)", "9.00", "1.00", "1.0 – 2.0"],
        ["tokens seen (million)", "2.0", "3.0"],
        ["---"] * 3,
        ["induction score, best head", "0.08", "0.75"],
        ["previous-token score, best head", "0.50", "0.75"],
        ["loss on the second copy", "5.00", "3.00"],
        ["loss on the first copy", "9.02", "9.03"],
    ]
    told = " ".join(text.split())
    assert "has 5 points between the first step and the last, 4 million tokens later" in told
    assert "For its first 2 million tokens the model has no induction head: the best score stays under 0.1" in told
    assert "By 3 million it has one." in told
    assert "costs 1.00 nats a token around its 50th token and 2.00 around its 500th" in told
