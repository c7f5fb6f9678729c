"""The docs page about the film says what the film shows."""

from __future__ import annotations

import torch
from docs.generate.film import page

from headscope.heads.film import Film, FilmPoint
from headscope.heads.questions.standard_questions import STANDARD


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
        ["what", "at the start", "at its best", "halfway at (million tokens)"],
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
    assert "costs 1.00 nats per token around its 50th token and 2.00 around its 500th" in told


def test_a_film_with_tasks_has_a_section_on_when_each_was_learned() -> None:
    film = made_film()
    assert "Other behaviours" not in page(film)
    film.tasks = [{"name": "pronoun", "sentence": "Whose it is."}, {"name": "giving", "sentence": "Who receives it."}]
    for step in range(5):
        film.task_right.append(torch.tensor([0.5 if step < 3 else 1.0, 0.5]))
        film.task_loss.append(torch.tensor([5.0 - step, 4.0]))
        film.task_attention.append(torch.tensor([[0.0, 0.2], [step / 10, 0.1]]))
    written = page(film)
    assert "| pronoun | 100% | 1.00 | 0.1 | 2.0 – 3.0 |" in written
    assert "| giving | 50% | 4.00 | 0.0 | not learned |" in written
