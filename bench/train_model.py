"""Train the embedded model: ``python -m bench.train_model novels.jsonl.xz source.jsonl.xz --out runs/embedded``.

The first text is prose, of which four novels are marked as held out; the second is source code (see
``bench/source_corpus.py``). Up to a fifth of the rows is generated (``bench/curriculum``), with its answers marked. The
tokenizer is trained first, then the model in two stages: short rows, then long ones. A run that stops, by itself after
``--seconds`` or killed, goes on where it was when the same command is given again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from bench.curriculum import held_out, honesty, mixture, renamed, tokenizer
from bench.curriculum.harvest import harvest
from bench.curriculum.named_again import named_again
from bench.curriculum.passage import World
from bench.curriculum.people import NamePool, pool_of
from bench.film_tasks import FilmTask, TaskRun, TaskText
from bench.marks import marked_tokens, raised
from tokenizers import Tokenizer

from headscope.attention.progress import progress_callback
from headscope.errors import InputError
from headscope.lab.train.options import TrainingOptions
from headscope.lab.train.text_files import (
    Document,
    TextFile,
    TrainingData,
    load_tokenizer,
    prepare,
    read_documents,
    save_tokenizer,
    split,
)
from headscope.lab.train.training import TrainingRun

WEIGHTS = {"novels": 0.65, "code": 0.15, "generated": 0.20}  # shares of rows
HAY, SHORTEST_HAY, LONGEST_HAY = 8_000, 200, 900
WINDOWS = 40_000
FILMED = 48  # texts of each task of the film

EMBEDDED = TrainingOptions(
    d_model=384,
    n_layers=8,
    n_heads=6,
    n_kv_heads=3,
    d_mlp=768,
    vocabulary=8192,
    context=512,
    rows=128,
    steps=12_000,
    long_context=4096,
    long_steps=2_000,
    learning_rate=2e-3,
    warmup=200,
    decay=0.5,
    repeats=0.08,
    checkpoint_seconds=100.0,
)

START = time.monotonic()


def log(*words: object) -> None:
    print(f"[{time.monotonic() - START:6.1f}s]", *words, flush=True)


@dataclass(frozen=True)
class Mixture:
    """Shares of rows, of kinds of generated text, the bytes to generate, and the seed."""

    weights: Mapping[str, float]
    shares: Mapping[str, float]
    megabytes: float
    seed: int

    def __post_init__(self) -> None:
        unknown = set(self.shares) - set(mixture.KINDS) | set(self.weights) - set(WEIGHTS)
        if unknown:
            raise InputError(f"unknown: {', '.join(sorted(unknown))}; kinds are {', '.join(mixture.KINDS)}")
        total = sum(self.weights.values())
        if self.weights["generated"] / total > mixture.MOST_GENERATED + 1e-9:
            raise InputError(f"{self.weights['generated'] / total:.0%} of rows would be generated; at most a fifth may")

    def kinds(self) -> dict[str, tuple[float, float]]:
        """Each kind's share of all rows in the short and in the long stage."""
        shares = {name: (self.shares.get(name, kind.share), kind.long_share) for name, kind in mixture.KINDS.items()}
        sums = [sum(each) for each in zip(*shares.values(), strict=True)]
        rows = self.weights["generated"] / sum(self.weights.values())
        return {
            name: (rows * short / sums[0], rows * long / sums[1])
            for name, (short, long) in shares.items()
            if short or long
        }


def generate(novels: list[Document], pool: NamePool, out: Path, mixed: Mixture) -> dict[str, Path]:
    """Write the generated text, or take what an earlier command with the same settings wrote."""
    folder, kinds = out / "generated", mixed.kinds()
    made = folder / "made.json"
    sizes = {
        name: round(mixed.megabytes * 1e6 * max(both) / sum(map(max, kinds.values()))) for name, both in kinds.items()
    }
    settings = {"sizes": sizes, "seed": mixed.seed, "novels": len(novels)}
    files = {name: folder / f"{name.replace(' ', '-')}.jsonl" for name in kinds}
    if made.exists() and json.loads(made.read_text()) == settings:
        return files
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as processes:
        found = harvest((document.text for document in novels), processes)
    world = World(random.Random(mixed.seed), pool, paragraphs(novels), passages(novels, pool), found)
    log(f"{len(pool.found)} names, {len(world.hay)} paragraphs and {len(world.windows)} passages of novels")
    log(f"{len(found.deeds)} deeds, {len(found.together)} beginnings and {len(found.nouns)} nouns of novels")
    files = mixture.write(folder, sizes, mixed.seed, world)
    made.write_text(json.dumps(settings))
    return files


