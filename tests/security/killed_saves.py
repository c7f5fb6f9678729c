"""Kill processes while they save every kind of file. Run by test_killed_saves in a process of its own.

Each writer saves one version, then another in a fork of this process that is killed at one of its file operations. Then
one complete version must be there. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bench.heads import ship

import headscope
from headscope.app.export.html import save_html
from headscope.files import PART
from headscope.heads.film import Film
from headscope.heads.roles.report import Report
from headscope.lab.train import training
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.llama_folder import load_folder, save_folder
from headscope.lab.train.text_files import load_tokenizer, train_tokenizer
from headscope.scope import EMBEDDED, load
from tests.heads.conftest import small_llama
from tests.killing import kill_at_byte, kill_before_change, n_changes

NOBODY = 65534  # a user without write permission; root may write everywhere


class Writer(ABC):
    """Saves version 0 or 1, and reads what is there afterwards."""

    new_each_time = False

    @abstractmethod
    def save(self, folder: Path, version: int, turn: int) -> None: ...

    @abstractmethod
    def found(self, folder: Path) -> Sequence[Any]:
        """The content that is there, one entry per saved file or folder."""


class Files(Writer):
    """Writers of one file."""

    name = "file"

    def found(self, folder: Path) -> list[bytes]:
        return [file.read_bytes() for file in folder.glob(self.name)]


class Exports(Files):
    name = "look.html"

    def __init__(self) -> None:
        scope = load()
        self.looks = [scope.look(text) for text in ("the lamp", "a lamp")]

    def save(self, folder: Path, version: int, turn: int) -> None:
        save_html(self.looks[version], folder / self.name)


class Films(Files):
    name = "film.safetensors"

    def __init__(self) -> None:
        self.films = [Film.load(EMBEDDED / self.name) for _ in range(2)]
        self.films[1].truncate(self.films[1].points[-2].step)

    def save(self, folder: Path, version: int, turn: int) -> None:
        self.films[version].save(folder / self.name)


class Checkpoints(Writer):
    name = "checkpoint.safetensors"

    def save(self, folder: Path, version: int, turn: int) -> None:
        tensors = {"weight.x": torch.full((2**20,), float(version))}
        training.write_checkpoint(folder / self.name, training.Checkpoint(version, {}, tensors))

    def found(self, folder: Path) -> list[Any]:
        read = [training.read_checkpoint(file) for file in folder.glob(self.name)]
        return [(one.step, one.tensors["weight.x"].unique().tolist()) for one in read]


class Reports(Files):
    name = "heads.json"

    def __init__(self) -> None:
        self.scope = load()
        report = Report.from_dict(json.loads((EMBEDDED / self.name).read_text(encoding="utf-8")))
        self.reports = [replace(report, traits={} if version else report.traits) for version in range(2)]

    def save(self, folder: Path, version: int, turn: int) -> None:
        ship(self.reports[version], self.scope, folder / self.name)


class Models(Writer):
    """A model folder of a training run, whose files must all be of one step."""

    def __init__(self) -> None:
        config = GPTConfig(vocabulary=300, d_model=128, n_layers=4, n_heads=4, context=32)
        self.models = [GPT(config), GPT(config)]
        for version, model in enumerate(self.models):
            for weight in model.parameters():
                weight.data.fill_(version + 1.0)
        self.tokenizer = train_tokenizer(["the cat sat"], 260)

    def save(self, folder: Path, version: int, turn: int) -> None:
        save_folder(self.models[version], self.tokenizer, folder / "model")

    def found(self, folder: Path) -> list[Any]:
        if not (folder / "model").exists():
            return []
        there = load_folder(folder / "model")
        values = sorted({value for weight in there.parameters() for value in weight.unique().tolist()})
        generation = json.loads((folder / "model/generation_config.json").read_text())
        return [[values, load_tokenizer(folder / "model/tokenizer.json").get_vocab_size(), generation]]


class PrunedFolders(Writer):
    """A new folder each time, which is there completely or not at all."""

    new_each_time = True

    def __init__(self) -> None:
        with headscope.load(small_llama()) as scope:
            self.pruned = [scope.prune(heads=heads) for heads in (["0.1"], ["1.1", "2.5"])]

    def save(self, folder: Path, version: int, turn: int) -> None:
        self.pruned[version].save(folder / f"smaller-{turn}")

    def found(self, folder: Path) -> list[Any]:
        made = [inner for inner in sorted(folder.glob("smaller-*")) if inner.suffix != PART]
        return [{file.name: file.read_bytes().hex() for file in sorted(inner.iterdir())} for inner in made]


WRITERS = {kind.__name__: kind for kind in (Exports, Films, Checkpoints, Reports, Models, PrunedFolders)}


def trial(writer: Writer, folder: Path) -> dict[str, Any]:
    """What was wrong after kills, and how many of them left something unfinished."""
    whole = []
    for version in range(2):
        (folder / f"whole-{version}").mkdir(parents=True)
        writer.save(folder / f"whole-{version}", version, 0)
        whole += writer.found(folder / f"whole-{version}")
    assert len(whole) == 2
    assert whole[0] != whole[1]
    wrong: list[str] = []
    cut = 0
    for name, kill in kills(writer, folder).items():
        here = folder / name
        here.mkdir()
        writer.save(here, 0, 0)
        if kill(here, lambda here=here: writer.save(here, 1, 1)) >= 0:
            wrong.append(f"{name}: it was not killed")
        cut += bool(unfinished(here))
        try:
            there = writer.found(here)
            if len(there) not in (1, 1 + writer.new_each_time):
                wrong.append(f"{name}: {len(there)} are there")
            wrong += [f"{name}: something that was never saved" for one in there if one not in whole]
            writer.save(here, 0, len(there))
        except Exception as error:  # a reader may stumble over half a file in any way
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        if unfinished(here):
            wrong.append(f"{name}: what was cut off still lies about after the next save")
    return {"wrong": wrong, "cut": cut}


MOST_KILLS = 6  # between the files of one save


def kills(writer: Writer, folder: Path) -> dict[str, Callable[[Path, Callable[[], None]], int]]:
    """Ways to kill a save: before some of its changes of files, the first and the last among them, and inside one."""
    (folder / "count").mkdir()
    writer.save(folder / "count", 0, 0)
    last = n_changes(folder / "count", lambda: writer.save(folder / "count", 1, 1)) - 1
    largest = max(file.stat().st_size for file in (folder / "whole-1").rglob("*") if file.is_file())
    numbers = sorted({round(last * share / (MOST_KILLS - 1)) for share in range(MOST_KILLS)})
    before = {f"before-{number}": partial(kill_before_change, number) for number in numbers}
    return before | {"inside": lambda _, work: kill_at_byte(largest // 2, work)}


def unfinished(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix == PART]


def refusals(writer: Writer, folder: Path, chance: random.Random) -> list[str]:
    """The problems after saves on a full disk and into a read-only folder."""
    wrong: list[str] = []
    for hinder in (full, read_only):
        here = folder / hinder.__name__
        here.mkdir()
        writer.save(here, 0, 0)
        before = writer.found(here)
        error = hindered(writer, here, hinder, chance.randint(0, smallest_limit(here)))
        if not error.startswith("InputError: ") or "could not be written" not in error:
            wrong.append(f"{hinder.__name__}: {error}")
        if writer.found(here) != before or unfinished(here):
            wrong.append(f"{hinder.__name__}: the finished save has changed")
    return wrong


def hindered(writer: Writer, folder: Path, hinder: Callable[[Path, int], None], limit: int) -> str:
    """The error of a save in a process with a full disk or without write permission."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        hinder(folder, limit)
        try:
            writer.save(folder, 1, 1)
            said = "no error"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(telling, said.encode()[:4000])
        os._exit(0)
    os.close(telling)
    os.waitpid(child, 0)
    with os.fdopen(told, "rb") as stream:
        return stream.read().decode()


def full(folder: Path, limit: int) -> None:
    """Limit the size of files, as a full disk would."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def read_only(folder: Path, limit: int) -> None:
    for inner in (folder, *(inner for inner in folder.rglob("*") if inner.is_dir())):
        inner.chmod(0o555)
    if os.getuid() == 0:
        os.setuid(NOBODY)


def smallest_limit(folder: Path) -> int:
    """A size too small for either version."""
    return max(file.stat().st_size for file in folder.rglob("*") if file.is_file()) // 8


def main(folder: Path, seed: int) -> None:
    torch.set_num_threads(1)
    chance, said = random.Random(seed), {}
    for name, kind in WRITERS.items():
        writer = kind()
        said[name] = trial(writer, folder / name)
        said[name]["wrong"] += refusals(writer, folder / name, chance)
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
