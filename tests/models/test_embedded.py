"""The shipped model is the one its card describes: its bytes, its scores, its film, and what it does with them."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from bench.name_stories import MEN, WOMEN
from torch import Tensor

import headscope
from headscope.attention.observer import Call, observing, plain
from headscope.heads.film import Film
from headscope.heads.questions.head_scores import QuestionScores, head_scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import RepeatProbe, _CopyLoss
from headscope.lab.train.gpt import GPT
from headscope.lab.train.llama_folder import load_folder
from headscope.lab.train.text_files import load_tokenizer

FOLDER = Path(headscope.__file__).parent / "models" / "embedded"
CARD = (FOLDER / "MODEL_CARD.md").read_text(encoding="utf-8")
PROBE = RepeatProbe(vocabulary=8192, rows=4)


@pytest.fixture(scope="module")
def model() -> GPT:
    return load_folder(FOLDER)


@pytest.fixture(scope="module")
def scores(model: GPT) -> QuestionScores:
    return head_scores(model, PROBE.tokens())[0]


def measured() -> dict[str, Any]:
    """The figures that the card states, from its JSON block."""
    block = re.search(r"```json\n(.*?)```", CARD, re.DOTALL)
    assert block
    found: dict[str, Any] = json.loads(block.group(1))
    return found


def test_every_file_is_the_one_the_card_names() -> None:
    listed = dict(re.findall(r"^\| `([\w.-]+)` \| `([0-9a-f]{64})` \|$", CARD, re.MULTILINE))
    assert {"config.json", "tokenizer.json", "film.safetensors"} < set(listed)
    assert {file.name for file in FOLDER.glob("*.safetensors")} < set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name


def test_it_is_small_enough_to_ship() -> None:
    sizes = {file.name: file.stat().st_size for file in FOLDER.iterdir()}
    assert sizes["film.safetensors"] <= 3_000_000
    assert sum(sizes.values()) <= 30_000_000
    assert max(sizes.values()) < 16_000_000


def test_it_has_induction_previous_token_and_first_token_heads(scores: QuestionScores) -> None:
    assert scores.best("induction")[1] >= 0.7
    assert scores.best("previous")[1] >= 0.8
    assert scores.best("first")[1] >= 0.9
    for name in ("induction", "previous", "first"):
        head, value = measured()["best"][name]
        assert scores.mean(name)[scores.heads.index(head)].item() == pytest.approx(value, abs=0.05)


@contextmanager
def without(model: GPT, heads: set[str]) -> Iterator[None]:
    sites = {id(block.attention): layer for layer, block in enumerate(model.blocks)}

    def observer(call: Call) -> Tensor:
        z = plain(call).clone()
        z[:, [head for head in range(z.shape[1]) if f"{sites[id(call.site)]}.{head}" in heads]] = 0.0
        return z

    with observing(observer):
        yield


@torch.no_grad()
def copies(model: GPT, heads: set[str]) -> _CopyLoss:
    tokens = PROBE.tokens()
    with without(model, heads):
        return PROBE.losses(model(tokens), tokens)


def test_ablating_the_induction_heads_undoes_the_gain_and_random_heads_do_not(
    model: GPT, scores: QuestionScores
) -> None:
    whole = copies(model, set())
    assert whole.gain >= 5.0
    chosen = {head for head, score in zip(scores.heads, scores.mean("induction"), strict=True) if score >= 0.5}
    assert copies(model, chosen).gain <= whole.gain / 2
    others = random.Random(0).sample(sorted(set(scores.heads) - chosen), len(chosen))
    assert copies(model, set(others)).gain > whole.gain / 2


def test_transformers_gives_the_same_logits(model: GPT) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    ids = torch.tensor([tokenizer("The horse crossed the road because it was tired.")["input_ids"]])
    assert ids[0, 0] == tokenizer.bos_token_id == 0
    with torch.no_grad():
        torch.testing.assert_close(model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_two_names_are_followed_by_a_name_more_often_than_not(model: GPT) -> None:
    tokenizer = load_tokenizer(FOLDER / "tokenizer.json")
    known = {tokenizer.encode(" " + name, add_special_tokens=False).ids[0] for name in WOMEN + MEN}
    draw = random.Random(7)
    found = 0
    for _ in range(20):
        first, second = draw.sample(WOMEN + MEN, 2)
        text = f"When {first} and {second} went to the shop, {second} gave a book to"
        found += int(model(torch.tensor([tokenizer.encode(text).ids]))[0, -1].argmax()) in known
    assert found > 10


def test_common_names_are_single_tokens() -> None:
    tokenizer = load_tokenizer(FOLDER / "tokenizer.json")
    assert all(len(tokenizer.encode(" " + name, add_special_tokens=False).ids) == 1 for name in WOMEN + MEN)


def test_the_film_holds_the_whole_run(scores: QuestionScores) -> None:
    film = Film.load(FOLDER / "film.safetensors")
    assert len(film.points) >= 60
    assert film.heads == scores.heads
    assert all(scores.shape == (64, len(STANDARD)) for scores in film.text + film.repeats)
    assert 6 <= len(film.patterns) <= 8
    assert len(film.sentences) == 2
    for frame in film.patterns:
        for pattern, sentence in zip(frame, film.sentences, strict=True):
            length = len(sentence["tokens"])
            assert pattern.shape == (64, length, length)
            torch.testing.assert_close(pattern.float().sum(-1), torch.ones(64, length), atol=5e-3, rtol=0.0)


def test_the_last_point_of_the_film_is_the_model_that_ships(model: GPT) -> None:
    film = Film.load(FOLDER / "film.safetensors")
    again, _ = head_scores(model, RepeatProbe(vocabulary=8192).tokens())
    torch.testing.assert_close(
        again.mean("induction"), film.repeats[-1][:, STANDARD.index("induction")], atol=0.03, rtol=0.0
    )


@pytest.mark.slow
def test_it_reads_four_times_what_it_was_trained_on_and_says_so() -> None:
    import headscope

    with headscope.load() as scope:
        assert (scope.shape.context, scope.shape.trained) == (16_384, 4_096)
        look = scope.look([5, 6, 7] * 1_400)
        assert len(look.tokens) == 4_200
