"""Worksheets: every printed solution follows from the numbers that the sheet prints before it."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from headscope.lab.teach.worksheet import EXAMPLES, WorksheetTask, worksheet

SEEDS = range(100)


def numbers(text: str) -> list[float]:
    plain = text.replace("−", "-").replace(",", "")
    return [float(found) for found in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", plain)]


def row(task: WorksheetTask, name: str) -> list[str]:
    return next(cells[1:] for cells in task.table if cells[0] == name)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_are_one_chain_from_query_to_mixed_output(seed: int) -> None:
    """Solve the sheet as a student would: only from what it prints, and from one's own earlier results."""
    first, second, third, fourth, fifth, _ = worksheet(seed).tasks

    (q,) = (numbers(found) for found in re.findall(r"q = \(([^)]*)\)", first.text))
    products = [sum(a * b for a, b in zip(q, numbers(key), strict=True)) for key in row(first, "k")]
    (width,) = (float(found) for found in re.findall(r"d = (\d+)", first.text))
    assert width == len(q)
    scores = [product / width**0.5 for product in products]
    assert numbers(first.answers[0]) == products
    assert numbers(first.answers[1]) == [width**0.5]
    assert numbers(first.answers[2]) == scores
    assert numbers(first.text)[-1] == sum(scores)

    printed = dict(zip(range(4), map(float, re.findall(r"e[⁰¹²³] = ([\d.]+)", second.text)), strict=True))
    powers = [printed[int(score)] for score in scores]
    shares = [round(power / sum(powers), 2) for power in powers]
    assert numbers(second.answers[0]) == pytest.approx([sum(powers)])
    assert numbers(second.answers[1]) == shares
    assert sum(shares) == pytest.approx(1)
    assert shares.count(max(shares)) == 1, "the winner must be one word"
    assert second.answers[2] == second.table[0][1 + shares.index(max(shares))]

    values = [numbers(cell) for cell in row(third, "value")]
    z = [sum(share * value[axis] for share, value in zip(shares, values, strict=True)) for axis in range(2)]
    assert numbers(third.answers[0]) == pytest.approx(z)
    assert numbers(third.answers[1]) == pytest.approx([sum(value[axis] for value in values) / 4 for axis in range(2)])

    (z2,) = (numbers(found) for found in re.findall(r"z₂ = \(([^)]*)\)", fourth.text))
    both, W_O = [*z, *z2], [[numbers(cell)[0] for cell in cells[1:]] for cells in fourth.table[1:]]
    assert numbers(fourth.answers[0]) == pytest.approx(both)
    for answer, rows in ((fourth.answers[1], range(4)), (fourth.answers[2], range(2))):
        mixed = [sum(both[at] * W_O[at][column] for at in rows) for column in range(2)]
        assert numbers(answer) == pytest.approx(mixed, abs=1e-9)

    text = re.findall(r"“(.*?)”", first.text)[0].split()
    reader, late = re.findall(r"\*(.*?)\*", fifth.text)[:2]
    assert text.index(reader) < text.index(late)
    assert late == second.table[0][-1]
    assert numbers(fifth.answers[0]) == [text.index(reader) + 1] == [numbers(fifth.blanks[0])[0]]
    assert numbers(fifth.answers[1]) == [len(text)]
    assert numbers(fifth.answers[2]) == [round(power / sum(powers[:3]), 2) for power in powers[:3]]
    assert sum(numbers(fifth.answers[2])) == pytest.approx(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_workings_are_true_equations(seed: int) -> None:
    """Each `a·b + c·d = e` that is printed as working."""
    checked = 0
    for task in worksheet(seed).tasks:
        for left, right in re.findall(r"([\d.()−+·/ ]+) = ([−\d.]+)(?= |[.,;]|$)", task.working.replace(",", "")):
            value = eval(left.strip().replace("·", "*").replace("−", "-"))
            assert value == pytest.approx(numbers(right.rstrip("."))[0], abs=1e-9), task.working
            checked += 1
    assert checked >= 8


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


def test_every_sentence_is_used_and_seeds_differ() -> None:
    sheets = [worksheet(seed).markdown(solved=True) for seed in SEEDS]
    assert all(any(example.sentence in sheet for sheet in sheets) for example in EXAMPLES)
    assert len({sheet.split("\n", 1)[1] for sheet in sheets}) == len(sheets)


def test_a_blank_sheet_holds_no_answer() -> None:
    sheet = worksheet(3)
    blank = asdict(sheet.shown(solved=False))
    assert all(not task["answers"] and not task["working"] for task in blank["tasks"])
    assert all(task.answers for task in sheet.shown(solved=True).tasks)
    for task in sheet.tasks:
        assert task.working not in sheet.markdown(solved=False)
        assert task.working in sheet.markdown(solved=True)
