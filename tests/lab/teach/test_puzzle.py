"""Puzzles: ten levels, the same for the same seed; every job can be seen in the pattern of its head."""

from __future__ import annotations

import datetime

import pytest
import torch
from tests.lab.compile.test_compile import attended

import headscope
from headscope.errors import InputError
from headscope.lab.compile.words import START
from headscope.lab.teach.puzzle import JOBS, LEVELS, named, of_week, puzzle


@pytest.mark.parametrize("level", range(1, len(LEVELS) + 1))
@pytest.mark.parametrize("seed", range(3))
def test_each_job_is_seen_in_its_heads_pattern_and_tells_it_from_the_others(level: int, seed: int) -> None:
    made = puzzle(level, seed)
    with headscope.load(made.name) as scope:
        look = scope.look(made.text)
        words = [token.text if at else START for at, token in enumerate(look.tokens)]
        assert "<other>" not in words
        wanted = {rule: attended(rule, words)[1:] for rule in made.choices}
        for head, rule in made.solution.items():
            common = {job: float(torch.minimum(look.pattern(head)[1:], rows).sum()) for job, rows in wanted.items()}
            assert max(common, key=lambda job: common[job]) == rule, (head, common)


def test_answers_are_marked_and_only_the_right_one_names_the_job() -> None:
    made = puzzle(4, 3)
    head, rule = next(iter(made.solution.items()))
    decoy = next(each for each, job in made.compiled.truth.items() if job is None)
    other = next(each for each in made.choices if each != rule)
    told = made.mark({head: rule, decoy: rule})
    assert [one.right for one in told] == [True, False]
    assert JOBS[rule] in told[0].says
    assert "random" in told[1].says
    assert "another" in made.mark({head: other})[0].says
    with pytest.raises(InputError, match=r"9\.9=itself"):
        made.mark({"9.9": "itself"})


def test_levels_grow_and_a_week_has_one_puzzle() -> None:
    heads = [len(puzzle(level, 1).compiled.truth) for level in range(1, len(LEVELS) + 1)]
    assert (len(heads), heads.index(min(heads)), heads.index(max(heads))) == (10, 0, 9)
    monday = datetime.date(2026, 11, 16)
    week = [of_week(monday + datetime.timedelta(days=day)).name for day in range(8)]
    assert len(set(week[:7])) == 1
    assert week[7] != week[0]
    assert named(week[0]) is of_week(monday)
    for wrong in ("puzzle-0-1", "puzzle-11-1", "puzzle-easy"):
        with pytest.raises(InputError, match=r"1 to 10|puzzle-3-7"):
            headscope.load(wrong)
