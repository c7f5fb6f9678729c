"""Training: it learns, resumes exactly, stops cleanly, and says what is wrong with its input."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError, ShapeError
from headscope.lab import people
from headscope.lab.checkpoint import Checkpoint, read, write
from headscope.lab.texts import TextFile, read_documents, split
from headscope.lab.tokenizer import train_tokenizer
from headscope.lab.training import Progress, Trained, TrainingOptions, train

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
    file.write_text("\n".join(people.documents(60)), encoding="utf-8")
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
    def interrupt(progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    stopped = train([text], tmp_path, TINY, interrupt)
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

    def die(progress: Progress) -> None:
        raise Killed

    with pytest.raises(Killed):
        train([text], tmp_path, replace(TINY, checkpoint_seconds=0.0), die)
    assert read(tmp_path / "checkpoint.safetensors").step == 19
    resumed = train([text], tmp_path, TINY)
    assert all(torch.equal(weight, weights(whole)[name]) for name, weight in weights(resumed).items())


def test_the_last_stage_reads_longer_rows(text: TextFile, tmp_path: Path) -> None:
    longer = replace(TINY, steps=2, long_steps=1, long_context=64)
    assert [longer.stage(step) for step in range(3)] == [(4, 32), (4, 32), (2, 64)]
    trained = train([text], tmp_path, longer)
    assert trained.model.config.context == 64
    assert trained.film.series("tokens_seen")[-1] == 3 * 4 * 32


def test_the_rate_rises_stays_and_falls_to_nothing() -> None:
    options = replace(TINY, steps=100, warmup=10, decay=0.5, learning_rate=1.0)
    assert options.rate(0) == pytest.approx(0.1)
    assert options.rate(20) == options.rate(49) == 1.0
    assert options.rate(75) == pytest.approx(0.5)
    assert options.rate(99) == pytest.approx(0.02)


def test_a_checkpoint_of_another_run_is_refused_and_kept(text: TextFile, tmp_path: Path) -> None:
    train([text], tmp_path, replace(TINY, steps=2))
    kept = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(InputError, match="another run: n_layers is 2 there and 3 here"):
        train([text], tmp_path, replace(TINY, steps=2, n_layers=3))
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == kept


def test_an_empty_text_and_none_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"empty\.txt has no text in it"):
        train([TextFile(tmp_path / "empty.txt")], tmp_path / "run", TINY)
    with pytest.raises(InputError, match="at least one text file"):
        train([], tmp_path / "run", TINY)


def test_a_text_shorter_than_the_context_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("Too short to learn anything from.")
    with pytest.raises(InputError, match=r"short\.txt has \d+ tokens to learn from, fewer than the context of 32"):
        train([TextFile(tmp_path / "short.txt")], tmp_path / "run", TINY)


def test_more_heads_than_width_is_refused() -> None:
    with pytest.raises(ShapeError, match="n_heads=64 do not fit d_model=32"):
        replace(TINY, n_heads=64)


def test_shares_outside_zero_and_one_are_refused() -> None:
    with pytest.raises(InputError, match=r"repeats=1\.5"):
        replace(TINY, repeats=1.5)


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
    write(file, Checkpoint(1, {"a": 1}, {"x": torch.ones(4)}))
    with files_no_larger_than(4096), pytest.raises(InputError, match="the last one is as it was"):
        write(file, Checkpoint(2, {"a": 1}, {"x": torch.ones(4000)}))
    assert read(file).step == 1
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_no_checkpoint_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"junk")
    with pytest.raises(InputError, match="is not a checkpoint of a training run"):
        read(tmp_path / "checkpoint.safetensors")


def test_json_lines_hold_out_what_they_mark(tmp_path: Path) -> None:
    lines = [{"title": "a", "text": "one"}, {"title": "b", "text": "two", "split": "valid"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    seen, unseen = split(read_documents(tmp_path / "t.jsonl"))
    assert [document.title for document in seen] == ["a"]
    assert [document.title for document in unseen] == ["b"]


def test_bad_json_is_said_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "fine"}\n{"title": "no text"}\n')
    with pytest.raises(InputError, match=r"t\.jsonl, line 2: not a JSON object with a text"):
        read_documents(tmp_path / "t.jsonl")
    (tmp_path / "t.txt").write_bytes(b"abc\xff")
    with pytest.raises(InputError, match=r"t\.txt is not UTF-8 text: invalid start byte at byte 3"):
        read_documents(tmp_path / "t.txt")


def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    with pytest.raises(InputError, match=r"vocabulary=100 is too small: .* are 257"):
        train_tokenizer(["text"], 100)
