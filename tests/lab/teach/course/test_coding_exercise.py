"""The file with gaps: right answers are right, and the mistakes that people make get their own sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.lab.teach.course import coding_exercise as mistakes
from headscope.lab.teach.course.coding_exercise import CheckedGap, check_exercise, gaps, write_exercise

SOLVED = {
    "project": "x @ W",
    "scores": "q @ k.T / math.sqrt(k.shape[-1])",
    "masked": 'scores.masked_fill(~allowed, float("-inf"))',
    "shares": "torch.softmax(scores, dim=-1)",
    "single_head": ("shares(masked(scores(project(x, W_Q), project(x, W_K)), allowed)) @ project(x, W_V)"),
    "multi_head": "torch.cat([single_head(x, *head, allowed) for head in heads], dim=-1) @ W_O",
    "split_heads": "y.view(len(y), n_heads, -1).transpose(0, 1)",
    "merge_heads": "z.transpose(0, 1).reshape(z.shape[1], -1)",
    "batched": (
        "(lambda q, k, v: merge_heads(((q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~allowed, float('-inf'))"
        ".softmax(-1)) @ v) @ W_O)(*(split_heads(x @ W, n_heads) for W in (W_Q, W_K, W_V)))"
    ),
}


def checked(folder: Path, answers: dict[str, str]) -> dict[str, CheckedGap]:
    """Write the exercise, fill its gaps with these expressions, and check it."""
    file = folder / "mine.py"
    write_exercise(file)
    head, *functions = file.read_text(encoding="utf-8").split("\ndef ")
    filled = [each.replace("return ...", f"return {answers.get(each.split('(')[0], '...')}") for each in functions]
    file.write_text("\ndef ".join([head, *filled]), encoding="utf-8")
    return {gap.name: gap for gap in check_exercise(file)}


def test_the_empty_file_has_every_gap_and_nothing_wrong(tmp_path: Path) -> None:
    found = checked(tmp_path, {})
    assert list(found) == [gap.name for gap in gaps()] == list(SOLVED)
    assert {gap.state for gap in found.values()} == {"empty"}


def test_the_solution_is_right_and_each_gap_is_checked_as_it_is_filled(tmp_path: Path) -> None:
    names = list(SOLVED)
    for count in (1, 4, len(names)):
        folder = tmp_path / str(count)
        folder.mkdir()
        found = checked(folder, {name: SOLVED[name] for name in names[:count]})
        states = [gap.state for gap in found.values()]
        assert states == ["right"] * count + ["empty"] * (len(names) - count)


RAW = "(x @ W_Q) @ (x @ W_K).T"
WRONG = [
    ("shares", "torch.softmax(scores, dim=0)", mistakes.WRONG_AXIS),
    ("scores", "q @ k.T", mistakes.UNSCALED),
    ("scores", "q @ k.T / k.shape[-1]", mistakes.OVER_D),
    ("scores", "k @ q.T / math.sqrt(k.shape[-1])", mistakes.SWAPPED),
    ("masked", "scores.masked_fill(allowed, float('-inf'))", mistakes.INVERTED),
    ("masked", "scores * allowed", mistakes.ZEROS),
    ("masked", "torch.softmax(scores, -1) * allowed", mistakes.AFTER),
    ("split_heads", "y.view(n_heads, len(y), -1)", mistakes.NO_TRANSPOSE),
    ("merge_heads", "z.reshape(z.shape[1], -1)", mistakes.NO_TRANSPOSE_BACK),
    ("multi_head", "torch.cat([single_head(x, *head, allowed) for head in heads], dim=-1)", mistakes.NO_W_O),
    ("multi_head", "sum(single_head(x, *head, allowed) for head in heads)", mistakes.SUMMED),
    ("multi_head", "torch.cat([single_head(x, *head, allowed) for head in heads], dim=0)", mistakes.BELOW),
    ("single_head", f"torch.softmax({RAW} / math.sqrt(32), -1) * allowed @ (x @ W_V)", mistakes.AFTER),
    ("single_head", f"torch.softmax(({RAW}).masked_fill(~allowed, -math.inf), -1) @ (x @ W_V)", mistakes.UNSCALED),
    ("single_head", f"torch.softmax({RAW} / math.sqrt(32), -1) @ (x @ W_V)", mistakes.UNMASKED),
    ("batched", SOLVED["batched"].replace(") @ W_O)", "))"), mistakes.NO_W_O),
    (
        "batched",
        SOLVED["batched"].replace("split_heads(x @ W, n_heads)", "(x @ W).view(n_heads, 5, -1)"),
        mistakes.NO_TRANSPOSE,
    ),
    ("batched", SOLVED["batched"].replace("math.sqrt(q.shape[-1])", "math.sqrt(128)"), mistakes.BY_MODEL),
]


@pytest.mark.parametrize(("gap", "answer", "sentence"), WRONG)
def test_a_common_mistake_gets_its_own_sentence(tmp_path: Path, gap: str, answer: str, sentence: str) -> None:
    found = checked(tmp_path, SOLVED | {gap: answer})[gap]
    assert (found.state, found.says) == ("wrong", sentence)


def test_a_file_that_does_not_run_or_is_there_already(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def project(x, W:\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.py does not run: SyntaxError.*line 1"):
        check_exercise(file)
    with pytest.raises(InputError, match=r"mine\.py is there already"):
        write_exercise(file)
    file.write_text("x = 1\n", encoding="utf-8")
    assert "has no function project" in check_exercise(file)[0].says
