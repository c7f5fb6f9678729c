"""A run of transformers' Trainer is recorded as a film."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import transformers
from tests.models import tiny

from headscope.heads.film import Film, TrainingRecorder
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.models.huggingface.trainer_callback import FilmCallback, Recorder


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_run_is_filmed_from_its_first_step_to_its_last(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config)
    rows = torch.randint(1, 60, (16, 12))
    probe = RepeatProbe(vocabulary=60, length=8, rows=1)
    recorder = TrainingRecorder(model, probe=probe, file=tmp_path / "film.safetensors", share=1.0)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=6,
            per_device_train_batch_size=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_steps=1,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        callbacks=[recorder.callback()],
    )
    trainer.train()
    film = Film.load(tmp_path / "film.safetensors")
    assert film.series("step")[0] == 0
    assert film.series("step")[-1] == 6
    assert film.heads == ("0.0", "0.1", "1.0", "1.1")
    assert film.series("loss")[-1] > 0
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.filterwarnings("ignore")
def test_a_small_model_s_run_has_a_film_of_twenty_points_whatever_they_cost(tmp_path: Path) -> None:
    """Its context is shorter than the usual repeat probe."""
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    recorder = TrainingRecorder(model, file=str(tmp_path / "run.film"))
    assert recorder.repeated.shape == (4, 63)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=150, per_device_train_batch_size=1, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True, logging_steps=50,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in torch.randint(1, 60, (16, 12))],
        callbacks=[recorder.callback()],
    )  # fmt: skip
    trainer.train()
    film = Film.load(str(tmp_path / "run.film"))
    assert len(film.points) >= 20
    assert len(set(film.series("step"))) == len(film.points)
    assert film.series("tokens_seen")[-1] == 150 * 12


class Log:
    """A recorder that keeps its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, float, int, bool]] = []

    def record(self, step: int, *, loss: float = 0.0, tokens_seen: int = -1, force: bool = False) -> bool:
        self.calls.append((step, loss, tokens_seen, force))
        return force


@pytest.mark.filterwarnings("ignore")
def test_the_recorder_is_given_every_step_its_tokens_and_the_loss_logged_before_it(tmp_path: Path) -> None:
    """The first, the last and thirty more are forced; between them the recorder decides."""
    log = Log()
    assert isinstance(log, Recorder)
    rows = torch.randint(1, 60, (8, 12))
    trainer = transformers.Trainer(
        model=tiny.llama(),
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=4, per_device_train_batch_size=2, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True, logging_steps=2,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        callbacks=[FilmCallback(log)],
    )  # fmt: skip
    trainer.train()
    logged = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    assert set(logged) == {2, 4}
    steps, losses, tokens, forced = zip(*log.calls, strict=True)
    assert steps == (0, 1, 2, 3, 4, 4)
    assert forced == (True, True, True, True, False, True)
    assert tokens == (0, 24, 48, 72, 96, 96)
    assert all(math.isnan(loss) for loss in losses[:3]), "nothing is logged before the end of the second step"
    assert losses[3:] == (logged[2], logged[2], logged[4])
