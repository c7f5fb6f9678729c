"""Tasks of a film: loss, share of right answers and each head's attention to the answer, saved and truncated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from bench.film_tasks import FilmTask, TaskRecorder, TaskText, measure

from headscope.heads.film import Film, TrainingRecorder
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.lab.train.gpt import GPT, GPTConfig

MODEL = GPT(GPTConfig(vocabulary=30, d_model=16, n_layers=2, n_heads=2), seed=3).eval()
TEXTS = (TaskText([0, 4, 5, 6, 7], 4, 5, [1]), TaskText([0, 8, 9], 8, 9, [1, 2]))
TASK = FilmTask("Say what stood there.", TEXTS)


@torch.no_grad()
def test_each_text_counts_equally_whatever_its_length() -> None:
    """Against each text alone, with the pattern computed from the recorder's own frames."""
    scores = measure(MODEL, TASK, torch.device("cpu"))
    losses, right, masses = [], [], []
    for text in TEXTS:
        logits = MODEL(torch.tensor([list(text.ids)]))[0, -1]
        losses.append(-torch.log_softmax(logits, -1)[text.right])
        right.append(float(logits[text.right] > logits[text.wrong]))
        recorder = TrainingRecorder(MODEL, probe=RepeatProbe(vocabulary=30, length=5), sentences={"a": text.ids})
        recorder.show(0)
        masses.append(recorder.film.patterns[0][0][:, -1, list(text.answer)].float().sum(-1))
    assert scores.loss == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)
    assert scores.right == pytest.approx(sum(right) / 2)
    torch.testing.assert_close(scores.attention, torch.stack(masses).mean(0), atol=1e-3, rtol=0)  # half precision


def test_tasks_are_saved_read_and_truncated_with_the_film(tmp_path: Path) -> None:
    probe = RepeatProbe(vocabulary=30, length=5)
    recorder = TaskRecorder(MODEL, probe=probe)
    recorder.film_tasks({"giving": TASK, "again": TASK})
    for step in (0, 5, 9):
        recorder.record(step, force=True)
    recorder.film.save(tmp_path / "film.safetensors")
    read = Film.load(tmp_path / "film.safetensors")
    assert [task["name"] for task in read.tasks] == ["giving", "again"]
    assert read.tasks[0]["sentence"] == TASK.sentence
    assert [tuple(each.shape) for each in read.task_attention] == [(4, 2)] * 3
    torch.testing.assert_close(read.task_loss[2], recorder.film.task_loss[2])
    read.truncate(5)
    assert len(read.task_loss) == len(read.task_right) == len(read.task_attention) == 2
