"""Fitting heads: coverage and answers, computed again in plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.lab.teach.crafted_heads import (
    CraftSettings,
    Job,
    _answers,
    _covered,
    _Diagnosis,
    _pattern,
    _word_ids,
    fit,
    fresh_model,
)
from headscope.lab.teach.target_patterns import Target

WORDS = ["the", "cat", "saw", "the", "dog"]


def job(*arrows: tuple[tuple[int, int], ...], words: list[str] = WORDS) -> Job:
    rows = [Target("t", arrows=each).rows(words) for each in arrows]
    return Job(words, torch.stack([row for row, _ in rows]), torch.stack([finds for _, finds in rows]))


@given(st.lists(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=2, max_size=2))
def test_covered_is_the_overlap_with_the_target(rows: list[list[float]]) -> None:
    weights, wanted = torch.tensor([[rows[0]]]), torch.tensor([[rows[1]]])
    expected = sum(min(a, b) for a, b in zip(*rows, strict=True))
    assert float(_covered(weights, wanted)[0, 0]) == pytest.approx(expected, abs=1e-5)


def test_answers_are_the_words_that_heads_attend_to() -> None:
    work = job(((2, 1), (4, 2)), ((4, 3),), ())
    answers = _answers(work)
    the, cat, saw = (int(_word_ids(WORDS)[place]) for place in (0, 1, 2))
    assert answers.shape == (5, 5)
    for row in (0, 1, 3):
        assert answers[row].tolist() == [1.0 if word == the else 0.0 for word in range(5)], "a silent row rests"
    assert answers[2].tolist() == [1.0 if word == cat else 0.0 for word in range(5)]
    assert answers[4].tolist() == [0.5 if word in (the, saw) else 0.0 for word in range(5)]


def test_the_loss_is_the_cross_entropy_with_the_target_and_falls() -> None:
    work, told = job(((2, 1), (4, 2)), ((4, 3),)), []
    settings = CraftSettings(steps=30, snapshots=4)
    fitted = fit(work, settings, told.append)
    model = fresh_model(work, settings)
    weights = _pattern(model, model.embed(work.ids)).detach()
    for head in range(2):
        rows = [
            -sum(float(work.wanted[head, row, key]) * float(weights[head, row, key].log())
                 for key in range(5) if work.wanted[head, row, key] > 0)
            for row in range(5)
        ]  # fmt: skip
        assert float(fitted.losses[0, head]) == pytest.approx(sum(rows) / 5, rel=1e-4)
    assert fitted.losses.shape == (31, 2)
    assert (fitted.losses[-1] < 0.8 * fitted.losses[0]).all()
    assert [each.step for each in told] == [0, 5, 16, 30], "denser at first"
    assert told == fitted.snapshots
    assert fitted.snapshots[-1].loss == [round(value, 4) for value in fitted.losses[-1].tolist()]
    now = _pattern(fitted.model, fitted.model.embed(work.ids)).detach()
    torch.testing.assert_close(fitted.hits, _covered(now, work.wanted))


def test_a_head_is_pulled_to_its_own_target_and_to_nothing_else() -> None:
    """Another wish for the second head, and so another output, leaves the first head's every step as it was."""
    settings = CraftSettings(steps=25)
    one, other = (fit(job(((2, 1), (4, 3)), second), settings) for second in (((4, 0),), ((1, 0), (3, 2), (4, 2))))
    assert torch.equal(one.losses[:, 0], other.losses[:, 0])
    assert not torch.equal(one.losses[:, 1], other.losses[:, 1])
    for ours, theirs in zip(one.snapshots, other.snapshots, strict=True):
        assert torch.equal(ours.patterns[0], theirs.patterns[0])
    assert not torch.equal(one.model.unembedding.weight, other.model.unembedding.weight)


def test_answers_have_the_shares_of_unequal_heads() -> None:
    targets = [Target("a", arrows=((4, 1), (4, 2)), shares=(0.75, 0.25)), Target("b", arrows=((4, 1),))]
    rows = [target.rows(WORDS) for target in targets]
    answers = _answers(Job(WORDS, torch.stack([row for row, _ in rows]), torch.stack([finds for _, finds in rows])))
    cat, saw = (int(_word_ids(WORDS)[place]) for place in (1, 2))
    assert answers[4, [cat, saw]].tolist() == pytest.approx([1.75 / 2, 0.25 / 2])
    assert answers.sum(-1).tolist() == pytest.approx([1] * 5)


def test_a_row_that_no_head_size_reaches_is_diagnosed() -> None:
    words = [f"w{number}" for number in range(24)]
    arrows = tuple((row, (row * 7) % (row + 1)) for row in range(1, 24))
    work = job(arrows, words=words)
    diagnosis = _Diagnosis(work, CraftSettings(d_model=2, d_head=1, steps=5))
    said = [diagnosis.why(0, row) for row in range(1, 24)]
    worst = int(diagnosis.wider[0].argmin())
    assert diagnosis.why(0, worst) == (
        f"d_model=2 is too small to tell 24 words apart here: even a head of 2 numbers reaches only "
        f"{float(diagnosis.wider[0, worst]):.2f}."
    )
    assert all(said)


@pytest.mark.parametrize(
    ("arrows", "place", "says"),
    [
        (((4, 3),), 4, "'the' at 0 and at 3 look alike without positions: no head can choose between them."),
        (((4, 0), (4, 3)), 4, ""),
        (
            ((3, 1),),
            3,
            "'the' at 3 and at 0 have the same query without positions, but should attend to different words.",
        ),
        (((2, 1),), 2, ""),
    ],
    ids=["one of two alike", "both alike", "two that ask alike", "nothing alike in sight"],
)
def test_words_that_look_alike_without_positions_are_named(
    arrows: tuple[tuple[int, int], ...], place: int, says: str
) -> None:
    assert _Diagnosis(job(arrows), CraftSettings(positions=False))._alike(0, place) == says
