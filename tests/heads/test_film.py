"""The film: moments, saving, resuming, and that looking costs no more than its share."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.film import Film, TrainingRecorder, moments
from headscope.heads.probe import STANDARD, RepeatProbe
from headscope.lab.gpt import GPT, GPTConfig

PROBE = RepeatProbe(vocabulary=60, length=10, rows=2)


def recorder(**given: object) -> TrainingRecorder:
    model = GPT(GPTConfig(vocabulary=60, d_model=16, n_layers=2, n_heads=2))
    text = torch.randint(1, 60, (2, 40))
    return TrainingRecorder(model, text=text, probe=PROBE, sentences={"a": [0, 5, 6]}, **given)  # type: ignore[arg-type]


def test_moments_are_dense_early_and_end_at_the_end() -> None:
    steps = moments(13_600, 90)
    assert steps[0] == 0
    assert steps[-1] == 13_600
    assert steps == sorted(set(steps))
    assert len(steps) >= 60
    assert sum(step < 1000 for step in steps) >= 30


def test_a_film_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = recorder()
    for step in (0, 3, 9):
        made.record(step, loss=1.5, tokens_seen=step * 10, force=True)
        made.show(step)
    made.film.save(tmp_path / "film.safetensors")
    read = Film.load(tmp_path / "film.safetensors")
    assert read.series("step") == [0, 3, 9]
    assert read.series("late_loss") == pytest.approx(made.film.series("late_loss"))
    assert read.heads == ("0.0", "0.1", "1.0", "1.1")
    assert read.best("induction") == pytest.approx(made.film.best("induction"))
    assert read.sentences == [{"text": "a", "tokens": [0, 5, 6]}]
    torch.testing.assert_close(read.patterns[2][0], made.film.patterns[2][0])
    assert read.patterns[0][0].shape == (4, 3, 3)


def test_cutting_forgets_what_came_after() -> None:
    made = recorder()
    for step in (0, 3, 9):
        made.record(step, force=True)
        made.show(step)
    made.film.cut(5)
    assert made.film.series("step") == [0, 3]
    assert len(made.film.repeats) == len(made.film.text) == len(made.film.entropy) == len(made.film.patterns) == 2


def test_a_model_that_was_training_still_is() -> None:
    made = recorder()
    made.model.train()
    made.record(0)
    assert made.model.training


def test_looking_takes_no_more_than_its_share_of_the_time() -> None:
    made = recorder(share=0.02)
    began = time.perf_counter()
    looks = sum(made.record(step) for step in range(400) if time.sleep(0.001) is None)
    longest = made.spent / looks
    assert looks >= 1
    assert made.spent - longest <= 0.02 * (time.perf_counter() - began)


def test_a_film_of_another_schema_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "f.safetensors", metadata={"film": '{"schema_version": 9}'})
    with pytest.raises(InputError, match="a film of schema 9; this program reads 1"):
        Film.load(tmp_path / "f.safetensors")


def test_a_model_of_transformers_gives_the_film_of_our_own_with_the_same_weights() -> None:
    transformers = pytest.importorskip("transformers")
    from headscope.lab.folder import llama_config, to_llama

    ours = recorder()
    config = transformers.LlamaConfig(**llama_config(ours.model.config, torch.float32))  # type: ignore[arg-type]
    theirs = transformers.LlamaForCausalLM(config)
    theirs.load_state_dict({to_llama(name): weight for name, weight in ours.model.named_parameters()}, strict=False)
    before = theirs.config._attn_implementation
    other = TrainingRecorder(theirs, text=ours.text, probe=PROBE)
    ours.record(1)
    other.record(1)
    assert theirs.config._attn_implementation == before
    assert len(STANDARD) == other.film.repeats[0].shape[1]
    torch.testing.assert_close(other.film.repeats[0], ours.film.repeats[0], atol=1e-5, rtol=1e-4)
    assert other.film.series("text_loss") == pytest.approx(ours.film.series("text_loss"), abs=1e-4)