def paragraphs(novels: list[Document]) -> list[str]:
    """Paragraphs of novels in which no name or template of a probe occurs, evenly over the novels."""
    each = max(1, HAY // len(novels))
    found = []
    for novel in novels:
        fitting = [part.strip() for part in novel.text.split("\n") if SHORTEST_HAY <= len(part.strip()) <= LONGEST_HAY]
        chosen = fitting[:: max(1, len(fitting) // each)]
        found += [part for part in chosen if honesty.refusal(part) is None][:each]
    return found


def passages(novels: list[Document], pool: NamePool) -> list[str]:
    """Passages of novels with people in them, evenly over the novels."""
    genders = renamed.JUDGED | dict(pool.found)
    each = max(1, WINDOWS // len(novels))
    found = []
    for novel in novels:
        fitting = [window for window in renamed.windows(novel.text) if renamed.is_peopled(window, genders)]
        found += fitting[:: max(1, len(fitting) // each)][:each]
    return found


def trained_tokenizer(texts: list[Document], generated: Mapping[str, Path], out: Path, vocabulary: int) -> Path:
    """Train the tokenizer, unless the run has one."""
    file = out / "tokenizer.json"
    if not file.exists():
        some = [document.text for path in generated.values() for document in read_documents(path)[:2000]]
        made = tokenizer.train([*(document.text for document in texts), *some], vocabulary)
        save_tokenizer(made, out, EMBEDDED.long_context or EMBEDDED.context)
        log("tokenizer", hashlib.sha256(file.read_bytes()).hexdigest()[:12])
    return file


def film_tasks(made: Tokenizer) -> dict[str, FilmTask]:
    """The behaviours whose moments the film shows, on held-out questions whose answers are single tokens."""
    asked = {
        "indirect object": (
            "Who receives it: the name of the two that has not acted.",
            held_out.indirect_objects(FILMED * 2),
        ),
        "pronoun": ("Whose thing it is: he and she tell.", held_out.pronouns(FILMED * 2)),
        "succession": ("What comes next in an ordered list.", held_out.succession(FILMED * 2)),
        "retrieval": ("A fact that was stated once, some hundred words before.", held_out.needles(FILMED, 120)),
    }
    found = {}
    for name, (sentence, questions) in asked.items():
        texts = [text for question in questions if (text := task_text(made, question)) is not None][:FILMED]
        if texts:
            found[name] = FilmTask(sentence, tuple(texts))
    return found


def task_text(made: Tokenizer, question: held_out.Question) -> TaskText | None:
    """A question as token ids; None if an answer is no single token."""
    right, wrong = (made.encode(" " + word, add_special_tokens=False).ids for word in (question.right, question.wrong))
    if len(right) != 1 or len(wrong) != 1:
        return None
    encoded = made.encode(question.text)
    start, stop = question.source
    here = [at for at, (begin, end) in enumerate(encoded.offsets) if begin < stop and end > start]
    return TaskText(encoded.ids, right[0], wrong[0], here)


def prepared(
    given: argparse.Namespace, options: TrainingOptions, mixed: Mixture
) -> tuple[TrainingData, Path, dict[str, FilmTask]]:
    """All tokenized text with its shares of rows in both stages, and the names of novels marked that come again."""
    read = [split(read_documents(path))[0] for path in given.texts]
    pool = pool_of(document.text for document in read[0][::4])
    generated = generate(read[0], pool, given.out, mixed)
    file = given.tokenizer or trained_tokenizer([*read[0], *read[1]], generated, given.out, options.vocabulary)
    total = sum(mixed.weights.values())
    files = [
        TextFile(path, mixed.weights[name] / total) for path, name in zip(given.texts, ("novels", "code"), strict=True)
    ]
    files += [TextFile(generated[name], early) for name, (early, _) in mixed.kinds().items()]
    data = prepare(files, replace(options, tokenizer=file), given.out)
    (novels, code, *others), vocabulary = data.streams, data.tokenizer.get_vocab_size()
    if not given.plain_novels:
        names = [*renamed.JUDGED, *(name for name, _ in pool.found)]
        novels = raised(novels, named_again(novels.tokens, names, data.tokenizer), vocabulary)
    paths = [generated[name] for name in mixed.kinds()]
    others = [
        raised(stream, marked_tokens(path, data.tokenizer), vocabulary)
        for stream, path in zip(others, paths, strict=True)
    ]
    return replace(data, streams=[novels, code, *others]), file, film_tasks(load_tokenizer(file))


def train(run: TrainingRun, seconds: float) -> bool:
    """Train until the end or for so many seconds, and say whether the run is finished."""
    stopped = threading.Event()

    first, began = run.step, time.monotonic()

    def report(task: str, step: int, total: int) -> None:
        if time.monotonic() - START > seconds:
            stopped.set()
        if step % 200 == 0:
            spent, done = time.monotonic() - began, run.options.tokens(step) - run.options.tokens(first)
            left = spent * (run.options.tokens(total) - run.options.tokens(step)) / done
            log(f"step {step}/{total}, {task}, {done / spent / 1e6:.2f} M tokens/s, {left:.0f} s left | {newest(run)}")

    with progress_callback(report):
        run.loop(stopped)
    return run.step == run.options.total_steps


def newest(run: TrainingRun) -> str:
    """The film's newest point in a line."""
    film = run.recorder.film
    if not film.points:
        return "no point yet"
    point = film.points[-1]
    words = [f"at {point.step}: text {point.text_loss:.3f}, second copy {point.second_copy:.2f}"]
    for number, task in enumerate(film.tasks):
        best = float(film.task_attention[-1][:, number].max())
        right, loss = (float(values[-1][number]) for values in (film.task_right, film.task_loss))
        words.append(f"{task['name']} {right:.0%} ({loss:.2f} nats, head {best:.2f})")
    return ", ".join(words)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, nargs=2, metavar="TEXT", help="prose, and source code")
    parser.add_argument("--out", type=Path, default=Path("runs/embedded"))
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json to use instead of training one")
    parser.add_argument("--options", default="{}", help="JSON of training options that differ from the recipe")
    parser.add_argument("--weights", default="{}", help=f"JSON of shares of rows that differ from {WEIGHTS}")
    parser.add_argument("--shares", default="{}", help="JSON of shares of the kinds of generated text that differ")
    parser.add_argument("--generated-mb", type=float, default=140.0, help="megabytes of text to generate")
    parser.add_argument("--plain-novels", action="store_true", help="do not mark names of novels that come again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="save and stop after this long")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    torch.set_float32_matmul_precision("high")
    changed: dict[str, Any] = json.loads(given.options)
    options = replace(EMBEDDED, **changed)
    mixed = Mixture(
        {**WEIGHTS, **json.loads(given.weights)}, json.loads(given.shares), given.generated_mb, options.seed
    )
    given.out.mkdir(parents=True, exist_ok=True)
    data, tokens, tasks = prepared(given, options, mixed)
    options = replace(options, tokenizer=tokens)
    log("prepared", {stream.name: len(stream.tokens) for stream in data.streams}, "held out", len(data.held_out))
    command = "python -m bench.train_model " + shlex.join(sys.argv[1:])
    about = {"rows": mixed.weights, "kinds": mixed.kinds(), "command": command}
    (given.out / "mixture.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    run = TaskRun(data, given.out, options)
    run.recorder.film_tasks(tasks)
    own = [stream.weight for stream in data.streams[: len(WEIGHTS) - 1]]
    run.batches.long_weights = torch.tensor([*own, *(late for _, late in mixed.kinds().values())])
    run.batches.long_from = options.steps
    finished = train(run, given.seconds)
    log("finished" if finished else "stopped", "at step", run.step, "->", run.folder, "|", newest(run))


if __name__ == "__main__":
    main()
