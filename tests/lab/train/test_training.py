"""Training: the loss falls, runs resume exactly and stop cleanly, and bad input is refused."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import name_stories
from headscope.attention.progress import progress_callback
from headscope.errors import InputError
from headscope.lab.train.text_files import TextFile
from headscope.lab.train.training import (
    Checkpoint,
    Trained,
    TrainingOptions,
    TrainingRun,
    prepare,
    read_checkpoint,
    recipe,
    train,
    write_checkpoint,
)

TINY = TrainingOptions(
    d_model=32,
    n_layers=2,
    n_heads=2,
    vocabulary=300,
    context=32,
    rows=4,
    steps=30,
    film_points=4,
    warmup=5,
    device="cpu",
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextFile:
    file = tmp_path_factory.mktemp("text") / "people.txt"
    file.write_text("\n".join(name_stories.documents(60)), encoding="utf-8")
    return TextFile(file)


@pytest.fixture(scope="module")
def whole(text: TextFile, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train([text], tmp_path_factory.mktemp("whole"), TINY)


def weights(trained: Trained) -> dict[str, torch.Tensor]:
    return dict(trained.model.named_parameters())


def test_the_loss_goes_down_and_the_film_covers_the_run(whole: Trained) -> None:
    assert whole.finished
    losses = whole.film.series("text_loss")
    assert losses[-1] < losses[0] - 0.5
    assert whole.film.series("step")[0] == 0
    assert whole.film.series("step")[-1] == 30
    assert whole.film.series("tokens_seen")[-1] == 30 * 4 * 32
    assert len(whole.film.patterns) == len(whole.film.pattern_steps) >= 6
    assert (whole.folder / "config.json").exists()


def test_a_run_stopped_by_ctrl_c_goes_on_to_the_same_weights(text: TextFile, whole: Trained, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with progress_callback(interrupt):
        stopped = train([text], tmp_path, TINY)
    assert not stopped.finished
    assert stopped.step == 20
    assert signal.getsignal(signal.SIGINT) is before
    resumed = train([text], tmp_path, TINY)
    assert resumed.finished
    for name, weight in weights(resumed).items():
        assert torch.equal(weight, weights(whole)[name]), name
    assert resumed.film.series("step") == whole.film.series("step")
    assert resumed.film.series("second_copy") == pytest.approx(whole.film.series("second_copy"))


def test_a_run_killed_after_a_checkpoint_goes_on_to_the_same_weights(
    text: TextFile, whole: Trained, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with pytest.raises(Killed), progress_callback(die):
        train([text], tmp_path, replace(TINY, checkpoint_seconds=0.0))
    assert read_checkpoint(tmp_path / "checkpoint.safetensors").step == 19
    resumed = train([text], tmp_path, TINY)
    assert all(torch.equal(weight, weights(whole)[name]) for name, weight in weights(resumed).items())


@pytest.mark.parametrize(
    ("changed", "step", "rate"),
    [
        ({"warmup": 0, "decay": 0.5}, 0, 1.0),
        ({"warmup": 4, "decay": 0.5}, 1, 0.5),
        ({"warmup": 4, "decay": 0.5}, 4, 1.0),
        ({"warmup": 4, "decay": 0.0}, 99, 1.0),
        ({"warmup": 4, "decay": 1.0}, 50, 0.5),
        ({"warmup": 4, "decay": 0.25}, 75, 1.0),
        ({"warmup": 4, "decay": 0.25}, 80, 0.8),
        ({"warmup": 4, "decay": 0.5, "steps": 60, "long_steps": 40, "long_context": 64}, 75, 0.5),
    ],
)
def test_the_learning_rate_is_the_lower_of_warmup_and_decay(changed: dict[str, Any], step: int, rate: float) -> None:
    assert replace(TINY, **({"steps": 100, "learning_rate": 1.0} | changed)).rate(step) == pytest.approx(rate)


def test_gradients_are_clipped_at_norm_one(text: TextFile, tmp_path: Path) -> None:
    run, lengths = TrainingRun(prepare([text], TINY, tmp_path), tmp_path, TINY), []
    with torch.no_grad():
        run.model.embedding.weight.mul_(30)
    run.model.loss(run.batches.batch(0, 4, 32)).mean().backward()
    own = [weight.grad for weight in run.model.parameters() if weight.grad is not None]
    assert float(torch.cat([slope.flatten() for slope in own]).norm()) > 2
    run.optimizers[0].zero_grad()

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        slopes = [weight.grad.flatten() for group in optimizer.param_groups for weight in group["params"]]
        lengths.append(float(torch.cat(slopes).norm()))

    run.optimizers[0].register_step_pre_hook(before)
    run._advance(run.model.loss)
    assert lengths == [pytest.approx(1, abs=1e-3)]
    assert run.step == 1
    assert all(weight.grad is None for weight in run.model.parameters())


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_where_there_is_no_gpu_a_run_goes_to_the_cpu_and_asking_for_one_is_refused(
    text: TextFile, tmp_path: Path
) -> None:
    data = prepare([text], TINY, tmp_path)
    assert TrainingRun(data, tmp_path, replace(TINY, device="auto")).device.type == "cpu"
    for name in ("cuda", "abacus"):
        with pytest.raises(InputError, match=rf"(?s)there is no device '{name}' here \(.+\); use auto, or cpu"):
            TrainingRun(data, tmp_path, replace(TINY, device=name))


def test_a_file_is_weighted_by_its_tokens_unless_given_a_weight(text: TextFile, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("a different little text. " * 200)
    other = tmp_path / "other.txt"
    by_size = prepare([text, TextFile(other)], TINY, tmp_path / "a")
    assert [stream.weight for stream in by_size.streams] == [len(stream.tokens) for stream in by_size.streams]
    told = prepare([text, TextFile(other, 0.5)], TINY, tmp_path / "b")
    assert told.streams[1].weight == 0.5
    assert [stream.name for stream in told.streams] == ["people.txt", "other.txt"]
    assert told.text_hash == by_size.text_hash
    assert recipe(TINY, told) != recipe(TINY, by_size), "another mixture is another run"


def test_held_out_text_is_left_out_of_training_and_used_by_the_film(tmp_path: Path) -> None:
    """Every fourth document is marked; its word stands nowhere else."""
    lines = [
        {"text": f"{'held' if number % 4 == 0 else 'seen'} words and more words " * 8}
        | ({"split": "valid"} if number % 4 == 0 else {})
        for number in range(24)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = prepare([TextFile(tmp_path / "t.jsonl")], TINY, tmp_path / "run")
    learned = data.tokenizer.decode(data.streams[0].tokens.tolist())
    held_out = data.tokenizer.decode(data.held_out.tolist())
    assert "held" not in learned
    assert "seen" not in held_out
    run = TrainingRun(data, tmp_path / "run", TINY)
    assert run.recorder.text is not None
    filmed = run.recorder.text
    assert (filmed[:, 0] == 0).all()
    tokens = data.held_out.tolist()
    windows = {tuple(tokens[at + 1 : at + filmed.shape[1]]) for at in range(len(tokens))}
    assert {tuple(row[1:]) for row in filmed.tolist()} <= windows


def test_the_tokenizer_of_a_run_is_trained_once_and_another_is_used_where_one_is_named(
    text: TextFile, whole: Trained, tmp_path: Path
) -> None:
    own = whole.folder.parent / "tokenizer.json"
    assert own.exists()
    named = prepare([text], replace(TINY, tokenizer=own, vocabulary=999), tmp_path)
    assert named.tokenizer.get_vocab_size() == 300
    assert not (tmp_path / "tokenizer.json").exists()
    smaller = prepare([text], replace(TINY, vocabulary=280), tmp_path)
    assert smaller.tokenizer.get_vocab_size() == 280
    again = prepare([text], replace(TINY, vocabulary=290), tmp_path)
    assert again.tokenizer.get_vocab_size() == 290, "no checkpoint needs the old one"
    kept = prepare([text], replace(TINY, vocabulary=280), whole.folder.parent)
    assert kept.tokenizer.get_vocab_size() == 300, "a checkpoint's tokens stay what they were"


def test_a_checkpoint_of_another_run_is_refused_and_kept(text: TextFile, tmp_path: Path) -> None:
    train([text], tmp_path, replace(TINY, steps=2))
    kept = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(InputError, match="another run: n_layers is 2 there and 3 here"):
        train([text], tmp_path, replace(TINY, steps=2, n_layers=3))
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == kept


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to let files grow past this size, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    write_checkpoint(file, Checkpoint(1, {"a": 1}, {"x": torch.ones(4)}))
    with files_no_larger_than(4096), pytest.raises(InputError, match="the previous file is unchanged"):
        write_checkpoint(file, Checkpoint(2, {"a": 1}, {"x": torch.ones(4000)}))
    assert read_checkpoint(file).step == 1
    assert list(tmp_path.iterdir()) == [file]


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_one_runs(text: TextFile, tmp_path: Path) -> None:
    """Each would remove the other's weights and write over its tokenizer and film."""
    refused: list[str] = []

    def meanwhile(*_: object) -> None:
        with pytest.raises(InputError, match="another run is training into") as refusal:
            train([text], tmp_path / "run", replace(TINY, steps=1, seed=1))
        refused.append(str(refusal.value))

    with progress_callback(meanwhile):
        trained = train([text], tmp_path / "run", replace(TINY, steps=20))
    assert len(refused) == 1
    assert trained.finished
    assert train([text], tmp_path / "run", replace(TINY, steps=20)).step == 20
