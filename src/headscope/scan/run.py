"""Scan a corpus with a model: measure every head and question, resumable after any interruption."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from headscope.attention.progress import counting
from headscope.errors import InputError
from headscope.heads.questions.standard_questions import STANDARD
from headscope.models.modes import device_of, threads
from headscope.models.recording import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus, FileHashes
from headscope.scan.corpus.packing import RowFormat
from headscope.scan.corpus.packing_check import choose_row_format
from headscope.scan.corpus.reading import CorpusReader, CorpusSource
from headscope.scan.measure import Advance, Measurer, Plan
from headscope.scan.options import ScanOptions
from headscope.scan.pool import Opener, WorkerSetup, process_pool, run_here
from headscope.scan.shards import SCHEMA_VERSION, Packing, Recipe, ScanFolder, describe_machine, describe_model


def scan(
    model: OpenModel,
    corpus: Any,
    *,
    out: str | Path | None = None,
    options: ScanOptions = ScanOptions(),  # noqa: B008 - frozen
    opener: Opener | None = None,
) -> Census:
    """Measure every head and question over a corpus. A scan into a folder ``out`` that was interrupted is resumed.

    Several workers or Ray need an ``opener``: a function without arguments that opens the same model elsewhere.
    """
    if (options.workers > 1 or options.ray) and opener is None:
        raise InputError(
            "several workers open the model themselves, so they need its name or folder; this model is an object: "
            "scan with workers=1, or load it from a folder"
        )
    with ExitStack() as stack:
        if out is None:
            out = stack.enter_context(tempfile.TemporaryDirectory(prefix="headscope-scan-"))
        folder = ScanFolder(Path(out))
        source = Corpus(corpus, field=options.field, lines=options.lines, broken=options.broken)
        stack.enter_context(folder.lock())
        earlier = folder.recipe()
        # beside a GPU there is little to do at a time: waking threads would take longer
        usual = 1 if device_of(model.model).type == "cuda" else max(1, torch.get_num_threads() // options.workers)
        stack.enter_context(threads(options.threads or (earlier.threads if earlier else usual)))
        return _scan_into(folder, model, source, options, opener)


def _scan_into(
    folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, opener: Opener | None
) -> Census:
    earlier, n_threads = folder.recipe(), torch.get_num_threads()
    row_format = choose_row_format(model, options.context_for(model.shape.context))
    hashes = FileHashes()
    identity = corpus.identity(hashes, counting("checking the corpus", corpus.n_bytes))
    recipe = _recipe(model, weight_hash(model.model), identity, options, row_format, n_threads)
    if earlier is not None:
        folder.start(recipe)
    source = CorpusSource(model, corpus, options, row_format)
    packing = None if earlier is None else folder.packing()
    if corpus.known_by_reading and (packing is not None or folder.finished):
        _check_same_text(folder, source)
    if folder.finished:
        folder.remove_work()
        return Census.load(folder.path)
    packing = _measure(recipe, CorpusReader(folder, source, hashes, packing), opener)
    result = {**asdict(packing), "interval_over": packing.unit, "notes": list(model.notes)}
    census = Census(folder.merged_tally(packing), recipe.with_result(**result), model.processor.tokens_of)
    for name, data in census.files().items():
        folder.write(folder.path / name, data)
    folder.remove_work()
    return census


def _measure(recipe: Recipe, reader: CorpusReader, opener: Opener | None) -> Packing:
    """Measure the shards that have no tally yet: here, while the corpus is read where that helps, or elsewhere."""
    folder, source, options = reader.folder, reader.source, reader.source.options
    here = opener is None or (options.workers == 1 and not options.ray)
    if reader.packing is None and not (here and _reads_ahead(source)):
        reader.read_all()
    folder.start(recipe)  # not before: a corpus that cannot be read leaves none
    unit, shards = reader.missing()
    plan = Plan.make(source.model, options, source.row_format, torch.get_num_threads(), unit)
    measurer = Measurer(source.model, plan)
    try:
        advance = counting("scanning", reader.tokens_missing)
        if here:
            run_here(measurer, folder, shards, advance)
        elif missing := list(shards):
            assert opener is not None, "scan refuses workers without one"
            setup = WorkerSetup(opener, plan, recipe.weights_sha256, recipe.device)
            _measure_elsewhere(setup, folder, options, missing, advance)
    except KeyboardInterrupt as stopped:
        of = "" if reader.packing is None else f" of {reader.packing.shards}"
        raise KeyboardInterrupt(f"{folder.n_tallies()}{of} shards are kept in {folder.path}") from stopped
    assert reader.packing is not None, "it is there when the last shard has been read"
    return reader.packing


def _reads_ahead(source: CorpusSource) -> bool:
    """Whether shards are measured while the corpus is read: beside a GPU. On a CPU both would need the same cores.

    A text that is known only by reading it is read before anything of it is measured.
    """
    return device_of(source.model.model).type == "cuda" and not source.corpus.known_by_reading


def _recipe(
    model: OpenModel, weights: str, corpus: list[dict[str, Any]], options: ScanOptions, row_format: RowFormat,
    n_threads: int,
) -> Recipe:  # fmt: skip
    return Recipe(
        {
            "schema_version": SCHEMA_VERSION,
            "model": describe_model(model, weights),
            "corpus": corpus,
            "reading": {"field": options.field, "lines": options.lines, "broken": options.broken},
            "max_tokens": options.max_tokens,
            "packing": row_format.to_recipe(),
            "rows_in_pass": options.batch_for(row_format.context, device_of(model.model)),
            "rows_in_shard": options.rows_in_shard(row_format.context, device_of(model.model)),
            "questions": [*STANDARD, *(rule.identity() for rule in options.rules)],
            "replicates": options.replicates,
            "examples": options.examples,
            "seed": options.seed,
            "machine": describe_machine(model, n_threads),
        }
    )


def _check_same_text(folder: ScanFolder, source: CorpusSource) -> None:
    """Read the corpus again, and reject it if its rows are not those of the scan in the folder."""
    digest = hashlib.sha256()
    for packed in source.packed():
        digest.update(packed.digest().encode())
    if digest.hexdigest() != folder.packed_sha256():
        raise InputError(f"{folder.path} holds a scan of another text; give the same text, or choose another folder")


def _measure_elsewhere(
    setup: WorkerSetup, folder: ScanFolder, options: ScanOptions, shards: list[int], advance: Advance
) -> None:
    """Measure shards in worker processes, or on Ray."""
    if not options.ray:
        process_pool(setup, options.workers).run(folder, shards, advance)
        return
    try:
        from headscope.scan.ray_pool import ray_pool
    except ImportError as error:
        raise InputError("scanning on Ray needs one more package; pip install ray") from error
    with ray_pool(setup, options.workers, options.ray) as pool:
        pool.run(folder, shards, advance)
