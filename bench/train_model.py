"""Train the embedded model: ``python bench/train_model.py novels.jsonl.xz source.jsonl.xz --out runs/embedded``.

The first text is prose, of which four novels are marked as held out; the second is source code (see
``bench/source_corpus.py``). A third, of templated stories about two people (``bench/name_stories.py``), is generated.
``--trial`` runs the first steps of several variants instead.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import name_stories
import torch

from headscope.lab.train.training import Progress, TextFile, TrainingData, TrainingOptions, TrainingRun, prepare, train

N_DOCUMENTS = 20_000
WEIGHTS = (0.70, 0.28, 0.02)

EMBEDDED = TrainingOptions(
    d_model=320,
    n_layers=8,
    n_heads=8,
    n_kv_heads=4,
    d_mlp=1056,
    vocabulary=8192,
    context=512,
    rows=128,
    steps=12_000,
    long_context=4096,
    long_steps=1_600,
    learning_rate=3e-3,
    warmup=200,
    decay=0.5,
    repeats=0.1,
    checkpoint_seconds=100.0,
)

START = time.monotonic()


def log(*words: object) -> None:
    print(f"[{time.monotonic() - START:6.1f}s]", *words, flush=True)


def texts(files: list[Path], out: Path) -> list[TextFile]:
    """The given files, and the generated name stories."""
    out.mkdir(parents=True, exist_ok=True)
    stories = out / "people.jsonl"
    lines = (json.dumps({"text": text}) for text in name_stories.documents(N_DOCUMENTS))
    stories.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [TextFile(path, weight) for path, weight in zip([*files, stories], WEIGHTS, strict=True)]


def log_point(run: TrainingRun) -> None:
    """Print the losses and best scores of the film's newest point."""
    film = run.recorder.film
    point = film.points[-1]
    log(
        f"step {point.step:5d} loss {point.loss:.3f} text {point.text_loss:.3f} copies {point.first_copy:.2f} -> "
        f"{point.second_copy:.2f} induction {film.best('induction')[-1]:.2f} previous {film.best('previous')[-1]:.2f} "
        f"duplicate {film.best('duplicate')[-1]:.2f} first {film.best('first')[-1]:.2f}"
    )


def trial(data: TrainingData, out: Path, options: TrainingOptions, seconds: float) -> None:
    """Train the first steps of several variants within a time limit."""
    variants = {
        "gqa4 seed0": options,
        "mha seed0": replace(options, n_kv_heads=8, d_mlp=960),
        "gqa4 seed1": replace(options, seed=1),
        "gqa4 seed0 lr5e-3": replace(options, learning_rate=5e-3),
        "mha seed1": replace(options, n_kv_heads=8, d_mlp=960, seed=1),
    }
    for name, variant in variants.items():
        if time.monotonic() - START > seconds:
            break
        log("trial", name)
        run = TrainingRun(data, out / name.replace(" ", "-"), replace(variant, decay=0.0, long_steps=0))
        shown = 0

        def report(progress: Progress, run: TrainingRun = run) -> None:
            nonlocal shown
            if progress.step % 100 == 0:
                log(f"step {progress.step} loss {progress.loss:.3f} {progress.tokens_per_second / 1e6:.2f} M tokens/s")
            if len(run.recorder.film.points) >= shown + 5:
                shown = len(run.recorder.film.points)
                log_point(run)

        run.loop(report, threading.Event())
        log_point(run)


def speed(data: TrainingData, out: Path, options: TrainingOptions) -> None:
    """Time one step of both stages, and profile its kernels."""
    run = TrainingRun(data, out / "speed", options)
    forward = torch.compile(run.model.loss, dynamic=False) if run.on_gpu else run.model.loss
    for stage, first in (("short", 0), ("long", options.steps)):
        run.step = first
        start = time.monotonic()
        run._advance(forward)
        _synchronize(run)
        log(f"{stage}: compiled in {time.monotonic() - start:.1f} s")
        for _ in range(5):
            run._advance(forward)
        _synchronize(run)
        start = time.monotonic()
        for _ in range(20):
            run._advance(forward)
        _synchronize(run)
        rows, context = options.stage(first)
        each = (time.monotonic() - start) / 20
        log(f"{stage}: {each * 1e3:.1f} ms per step, {rows * context / each / 1e6:.2f} M tokens/s")
        if run.on_gpu:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                run._advance(forward)
                _synchronize(run)
            print(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=16, max_name_column_width=70))


def _synchronize(run: TrainingRun) -> None:
    if run.on_gpu:
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, nargs=2, metavar="TEXT", help="prose, and source code")
    parser.add_argument("--out", type=Path, default=Path("runs/embedded"))
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json to use instead of training one")
    parser.add_argument("--options", default="{}", help="JSON of training options that differ from the recipe")
    parser.add_argument("--trial", type=float, metavar="SECONDS", help="try the first steps of several variants")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    options = replace(EMBEDDED, tokenizer=given.tokenizer, **json.loads(given.options))
    files = texts(given.texts, given.out)
    if given.trial is not None:
        data = prepare(files, options, given.out)
        sizes = {stream.name: len(stream.tokens) for stream in data.streams}
        log("prepared", sizes, "held out", len(data.held_out))
        speed(data, given.out, options)
        trial(data, given.out, options, given.trial)
        return

    def report(progress: Progress) -> None:
        if progress.step % 200 == 0:
            speed = f"{progress.tokens_per_second / 1e6:.2f} M tokens/s, {progress.seconds_left:.0f} s left"
            log(f"step {progress.step}/{progress.total} loss {progress.loss:.3f} {speed}")

    trained = train(files, given.out, options, report)
    film = trained.film
    log("finished" if trained.finished else "stopped", "at step", trained.step, "->", trained.folder)
    for point, induction, previous in zip(film.points, film.best("induction"), film.best("previous"), strict=True):
        print(
            f"{point.step:6d} loss {point.loss:.3f} text {point.text_loss:.3f} at 50 {point.early_loss:.2f} at 500 "
            f"{point.late_loss:.2f} copies {point.first_copy:.2f} -> {point.second_copy:.2f} "
            f"induction {induction:.2f} previous {previous:.2f}"
        )


if __name__ == "__main__":
    main()
