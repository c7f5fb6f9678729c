"""Worksheets: the printed solutions are what the printed numbers give."""

from __future__ import annotations

import math
import re

import pytest

from headscope.lab.teach.worksheet import WorksheetTask, worksheet

SEEDS = range(20)


def numbers(text: str) -> list[float]:
    plain = text.replace("−", "-").replace(",", "")
    return [float(found) for found in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", plain)]


def row(task: WorksheetTask, name: str) -> list[str]:
    return next(cells[1:] for cells in task.table if cells[0] == name)


@pytest.mark.parametrize("seed", SEEDS)
def test_scaled_scores_are_the_products_over_the_root(seed: int) -> None:
    task = worksheet(seed).tasks[0]
    q, k = (numbers(found) for found in re.findall(r"[qk] = \(([^)]*)\)", task.text))
    assert numbers(task.answers[0]) == [q[0] * k[0] + q[1] * k[1]]
    width = float(re.search(r"d = (\d+)", task.text)[1])
    dots = [numbers(cell)[0] for cell in row(task, "q·k")]
    scaled = [numbers(part)[0] for part in task.answers[2].split(", ")]
    assert scaled == pytest.approx([dot / math.sqrt(width) for dot in dots])


@pytest.mark.parametrize("seed", SEEDS)
def test_shares_are_a_softmax_and_name_its_winner(seed: int) -> None:
    task = worksheet(seed).tasks[1]
    scores = [float(cell) for cell in row(task, "score")]
    shares = [float(part) for part in task.answers[1].split(", ")]
    total = sum(math.exp(score) for score in scores)
    assert shares == pytest.approx([math.exp(score) / total for score in scores], abs=0.011)
    assert scores.count(max(scores)) == 1, "the winner must be one word"
    assert task.answers[2] == row(task, "")[scores.index(max(scores))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_average_is_weighted_by_the_shares(seed: int) -> None:
    task = worksheet(seed).tasks[2]
    shares = [float(cell) for cell in row(task, "share")]
    values = [numbers(cell) for cell in row(task, "value")]
    assert sum(shares) == pytest.approx(1)
    assert numbers(task.answers[0]) == pytest.approx(
        [sum(share * value[axis] for share, value in zip(shares, values, strict=True)) for axis in range(2)]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_output_is_the_concatenation_times_w_o(seed: int) -> None:
    task = worksheet(seed).tasks[3]
    both = [value for found in re.findall(r"\(([^)]*)\)", task.text)[:2] for value in numbers(found)]
    W_O = [[numbers(cell)[0] for cell in cells[1:]] for cells in task.table[1:]]
    assert numbers(task.answers[0]) == both
    expected = [sum(both[at] * W_O[at][column] for at in range(4)) for column in range(2)]
    assert numbers(task.answers[1]) == expected
    one = [sum(both[at] * W_O[at][column] for at in range(2)) for column in range(2)]
    assert numbers(task.answers[2]) == one


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_of_the_card_fit_together(seed: int) -> None:
    task = worksheet(seed).tasks[5]
    d_model, n_heads, n_kv, n_layers = (
        int(numbers(found)[0]) for found in re.findall(r"[\d,]+(?= heads| KV| layers)|(?<=d_model )[\d,]+", task.text)
    )
    d_head, group, cache, full = (int(numbers(answer)[0]) for answer in task.answers)
    assert (d_head * n_heads, group * n_kv) == (d_model, n_heads)
    assert cache == 2 * n_layers * n_kv * d_head * 2
    assert full == cache * group


def test_a_blank_sheet_holds_no_answer() -> None:
    sheet = worksheet(3)
    blank = sheet.to_dict(solved=False)
    assert all(not task["answers"] and not task["working"] for task in blank["tasks"])
    assert all(task["answers"] for task in sheet.to_dict(solved=True)["tasks"])
    for task in sheet.tasks:
        assert task.working not in sheet.markdown(solved=False)
        assert task.working in sheet.markdown(solved=True)
