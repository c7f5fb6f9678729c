"""Films on the page: every point's numbers, patterns in sixteen bits, and the phase change."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.app.pages.film import FILE, FULL, Films, read_film
from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.heads.questions.standard_questions import STANDARD

HEADS = ("0.0", "0.1", "1.0")


def point(step: int) -> FilmPoint:
    return FilmPoint(
        step=step, tokens_seen=100 * step, loss=5.0 - step / 10, text_loss=5.0, early_loss=5.0, late_loss=4.0,
        first_copy=5.0, second_copy=5.0 - step / 5,
    )  # fmt: skip


def film(induction: list[float], previous: list[float] | None = None) -> Film:
    """A run whose best induction score goes this way; the other numbers follow their own."""
    made = Film(heads=HEADS, sentences=[{"text": "a b", "tokens": [1, 2]}])
    for step, best in enumerate(induction):
        scores = torch.zeros(len(HEADS), len(STANDARD))
        scores[2, STANDARD.index("induction")] = best
        scores[0, STANDARD.index("previous")] = (previous or induction)[step]
        made.points.append(point(step))
        made.repeats.append(scores)
        made.text.append(scores / 2)
        made.entropy.append(torch.arange(3.0) + step)
    made.pattern_steps = [0, len(induction) - 1]
    made.patterns = [[torch.tensor([[[1.0, 0.0], [0.25, 0.75]]] * 3)] for _ in made.pattern_steps]
    return made


def test_a_film_response_holds_every_number_of_every_point():
    card, arrays = read_film("run", film([0.0, 0.3, 0.9]), Path("nowhere"))
    assert (card.name, card.heads, card.frames) == ("run", list(HEADS), [0, 2])
    assert [(moment.step, moment.tokens) for moment in card.moments] == [(0, 0), (1, 100), (2, 200)]
    assert [moment.loss for moment in card.moments] == pytest.approx([5.0, 4.9, 4.8])
    assert [question.name for question in card.questions] == list(STANDARD)
    assert arrays["repeats"].shape == arrays["text"].shape == (3, 3, len(STANDARD))
    np.testing.assert_allclose(arrays["text"], arrays["repeats"] / 2)
    np.testing.assert_allclose(arrays["entropy"], [[0, 1, 2], [1, 2, 3], [2, 3, 4]])


def test_patterns_survive_rounding_to_sixteen_bits():
    _, arrays = read_film("run", film([0.0, 0.9]), Path("nowhere"))
    patterns = arrays["patterns0"]
    assert (patterns.dtype, patterns.shape) == (np.uint16, (2, 3, 2, 2))
    assert patterns.max() == FULL == np.iinfo(np.uint16).max
    np.testing.assert_allclose(patterns[0, 0] / FULL, [[1.0, 0.0], [0.25, 0.75]], atol=0.51 / FULL, rtol=0)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_an_unmeasured_loss_is_none_rather_than_nan(broken):
    made = film([0.0, 0.9])
    made.points[0] = replace(made.points[0], loss=broken, second_copy=broken)
    card = read_film("run", made, Path("nowhere"))[0]
    first, second = card.moments
    assert card.phase is None
    assert (first.loss, first.second_copy) == (None, None)
    assert first.text_loss == second.text_loss == 5.0


def test_the_phase_change_lies_between_absent_and_formed():
    phase = read_film("run", film([0.0, 0.05, 0.4, 0.8, 0.9]), Path("nowhere"))[0].phase
    assert phase is not None
    assert (phase.before, phase.after) == (1, 3)
    assert len(phase.evidence) == 3
    assert all(each.before <= each.after for each in phase.evidence)


def test_a_broken_film_is_refused_and_the_others_still_load(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a film")
    films = Films([str(tmp_path)])
    with pytest.raises(InputError):
        films.film(tmp_path.name)
    assert films.film("embedded")[0].moments


def test_every_task_of_a_film_is_a_behaviour_with_its_moment():
    made = film([0.0, 0.3, 0.9])
    made.tasks = [{"name": "giving", "sentence": "Who receives it."}, {"name": "pronoun", "sentence": "Whose it is."}]
    made.task_right = [torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.9]), torch.tensor([0.5, 1.0])]
    made.task_loss = [torch.tensor([math.nan, 5.0]), torch.tensor([4.0, 4.0]), torch.tensor([4.0, 1.0])]
    made.task_attention = [torch.tensor([[0.1, 0.1], [0.2, 0.1], [0.0, moment / 2]]) for moment in range(3)]
    pronoun, giving = read_film("run", made, Path("nowhere"))[0].behaviours
    assert (pronoun.name, pronoun.sentence, pronoun.before, pronoun.after) == ("pronoun", "Whose it is.", 0, 1)
    assert (pronoun.head, pronoun.attention) == ("1.0", pytest.approx([0.0, 0.5, 1.0]))
    assert (giving.name, giving.before, giving.after, giving.head) == ("giving", None, None, "0.1")
    assert giving.loss == [None, 4.0, 4.0]
    assert read_film("run", film([0.0, 0.9]), Path("nowhere"))[0].behaviours == []
