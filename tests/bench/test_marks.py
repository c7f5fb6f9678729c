"""Marked tokens weigh more in the loss, streams have a weight per stage, and Muon's runs resume exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bench.film_tasks import FilmTask, TaskRun, TaskText
from bench.marks import MarkedSampler, marked_tokens, raised

from headscope.lab.train.batches import TokenStream
from headscope.lab.train.options import TrainingOptions
from headscope.lab.train.text_files import (
    TextFile,
    encode,
    prepare,
    read_documents,
    train_tokenizer,
)

TEXT = "Anna gave the lamp to Bertil. " * 40
TINY = TrainingOptions(
    d_model=16, n_layers=1, n_heads=2, vocabulary=280, context=16, rows=4, steps=4, film_points=2, warmup=1,
    device="cpu", repeats=0.5,
)  # fmt: skip


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    file = tmp_path / "marked.jsonl"
    spans = [[at, at + 6] for at in range(len(TEXT)) if TEXT.startswith("Bertil", at)]
    file.write_text(json.dumps({"text": TEXT, "marks": spans}) + "\n" + json.dumps({"text": TEXT}) + "\n")
    return file


def test_marked_characters_become_marked_tokens(marked: Path) -> None:
    documents = read_documents(marked)
    tokenizer = train_tokenizer([TEXT], 300)
    tokens, marks = encode(tokenizer, documents), marked_tokens(marked, tokenizer)
    assert marks.shape == tokens.shape
    assert set(tokenizer.decode(tokens[marks].tolist()).split()) == {"Bertil"}
    assert int(marks.sum()) * 2 == sum(token in set(tokens[marks].tolist()) for token in tokens.tolist())


def test_marks_move_with_their_tokens_into_repeats() -> None:
    """Every seventh token is marked: wherever text stands, pasted or not, the multiples of seven are."""
    text = torch.arange(1, 2001) % 900 + 1
    stream = raised(TokenStream("t", text, 1.0), text % 7 == 0, 1000)
    sampler = MarkedSampler([stream], 1000, repeats=1.0, seed=0)
    rows = sampler.batch(3, 8, 128)
    of_text = rows[1::2, 1:]  # the other rows hold random tokens, which are not marked
    assert torch.equal(sampler.marked[1::2, 1:], of_text % 7 == 0)
    assert (sampler.marked[::2] <= (rows[::2] % 7 == 0)).all()
    assert not sampler.marked[:, 0].any()
    assert rows.max() < 1000


def run_in(folder: Path, marked: Path) -> TaskRun:
    data = prepare([TextFile(marked)], TINY, folder)
    marks, vocabulary = marked_tokens(marked, data.tokenizer), data.tokenizer.get_vocab_size()
    run = TaskRun(replace(data, streams=[raised(data.streams[0], marks, vocabulary)]), folder, TINY)
    run.recorder.film_tasks({"copy": FilmTask("Copies.", (TaskText([0, 4, 5], 4, 5, [1]),))})
    return run


def test_a_weight_on_marks_changes_the_update_and_not_the_reported_loss(marked: Path, tmp_path: Path) -> None:
    reported, weights = [], []
    for number, weight in enumerate((1.0, 4.0)):
        run = run_in(tmp_path / str(number), marked)
        run.mark_weight = weight
        reported.append(float(run._advance(run.model.loss)))
        weights.append(run.model.embedding.weight.detach().clone())
    assert reported[0] == reported[1]
    assert not torch.equal(*weights)


def test_a_run_with_muon_resumes_exactly(marked: Path, tmp_path: Path) -> None:
    whole, halved = run_in(tmp_path / "whole", marked), run_in(tmp_path / "halved", marked)
    halved._advance(halved.model.loss)
    halved._advance(halved.model.loss)
    halved.save()
    resumed = run_in(tmp_path / "halved", marked)
    for run in (whole, resumed):
        for _ in range(3 - run.step):
            run._advance(run.model.loss)
    for name, weight in resumed.model.named_parameters():
        assert torch.equal(weight, dict(whole.model.named_parameters())[name]), name
