"""Test syntax heads on a treebank of your own: a role for every relation of a CoNLL-U file (Clark et al.'s method).

A word's attention is its last token's, summed over the tokens of every other word; the head is right if the word
with most is the one the treebank names. The baseline is the best fixed offset in words, chosen with hindsight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.roles.battery import CLARK, SELF, Evidence, ProbeMaker, Role
from headscope.heads.roles.probes.probe import Batch, Probe, WordArcs, is_causal
from headscope.heads.roles.probes.vocabulary import TokenizedText, UntestableError, Vocabulary
from headscope.models.protocol import OpenModel

MOST_RELATIONS = 500  # Universal Dependencies has 37; each is tested on every head
LEAST = 20  # sentences with a relation: fewer cannot rule out chance for a whole model
TENTH = "a tenth above the best fixed offset, and right at least three times in ten"


@dataclass(frozen=True)
class Sentence:
    """A parsed sentence: per word its span of characters, its head (−1 for the root) and the relation to it."""

    text: str
    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_conllu(path: Path) -> list[Sentence]:
    """Read every sentence of a CoNLL-U file; errors name the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read as CoNLL-U: {problem}") from problem
    found = [_sentence(path, block) for block in _blocks(lines)]
    if not found:
        raise InputError(
            f"{path} has no sentence in it; CoNLL-U has one word per line in ten columns with tabs between them"
        )
    return found


def syntax_roles(sentences: Sequence[Sentence], *, causal: bool) -> tuple[Role, ...]:
    """Make a role for each relation and direction in enough sentences; for causal models only arcs that look back."""
    maker = ProbeMaker("treebank", lambda vocabulary, count, seed: _probe(vocabulary, sentences))
    found = []
    relations = {relation for each in sentences for relation in each.relations}
    if len(relations) > MOST_RELATIONS:
        raise InputError(
            f"{len(relations):,} different relations are more than {MOST_RELATIONS}, and a treebank has some dozens; "
            "is the relation in the eighth column?"
        )
    enough = Counter(name for sentence in sentences for name in _arcs_by_name(sentence, causal))
    for name in sorted(enough):
        if enough[name] >= LEAST:
            evidence = Evidence("accuracy", name, 0.3, 0.1, TENTH)
            relation, _, direction = name.partition(" ")
            query, target = ("dependent", "head") if direction == "up" else ("head", "dependent")
            sentence = f"The {query} of “{relation}” looks at its {target}."
            found.append(Role(f"syntax: {name}", sentence, maker, (evidence,), SELF, CLARK))
    if not found:
        raise InputError(f"no relation occurs in {LEAST} or more of these {len(sentences)} sentences; give more")
    return tuple(found)


def treebank_roles(model: OpenModel, path: Path) -> tuple[Role, ...]:
    """Make the roles of a treebank file for this model."""
    return syntax_roles(read_conllu(path), causal=is_causal(model))


def _arcs_by_name(sentence: Sentence, causal: bool) -> dict[str, list[tuple[int, int]]]:
    """(query word, wanted word) by relation and direction; for causal models only arcs that look back."""
    arcs: dict[str, list[tuple[int, int]]] = {}
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        for way, query, wanted in (("up", word, head), ("down", head, word)):
            if head >= 0 and (wanted < query or not causal):
                arcs.setdefault(f"{relation} {way}", []).append((query, wanted))
    return arcs


def _probe(vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Probe:
    vocabulary.require_text()
    causal = is_causal(vocabulary.model)
    names = [role.evidence[0].of for role in syntax_roles(sentences, causal=causal)]
    free = vocabulary.context - len(vocabulary.prefix) - len(vocabulary.suffix)
    fitting = [sentence for sentence in sentences if len(vocabulary.model.processor.token_ids(sentence.text)) <= free]
    if not fitting:
        raise UntestableError(
            f"none of the {len(sentences)} sentences fits into its context of {vocabulary.context} tokens"
        )
    groups: dict[int, list[tuple[Sentence, TokenizedText]]] = {}
    for sentence in fitting:
        text = vocabulary.tokenize(sentence.text)
        groups.setdefault(len(text.ids), []).append((sentence, text))
    by_sentence = [_arcs_by_name(sentence, causal) for sentence in sentences]
    every = {name: [arc for arcs in by_sentence for arc in arcs.get(name, ())] for name in names}
    best = {name: _best_offset(arcs) for name, arcs in every.items()}
    batches = tuple(_batch(group, best, causal) for group in groups.values())
    right = {name: sum(b - a == best[name] for a, b in arcs) / len(arcs) for name, arcs in every.items()}
    return Probe(batches, f"{len(sentences)} sentences of a treebank", baselines=right)


def _best_offset(arcs: Sequence[tuple[int, int]]) -> int:
    offsets = Counter(wanted - query for query, wanted in arcs)
    return max(sorted(offsets), key=offsets.__getitem__)


def _batch(group: Sequence[tuple[Sentence, TokenizedText]], best: dict[str, int], causal: bool) -> Batch:
    words = torch.stack([_words(sentence, text) for sentence, text in group])
    by_sentence = [_arcs_by_name(sentence, causal) for sentence, _ in group]
    arcs = {}
    for name, offset in best.items():
        rows = [
            (index, text.positions(sentence.spans[query])[-1], wanted, int(wanted - query == offset))
            for index, (sentence, text) in enumerate(group)
            for query, wanted in by_sentence[index].get(name, ())
        ]
        table = torch.tensor(rows, dtype=torch.long).view(-1, 4)
        arcs[name] = WordArcs(words, *table.T)
    return Batch(torch.tensor([text.ids for _, text in group]), arcs=arcs)


def _words(sentence: Sentence, text: TokenizedText) -> Int[Tensor, " token"]:
    words = torch.full((len(text.ids),), -1)
    for number, span in enumerate(sentence.spans):
        words[text.positions(span)] = number
    return words


def _blocks(lines: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each sentence, without comments."""
    for blank, block in groupby(enumerate(lines, start=1), key=lambda entry: not entry[1].strip()):
        kept = [(number, line) for number, line in block if not line.startswith("#")]
        if kept and not blank:
            yield kept


def _sentence(path: Path, block: Sequence[tuple[int, str]]) -> Sentence:
    text, spans, heads, relations = "", [], [], []
    for number, line in block:
        columns = line.split("\t")
        if len(columns) != 10:
            raise InputError(f"{path}, line {number}: {len(columns)} columns; CoNLL-U has ten, with tabs between them")
        if not columns[0].isdecimal():
            continue  # a contraction (1-2) or an empty node (1.1): its words have lines of their own
        if not columns[6].isdecimal() or len(columns[6]) > 9:
            raise InputError(f"{path}, line {number}: the head is {columns[6]!r}; CoNLL-U has a word's number there")
        spans.append((len(text), len(text) + len(columns[1])))
        text += columns[1] + ("" if "SpaceAfter=No" in columns[9] else " ")
        heads.append(int(columns[6]) - 1)
        relations.append(columns[7].split(":")[0])
    wrong = next((head for head in heads if head >= len(heads)), None)
    if wrong is not None:
        raise InputError(f"{path}, line {block[0][0]}: a head is word {wrong + 1}, but the sentence has {len(heads)}")
    return Sentence(text.rstrip(), tuple(spans), tuple(heads), tuple(relations))
