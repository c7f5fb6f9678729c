"""Scan a corpus with a model: measure every head and question, resumable after any interruption."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from headscope.errors import InputError
from headscope.heads.questions.standard_questions import STANDARD
from headscope.models.inputs.dummy_inputs import device_of
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import hashing
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus, Passage
from headscope.scan.corpus.file_hashes import FileHashes
from headscope.scan.corpus.packing import RowFormat, pack
from headscope.scan.corpus.packing_check import choose_row_format
from headscope.scan.measure import Advance, Measurer, Plan, threads
from headscope.scan.options import ScanOptions
from headscope.scan.pool import Opener, WorkerSetup, process_pool, run_here
from headscope.scan.progress import progress_bar
from headscope.scan.recipe import SCHEMA_VERSION, Recipe, describe_machine, describe_model
from headscope.scan.shards import Packing, ScanFolder

AT_ONCE = 2**20
"""Characters that are given to the tokenizer at once, where nothing is said of where to stop reading."""


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
        stack.enter_context(
            threads(options.threads or (earlier.threads if earlier else _threads(model, options.workers)))
        )
        weights = stack.enter_context(hashing(model.model))
        return _scan_into(folder, model, source, options, opener, weights)


def _scan_into(
    folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, opener: Opener | None,
    weights: Future[str],
) -> Census:  # fmt: skip
    earlier, n_threads = folder.recipe(), torch.get_num_threads()
    row_format = choose_row_format(model, options.context_for(model.shape.context))
    hashes = FileHashes(folder.hashes_file)
    with progress_bar("Checking the corpus", corpus.n_bytes, options.progress, unit="bytes") as advance:
        identity = corpus.identity(hashes, advance)
    begin = _Begin(folder, lambda: _recipe(model, weights.result(), identity, options, row_format, n_threads))
    if earlier is None:
        folder.check_free()  # the recipe is written when the weights are hashed, at the latest before the first tally
    else:
        begin()
    packing = None if earlier is None else folder.packing()
    if corpus.known_by_reading and (packing is not None or folder.finished):
        _check_same_text(folder, model, corpus, options, row_format)
    if folder.finished:
        folder.remove_work()
        return Census.load(folder.path)
    packing = packing or _pack(folder, model, corpus, options, row_format, hashes)
    plan = Plan.make(model, options, row_format, n_threads, packing.unit)
    try:
        _measure_missing(begin, Measurer(model, plan), opener, packing, options)
    except KeyboardInterrupt as stopped:
        kept = packing.shards - len(folder.missing_shards(packing))
        raise KeyboardInterrupt(f"{kept} of {packing.shards} shards are kept in {folder.path}") from stopped
    result = {**asdict(packing), "interval_over": packing.unit, "notes": list(model.notes)}
    census = Census(folder.merged_tally(packing), begin().with_result(**result), model.processor.tokens_of)
    for name, data in census.files().items():
        folder.write(folder.path / name, data)
    folder.remove_work()
    return census


def _threads(model: OpenModel, workers: int) -> int:
    """CPU threads for each worker. Beside a GPU there is little to do at a time: waking threads would take longer."""
    return 1 if device_of(model.model).type == "cuda" else max(1, torch.get_num_threads() // workers)


class _Begin:
    """The recipe of a scan, made and written into its folder (or compared with the one there) on the first call."""

    def __init__(self, folder: ScanFolder, make: Callable[[], Recipe]) -> None:
        self.folder, self._make = folder, make
        self._recipe: Recipe | None = None

    def __call__(self) -> Recipe:
        if self._recipe is None:
            recipe = self._make()
            self.folder.start(recipe)
            self._recipe = recipe
        return self._recipe


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


def _check_same_text(
    folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, row_format: RowFormat
) -> None:
    """Read the corpus again, and refuse it if its rows are not those of the scan in the folder."""
    digest = hashlib.sha256()
    with progress_bar("Comparing the text", None, options.progress) as advance:
        documents = _tokenised(model, corpus, options, advance)
        for packed in pack(documents, row_format, options.rows_in_shard(row_format.context, device_of(model.model))):
            digest.update(packed.digest().encode())
    if digest.hexdigest() != folder.packed_sha256():
        raise InputError(f"{folder.path} holds a scan of another text; give the same text, or choose another folder")


def _pack(
    folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, row_format: RowFormat,
    hashes: FileHashes,
) -> Packing:  # fmt: skip
    """Read the corpus once and write its packed rows, one file per shard."""
    folder.remove_rows()
    shards = rows = pieces = tokens = 0
    digest = hashlib.sha256()
    with progress_bar("Reading", None, options.progress) as advance:
        documents = _tokenised(model, corpus, options, advance)
        for packed in pack(documents, row_format, options.rows_in_shard(row_format.context, device_of(model.model))):
            digest.update(folder.save_rows(shards, packed).encode())
            shards, rows = shards + 1, rows + len(packed.ids)
            pieces, tokens = pieces + len(packed.pieces), tokens + packed.n_tokens
    hashes.check_unchanged()
    if not shards:
        folder.reset()
        raise InputError([*corpus.problems, "the corpus is empty: it has no text of two tokens or more"][0])
    packing = Packing(shards, rows, corpus.n_documents, pieces, tokens, digest.hexdigest(), corpus.problems)
    folder.save_packing(packing)
    return packing


def _tokenised(
    model: OpenModel, corpus: Corpus, options: ScanOptions, advance: Advance
) -> Iterator[tuple[int, list[int]]]:
    done = 0
    for passages in _together(corpus, AT_ONCE if options.max_tokens is None else 0):
        found = model.processor.token_ids_of([passage.text for passage in passages])
        for passage, ids in zip(passages, found, strict=True):
            done += len(ids)
            advance(len(ids))
            yield passage.document, ids
            if options.max_tokens is not None and done >= options.max_tokens:
                return


def _together(corpus: Corpus, characters: int) -> Iterator[list[Passage]]:
    """Some passages at a time, for a tokenizer that encodes several at once, on several cores."""
    held: list[Passage] = []
    size = 0
    for passage in corpus:
        held.append(passage)
        size += len(passage.text)
        if size >= characters:
            yield held
            held, size = [], 0
    if held:
        yield held


def _measure_missing(
    begin: _Begin, measurer: Measurer, opener: Opener | None, packing: Packing, options: ScanOptions
) -> None:
    """Measure the shards that have no tally yet: here, in worker processes, or on Ray."""
    folder = begin.folder
    missing = folder.missing_shards(packing)
    if not missing:
        return
    with ExitStack() as stack:
        total = round(packing.tokens * len(missing) / packing.shards)
        advance = stack.enter_context(progress_bar("Scanning", total, options.progress))
        if opener is None or (options.workers == 1 and not options.ray):
            run_here(measurer, folder, missing, advance, begin)
            return
        recipe = begin()
        setup = WorkerSetup(opener, measurer.plan, recipe.weights_sha256, recipe.device)
        if not options.ray:
            process_pool(setup, options.workers).run(folder, missing, advance)
            return
        try:
            from headscope.scan.ray_pool import ray_pool
        except ImportError as error:
            raise InputError("scanning on Ray needs one more package; pip install headscope[ray]") from error
        stack.enter_context(ray_pool(setup, options.workers, options.ray)).run(folder, missing, advance)
