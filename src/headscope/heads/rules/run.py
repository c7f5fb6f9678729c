"""Fit rules to every head of a model: texts for fitting, for choosing and for reporting are disjoint."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Any

import torch

from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.heads.bootstrap import RESAMPLES
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.rules import class_table, short_context
from headscope.heads.rules.fit import Candidates
from headscope.heads.rules.fit_heads import MOST_RULES, PENALTY, HeadFit, HeadFitter, Samples, families
from headscope.heads.rules.library import built_in
from headscope.heads.rules.measure import Measurer
from headscope.heads.rules.report import Rules
from headscope.heads.rules.rule import Rule, as_rules
from headscope.heads.rules.sampled_rows import (
    FIRST_ROW,
    Drawing,
    Sample,
    Text,
    own_text,
    relabelled,
    sample_rows,
    shuffled_text,
    sites_by_mask,
)
from headscope.heads.rules.summary import Summary
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head

FEWEST_TEXTS = 3
SHORTEST = 2 * FIRST_ROW
POLL = 0.2
"""Seconds between two looks at whether a fit is to stop."""


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Options of a fit; all of them go into the recipe."""

    rules: tuple[Rule | LabelRule, ...] = ()
    """Rules and label questions of your own, beside the built-in ones."""
    tables: bool = True
    """Fit a class table for each head, too."""
    context: bool = True
    """Describe each head in short context, too: one more pass over each text."""
    fit_rows: int = 192
    """Rows kept for fitting, over all fitting texts; fewer of long texts, at least 8 of each."""
    choose_rows: int = 320
    """Rows kept for choosing. They cost little, and a rule with few targets has to show in several texts."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.fit_rows, self.choose_rows) < 8:
            raise InputError(f"fit_rows={self.fit_rows}, choose_rows={self.choose_rows}: keep at least 8 rows for each")


def fit_rules(
    model: OpenModel,
    texts: Sequence[Any],
    options: RuleOptions | None = None,
    kept: MutableMapping[Head, HeadFit] | None = None,
) -> Rules:
    """Describe every head by a short mixture of rules. See ``Scope.rules``."""
    options = options or RuleOptions()
    read = [_readable(model, text) for text in texts]
    if len(read) < FEWEST_TEXTS:
        raise InputError(
            f"{len(read)} texts: rules are fitted on some texts, chosen on others and reported on others again; give "
            f"at least {FEWEST_TEXTS}, better 12 or more"
        )
    sites = _sites(model)
    own = as_rules(options.rules)
    rules = _unique((*built_in(all(model.shape.sites[site].causal for site in sites)), *own))
    fit, choose, report = (read[start::3] for start in range(3))
    heads = [head for head in model.shape.heads() if head.site in sites]
    fits, mean_z = _fit(model, (fit, choose), rules, heads, options, {} if kept is None else kept)
    pairs = [(text, shuffled_text(text.prepared, options.seed + 1 + at)) for at, text in enumerate(report)]
    known = {rule.name: rule for rule in rules}
    sums = Measurer(fits, known).measure(model, pairs)
    recipe = _recipe(model, (fit, choose, report), rules, options)
    return Rules(model.shape.name, Summary(fits, sums, known, options.seed, mean_z).heads(), recipe, own, model)


def _fit(
    model: OpenModel,
    texts: tuple[list[Text], list[Text]],
    rules: Sequence[Rule],
    heads: list[Head],
    options: RuleOptions,
    kept: MutableMapping[Head, HeadFit],
) -> tuple[Mapping[Head, HeadFit], Mapping[Head, tuple[float, ...]]]:
    """The mixtures of every head, and its mean z over the rows of the fit."""
    sites = list(dict.fromkeys(head.site for head in heads))
    longest = max((text for part in texts for text in part), key=lambda text: len(text.features))
    mean_z: dict[Head, tuple[float, ...]] = {}
    for alike in sites_by_mask(model, longest, sites):
        sample, fitter = _fitter(model, texts, rules, alike, options)
        fit_all(fitter, [head for head in heads if head.site in alike], kept)
        for head in (head for head in heads if head.site in alike):
            mean_z[head] = tuple(round(x, 5) for x in sample.mean_z[head.site][head.head].tolist())
    return {head: kept[head] for head in heads}, mean_z


def _fitter(
    model: OpenModel,
    texts: tuple[list[Text], list[Text]],
    rules: Sequence[Rule],
    sites: Sequence[str],
    options: RuleOptions,
) -> tuple[Sample, HeadFitter]:
    """The rows of the fit, and what fits the heads of these sites, which see the same keys."""
    samples = []
    for part, total in zip(texts, (options.fit_rows, options.choose_rows), strict=True):
        sample = sample_rows(model, part, rules, Drawing(sites, total, options.seed, options.context))
        null = [shuffled_text(text.prepared, options.seed + 1 + at) for at, text in enumerate(part)]
        samples.append((sample, Candidates.of(relabelled(sample, null, rules), families(rules))))
    (fit, null_fit), (choose, null_choose) = samples
    return fit, HeadFitter(rules, Samples(fit, choose, null_fit, null_choose), options.tables)


def fit_all(fitter: HeadFitter, heads: Sequence[Head], kept: MutableMapping[Head, HeadFit]) -> None:
    """Fit the heads that are not in ``kept`` and put them there, several at a time: one is too small for two threads.

    A progress callback that raises stops the fit inside a head; what is done stays in ``kept``.
    """
    stopped = Event()

    def pause() -> None:
        if stopped.is_set():
            raise CancelledError

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(max_workers=max(1, threads), initializer=torch.set_num_threads, initargs=(1,))
    running = {pool.submit(fitter.fit_head, head, pause): head for head in heads if head not in kept}
    try:
        while running:
            done = wait(running, timeout=POLL, return_when=FIRST_COMPLETED).done
            kept.update({running.pop(each): each.result() for each in done})
            report_progress("fitting rules", len(heads) - len(running), len(heads))
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what threads that begin later have; the workers' own number was theirs


def _readable(model: OpenModel, text: Any) -> Text:
    prepared = model.prepare(text)
    if len(prepared.tokens) < SHORTEST:
        raise InputError(
            f"a text of {len(prepared.tokens)} tokens is too short for rules: rows before the {FIRST_ROW}th are left "
            f"out; give texts of at least {SHORTEST} tokens"
        )
    return own_text(prepared)


def _sites(model: OpenModel) -> list[str]:
    """Sites where tokens of one text attend to each other."""
    found = [name for name, site in model.shape.sites.items() if site.kind == "self" and not name.startswith("vision")]
    if not found:
        raise InputError(f"{model.shape.name} has no self-attention over text, so no rule can be read")
    return found


def _unique(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    names = [rule.name for rule in rules] + [class_table.NAME, short_context.NAME]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"there is already a rule named {twice!r}; choose another name")
    return (*(rule for rule in rules if rule.position), *(rule for rule in rules if not rule.position))


def _recipe(
    model: OpenModel, texts: tuple[list[Text], ...], rules: Sequence[Rule], options: RuleOptions
) -> dict[str, Any]:
    documents = [len(part) for part in texts]
    return {
        "weights": weight_hash(model.model),
        "documents": dict(zip(("fit", "choose", "report"), documents, strict=True)),
        "places": sum(len(text.features) - FIRST_ROW for text in texts[2]),
        "first_row": FIRST_ROW,
        "rules": [rule.name for rule in rules],
        "most_rules": MOST_RULES,
        "penalty": PENALTY,
        "tables": options.tables,
        "context": short_context.WINDOW if options.context else 0,
        "sampled": (
            f"fitting and choosing: up to {options.fit_rows} and {options.choose_rows} rows drawn from their texts"
        ),
        "exact": f"reporting: every row from the {FIRST_ROW}th on",
        "null": "labels of the tokens in shuffled order, fitted and chosen in the same way",
        "interval": f"95 % bootstrap over documents, {RESAMPLES} draws",
        "seed": options.seed,
    }
