"""Syntax heads from a treebank of your own: CoNLL-U in, a role for every relation out (Clark et al.'s method).

A word's attention is its last token's, summed over the tokens of every other word; the head is right if the word
with most is the one the treebank names. The baseline is the best fixed offset in words, chosen with hindsight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.roles.battery import CLARK, SELF, Evidence, ProbeMaker, Role
from headscope.heads.roles.measures import only_looks_back
from headscope.heads.roles.probes.probe import Batch, Probe, WordArcs
from headscope.heads.roles.probes.vocabulary import Spelled, UntestableError, Vocabulary
from headscope.models.protocol import OpenModel

LEAST = 20  # sentences with a relation: fewer cannot rule out chance for a whole model
TENTH = "a tenth above the best fixed offset, and right at least three times in ten"


@dataclass(frozen=True)
class Sentence:
    """Words in order, where each stands in the text, its head (−1 for the root) and the relation to it."""

    text: str
    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_conllu(path: Path) -> list[Sentence]:
    """Every sentence of a CoNLL-U file; what cannot be read is said with its line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read as CoNLL-U: {problem}") from problem
    found = [_sentence(path, block) for block in _blocks(lines)]
    if not found:
        raise InputError(f"{path} has no sentence in it; CoNLL-U has a word a line, ten columns, tabs between them")
    return found


def syntax_roles(sentences: Sequence[Sentence], *, causal: bool) -> tuple[Role, ...]:
    """A role for each relation and direction that is frequent enough. A causal model can only look back."""
    maker = ProbeMaker("treebank", lambda vocabulary, count, seed: _probe(vocabulary, sentences))
    found = []
    for name in sorted({_name(relation, up) for s in sentences for relation in s.relations for up in (True, False)}):
        enough = sum(bool(_arcs_of(sentence, name, causal)) for sentence in sentences)
        if enough >= LEAST:
            evidence = Evidence("accuracy", name, 0.3, 0.1, TENTH)
            found.append(Role(f"syntax: {name}", _told(name), maker, (evidence,), SELF, CLARK))
    if not found:
        raise InputError(f"no relation stands in {LEAST} or more of these {len(sentences)} sentences; give more")
    return tuple(found)


def roles_for(model: OpenModel, path: Path) -> tuple[Role, ...]:
    """The roles of a treebank for this model, whichever way it may look."""
    return syntax_roles(read_conllu(path), causal=only_looks_back(model))


def _told(name: str) -> str:
    relation, _, direction = name.partition(" ")
    asks, finds = ("dependent", "head") if direction == "up" else ("head", "dependent")
    return f"The {asks} of “{relation}” looks at its {finds}."


def _name(relation: str, up: bool) -> str:
    return f"{relation} {'up' if up else 'down'}"


def _arcs_of(sentence: Sentence, name: str, causal: bool) -> list[tuple[int, int]]:
    """(asking word, wanted word) of one relation and direction; in causal text only those that look back."""
    relation, _, direction = name.partition(" ")
    found = []
    for word, (head, own) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if own == relation and head >= 0:
            arc = (word, head) if direction == "up" else (head, word)
            if arc[1] < arc[0] or not causal:
                found.append(arc)
    return found


def _probe(vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Probe:
    vocabulary.need_text()
    causal = only_looks_back(vocabulary.model)
    names = [role.evidence[0].of for role in syntax_roles(sentences, causal=causal)]
    room = vocabulary.room - len(vocabulary.prefix) - len(vocabulary.suffix)
    fitting = [sentence for sentence in sentences if len(vocabulary.model.token_ids(sentence.text)) <= room]
    if not fitting:
        raise UntestableError(
            f"none of the {len(sentences)} sentences fits into its context of {vocabulary.room} tokens"
        )
    groups: dict[int, list[tuple[Sentence, Spelled]]] = {}
    for sentence in fitting:
        spelled = vocabulary.spell(sentence.text)
        groups.setdefault(len(spelled.ids), []).append((sentence, spelled))
    every = {name: [arc for s in sentences for arc in _arcs_of(s, name, causal)] for name in names}
    best = {name: _best_offset(arcs) for name, arcs in every.items()}
    batches = tuple(_batch(group, best, causal) for group in groups.values())
    right = {name: sum(b - a == best[name] for a, b in arcs) / len(arcs) for name, arcs in every.items()}
    return Probe(batches, f"{len(sentences)} sentences of a treebank", baselines=right)


def _best_offset(found: Sequence[tuple[int, int]]) -> int:
    offsets = [wanted - asking for asking, wanted in found]
    return max(sorted(set(offsets)), key=offsets.count)


def _batch(group: Sequence[tuple[Sentence, Spelled]], best: dict[str, int], causal: bool) -> Batch:
    words = torch.stack([_words(sentence, spelled) for sentence, spelled in group])
    arcs = {}
    for name, offset in best.items():
        rows = [
            (index, spelled.at(sentence.spans[asking])[-1], wanted, int(wanted - asking == offset))
            for index, (sentence, spelled) in enumerate(group)
            for asking, wanted in _arcs_of(sentence, name, causal)
        ]
        table = torch.tensor(rows, dtype=torch.long).view(-1, 4)
        arcs[name] = WordArcs(words, *table.T)
    return Batch(torch.tensor([spelled.ids for _, spelled in group]), arcs=arcs)


def _words(sentence: Sentence, spelled: Spelled) -> Int[Tensor, " token"]:
    words = torch.full((len(spelled.ids),), -1)
    for number, span in enumerate(sentence.spans):
        words[spelled.at(span)] = number
    return words


def _blocks(lines: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip():
            if not line.startswith("#"):
                block.append((number, line))
        elif block:
            yield block
            block = []


def _sentence(path: Path, block: Sequence[tuple[int, str]]) -> Sentence:
    text, spans, heads, relations = "", [], [], []
    for number, line in block:
        columns = line.split("\t")
        if len(columns) != 10:
            raise InputError(f"{path}, line {number}: {len(columns)} columns; CoNLL-U has ten, with tabs between them")
        if not columns[0].isdigit():
            continue  # a contraction (1-2) or an empty node (1.1): its words have lines of their own
        if not columns[6].isdigit():
            raise InputError(f"{path}, line {number}: the head is {columns[6]!r}, which is not a number")
        spans.append((len(text), len(text) + len(columns[1])))
        text += columns[1] + ("" if "SpaceAfter=No" in columns[9] else " ")
        heads.append(int(columns[6]) - 1)
        relations.append(columns[7].split(":")[0])
    wrong = next((head for head in heads if head >= len(heads)), None)
    if wrong is not None:
        raise InputError(f"{path}, line {block[0][0]}: a head is word {wrong + 1}, but the sentence has {len(heads)}")
    return Sentence(text.rstrip(), tuple(spans), tuple(heads), tuple(relations))
