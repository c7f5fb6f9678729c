"""Training that is killed at any step ends with the same bytes, and never saves weights that are not numbers."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.film import Film
from headscope.lab.train.text_files import TextFile
from headscope.lab.train.training import TrainingOptions, TrainingRun, prepare, train
from tests.killing import in_a_fork

STEPS = 24
TINY = TrainingOptions(
    d_model=16, n_layers=1, n_heads=2, vocabulary=260, context=16, rows=2, steps=STEPS, film_points=200, device="cpu"
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextFile:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("A horse and a lamp stood by the road; the horse was tired of the lamp.\n" * 40, encoding="utf-8")
    return TextFile(file)


@pytest.fixture(scope="module")
def whole(text: TextFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    return train([text], tmp_path_factory.mktemp("whole"), TINY).folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


class KilledRun(TrainingRun):
    """A run whose process ends without a word after the checkpoint of one step."""

    last = 0

    def _advance(self, forward: object) -> torch.Tensor:
        if self.step == self.last:
            self.save()
            raise SystemExit
        return super()._advance(forward)


@pytest.mark.quick
@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, 7, STEPS - 1])
def test_a_run_killed_at_a_step_of_the_film_ends_with_the_same_bytes(
    text: TextFile, whole: Path, tmp_path: Path, at: int
) -> None:
    """Every step is a point of the film, so the kill is at one."""

    def killed() -> None:
        run = KilledRun(prepare([text], TINY, tmp_path), tmp_path, TINY)
        run.last = at
        run.loop(lambda progress: None, threading.Event())

    assert in_a_fork(killed) != 0
    resumed = train([text], tmp_path, TINY)
    assert resumed.finished
    assert contents(resumed.folder) == contents(whole)
    assert Film.load(whole / "film.safetensors").series("step") == list(range(STEPS + 1))


def test_a_run_whose_film_is_gone_is_not_resumed_with_half_of_one(text: TextFile, tmp_path: Path) -> None:
    train([text], tmp_path, replace(TINY, steps=2))
    (tmp_path / "model/film.safetensors").unlink()
    with pytest.raises(InputError, match=r"film of the first 2 steps, is missing .* remove checkpoint\.safetensors"):
        train([text], tmp_path, replace(TINY, steps=2))


def test_weights_that_are_not_numbers_do_not_replace_the_last_checkpoint(text: TextFile, tmp_path: Path) -> None:
    run = TrainingRun(prepare([text], TINY, tmp_path), tmp_path, TINY)
    run.save()
    before = contents(tmp_path)
    with torch.no_grad():
        run.model.embedding.weight[3, 5] = float("nan")
    run.step = 9
    with pytest.raises(InputError, match=r"diverged before step 9: embedding\.weight .* checkpoint of step 0 is kept"):
        run.save()
    assert contents(tmp_path) == before
