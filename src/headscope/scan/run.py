"""scan: a corpus through a model, every head and question counted, resumable at any moment."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from headscope.errors import InputError
from headscope.heads.questions.standard_questions import STANDARD
from headscope.models.protocol import OpenModel
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus, Reading
from headscope.scan.corpus.packing import pack
from headscope.scan.corpus.packing_check import Fitting, fit
from headscope.scan.labels import null_name, question_names
from headscope.scan.measure import Measurer, Plan, Tick, threads
from headscope.scan.options import ScanOptions
from headscope.scan.pool import Opener, Work, run_here, run_in_processes
from headscope.scan.progress import bar
from headscope.scan.recipe import SCHEMA_VERSION, Recipe, machine_words, model_words
from headscope.scan.shards import Packed, ScanFolder
from headscope.scan.tally.tally import Layout


def scan(
    model: OpenModel,
    corpus: Any,
    *,
    out: str | Path | None = None,
    options: ScanOptions = ScanOptions(),  # noqa: B008 - frozen
    opener: Opener | None = None,
) -> Census:
    """Every head and question over a corpus; into the folder ``out``, which a killed scan goes on from.

    Several workers or Ray need an ``opener``: a function without arguments that opens the same model elsewhere.
    """
    if (options.workers > 1 or options.ray) and opener is None:
        raise InputError(
            "several workers open the model themselves, so they need its name or folder; this model is an object: "
            "scan with workers=1, or load it from a folder"
        )
    if out is not None:
        return _scan_into(ScanFolder(Path(out)), model, Corpus(corpus, _reading(options)), options, opener)
    with tempfile.TemporaryDirectory(prefix="headscope-scan-") as folder:
        return _scan_into(ScanFolder(Path(folder)), model, Corpus(corpus, _reading(options)), options, opener)


def _reading(options: ScanOptions) -> Reading:
    return Reading(field=options.field, lines=options.lines, broken=options.broken)


def _scan_into(
    folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, opener: Opener | None
) -> Census:
    with folder.held():
        n_threads = options.threads or _threads_there(folder) or max(1, torch.get_num_threads() // options.workers)
        with threads(n_threads):
            fitting = fit(model, options.context_for(model.shape.context))
        recipe = _recipe(model, corpus, options, fitting, n_threads)
        folder.start(recipe)
        if folder.finished:
            folder.clear()
            return Census.load(folder.path)
        packed = folder.packed() or _pack(folder, model, corpus, options, fitting)
        plan = _plan(model, options, fitting, n_threads, packed)
        work = None if opener is None else Work(opener, plan, recipe.weights_sha256, recipe.device)
        try:
            _run_missing(folder, Measurer(model, plan), work, packed, options)
        except KeyboardInterrupt as stopped:
            kept = packed.shards - len(folder.missing(packed))
            raise KeyboardInterrupt(f"{kept} of {packed.shards} shards are kept in {folder.path}") from stopped
        census = Census(folder.merged(packed), recipe.with_result(**_result(packed, model)), model.tokens_of)
        for name, data in census.files().items():
            folder.write(folder.path / name, data)
        folder.clear()
        return census


def _run_missing(
    folder: ScanFolder, measurer: Measurer, work: Work | None, packed: Packed, options: ScanOptions
) -> None:
    missing = folder.missing(packed)
    if not missing:
        return
    with bar("Scanning", round(packed.tokens * len(missing) / packed.shards), options.progress) as tick:
        if work is None or (options.workers == 1 and not options.ray):
            run_here(measurer, folder, missing, tick)
        elif options.ray:
            _run_on_ray(work, folder, missing, options, tick)
        else:
            run_in_processes(work, folder, missing, options.workers, tick)


def _run_on_ray(work: Work, folder: ScanFolder, missing: list[int], options: ScanOptions, tick: Tick) -> None:
    try:
        from headscope.scan.ray_pool import run_on_ray
    except ImportError as error:
        raise InputError("scanning on Ray needs one more package; pip install headscope[ray]") from error
    assert options.ray is not None
    run_on_ray(work, folder, missing, options.workers, options.ray, tick)


def _threads_there(folder: ScanFolder) -> int | None:
    """How many threads a scan that is being resumed was made with."""
    if not folder.recipe_file.exists():
        return None
    there = Recipe.from_json(folder.recipe_file.read_text(encoding="utf-8"))
    return int(there.words["machine"]["threads"])


def _recipe(model: OpenModel, corpus: Corpus, options: ScanOptions, fitting: Fitting, n_threads: int) -> Recipe:
    context = fitting.frame.context
    return Recipe(
        {
            "schema_version": SCHEMA_VERSION,
            "model": model_words(model),
            "corpus": corpus.identity(),
            "reading": {"field": options.field, "lines": options.lines, "broken": options.broken},
            "max_tokens": options.max_tokens,
            "packing": fitting.words(),
            "rows_in_pass": options.batch_for(context),
            "rows_in_shard": options.rows_in_shard(context),
            "questions": [*STANDARD, *(rule.identity() for rule in options.rules)],
            "replicates": options.replicates,
            "examples": options.examples,
            "seed": options.seed,
            "machine": machine_words(model, n_threads),
        }
    )


def _pack(folder: ScanFolder, model: OpenModel, corpus: Corpus, options: ScanOptions, fitting: Fitting) -> Packed:
    """Read the corpus once, and lay its rows down, a file for each shard."""
    folder.forget_rows()
    rows_at_once = options.rows_in_shard(fitting.frame.context)
    shards = rows = pieces = tokens = 0
    digest = hashlib.sha256()
    with bar("Reading", None, options.progress) as tick:
        for packed in pack(_tokenised(model, corpus, options, tick), fitting.frame, rows_at_once):
            folder.keep_rows(shards, packed)
            digest.update(packed.digest().encode())
            shards, rows = shards + 1, rows + len(packed.ids)
            pieces, tokens = pieces + len(packed.pieces), tokens + packed.n_tokens
    if not shards:
        folder.abandon()
        raise InputError(
            corpus.problems[0] if corpus.problems else "the corpus is empty: it holds no text of two tokens or more"
        )
    made = Packed(shards, rows, corpus.n_documents, pieces, tokens, digest.hexdigest(), corpus.problems)
    folder.finish_packing(made)
    return made


def _tokenised(model: OpenModel, corpus: Corpus, options: ScanOptions, tick: Tick) -> Iterator[tuple[int, list[int]]]:
    done = 0
    for passage in corpus:
        ids = model.token_ids(passage.text)
        done += len(ids)
        tick(len(ids))
        yield passage.document, ids
        if options.max_tokens is not None and done >= options.max_tokens:
            return


def _plan(model: OpenModel, options: ScanOptions, fitting: Fitting, n_threads: int, packed: Packed) -> Plan:
    names = question_names(options.rules)
    layout = Layout(
        sites=tuple((site.name, site.n_heads) for site in model.shape.sites.values()),
        questions=names,
        nulls=tuple(null_name(name) for name in names),
        context=fitting.frame.context,
        replicates=options.replicates,
        examples=options.examples,
        seed=options.seed,
    )
    return Plan(
        frame=fitting.frame,
        layout=layout,
        rules=options.rules,
        batch=options.batch_for(fitting.frame.context),
        threads=n_threads,
        unit=packed.unit,
        first_position=fitting.first_position,
    )


def _result(packed: Packed, model: OpenModel) -> dict[str, Any]:
    """What the recipe came to."""
    counts = {name: getattr(packed, name) for name in ("shards", "rows", "documents", "pieces", "tokens", "sha256")}
    notes = list(json.loads(json.dumps(list(model.notes))))
    return {**counts, "interval_over": packed.unit, "problems": packed.problems, "notes": notes}
