"""Probes: inputs made so that one thing, and only it, tells a head that does it from one that does not.

A probe is a list of batches of inputs of one length. Each batch carries label questions (an answer wanted, and rival
answers that a head might be giving instead), tokens whose reading is judged, and the model's own task, if it has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.models.protocol import OpenModel

LARGEST_LOGITS = 2**25  # numbers: a batch whose logits would be more is cut


@dataclass(frozen=True)
class Ask:
    """A question, and what a head might be answering instead. A row whose query label is −1 does not ask."""

    wanted: Question
    rivals: Mapping[str, Question]

    def rows(self, batch: int) -> Float[Tensor, "batch query"]:
        """Weights that average over an input's asking rows."""
        asks = (self.wanted.query != -1).expand(batch, -1).float()
        return asks / asks.sum(1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Reading:
    """Places of each input, the token each should raise, another one it should not, and all those to choose from."""

    places: Int[Tensor, "input place"]
    right: Int[Tensor, "input place"]
    wrong: Int[Tensor, "input place"]
    candidates: Int[Tensor, " candidate"]


@dataclass(frozen=True)
class Answer:
    """What the model should say at a place and what it should not; ``absent``: two that the input does not speak of."""

    place: Int[Tensor, " input"]
    right: Int[Tensor, " input"]
    wrong: Int[Tensor, " input"]
    absent: Int[Tensor, "input 2"]


@dataclass(frozen=True)
class WordArcs:
    """Which word each token is of (−1: none); then, an arc each: input, asking row, wanted word, and whether the
    best fixed offset would have found it."""

    words: Int[Tensor, "input token"]
    item: Int[Tensor, " arc"]
    row: Int[Tensor, " arc"]
    wanted: Int[Tensor, " arc"]
    by_offset: Int[Tensor, " arc"]

    def part(self, start: int, stop: int) -> WordArcs:
        keep = (self.item >= start) & (self.item < stop)
        arcs = (each[keep] for each in (self.item - start, self.row, self.wanted, self.by_offset))
        return WordArcs(self.words[start:stop], *arcs)


@dataclass(frozen=True)
class Batch:
    """Inputs of one length. ``graded`` marks rows whose next token is the task; ``twin`` are matched inputs."""

    ids: Int[Tensor, "input token"]
    asks: Mapping[str, Ask] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    arcs: Mapping[str, WordArcs] = field(default_factory=dict)
    answer: Answer | None = None
    graded: Bool[Tensor, "input token"] | None = None
    source: Int[Tensor, "input source"] | None = None
    twin: Batch | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self, model: OpenModel) -> dict[str, Tensor]:
        """What the model is called with. One that reads and writes is given the text on both sides."""
        if is_encoder_decoder(model):
            return {"input_ids": self.ids if self.source is None else self.source, "decoder_input_ids": self.ids}
        return {"input_ids": self.ids}

    def part(self, start: int, stop: int) -> Batch:
        """Some of the inputs."""
        keep = slice(start, stop)
        return replace(
            self,
            ids=self.ids[keep],
            asks={
                name: Ask(_cut(ask.wanted, keep), {rival: _cut(one, keep) for rival, one in ask.rivals.items()})
                for name, ask in self.asks.items()
            },
            readings={
                name: Reading(read.places[keep], read.right[keep], read.wrong[keep], read.candidates)
                for name, read in self.readings.items()
            },
            arcs={name: arcs.part(start, stop) for name, arcs in self.arcs.items()},
            answer=None if self.answer is None else Answer(*(getattr(self.answer, f)[keep] for f in _ANSWER)),
            graded=None if self.graded is None else self.graded[keep],
            source=None if self.source is None else self.source[keep],
            twin=None if self.twin is None else self.twin.part(start, stop),
        )


@dataclass(frozen=True)
class Probe:
    """Batches, how they were made in a sentence, and what the task is, if there is one."""

    batches: tuple[Batch, ...]
    made: str
    task: str | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_inputs(self) -> int:
        return sum(map(len, self.batches))

    def cut(self, model: OpenModel) -> Probe:
        """The same inputs in batches whose logits fit into memory."""
        wide = model.shape.vocabulary or model.shape.d_model
        parts: list[Batch] = []
        for batch in self.batches:
            size = max(1, LARGEST_LOGITS // (wide * batch.ids.shape[1]))
            parts += [batch.part(start, start + size) for start in range(0, len(batch), size)]
        return replace(self, batches=tuple(parts))


_ANSWER = ("place", "right", "wrong", "absent")


def is_encoder_decoder(model: OpenModel) -> bool:
    return any(site.kind == "cross" for site in model.shape.sites.values())


def towards(targets: Int[Tensor, "input query"], n_key: int | None = None) -> Question:
    """Each row names the one key it should find; −1 where it asks nothing."""
    return Question(targets, torch.arange(targets.shape[1] if n_key is None else n_key))


def one_row(row: Int[Tensor, " input"], keys: Sequence[Sequence[int]], length: int) -> Question:
    """One row of each input asks for a set of keys (or none, an empty list)."""
    query = torch.full((len(row), length), -1)
    query[torch.arange(len(row)), row] = 1
    key = torch.full((len(row), length), -1)
    for index, places in enumerate(keys):
        key[index, list(map(int, places))] = 1
    return Question(query, key)


def offsets(asking: Bool[Tensor, "input query"], wanted: Sequence[int]) -> dict[str, Question]:
    """Rivals by place alone: the key so many places before (or, below 0, after) the row."""
    place = torch.arange(asking.shape[1])
    rivals = {}
    for offset in wanted:
        target = place - offset
        inside = asking & (target >= 0) & (target < asking.shape[1])
        rivals[f"offset {-offset:+d}" if offset else "itself"] = towards(target.expand_as(asking).where(inside, -1))
    return rivals


def _cut(question: Question, keep: slice) -> Question:
    query, key = (labels if len(labels) == 1 else labels[keep] for labels in (question.query, question.key))
    return Question(query, key, question.exclude_self)
