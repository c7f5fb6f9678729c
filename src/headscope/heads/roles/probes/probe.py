"""Probes: batches of inputs made so that one behaviour separates a head that has it from a head that does not.

Each batch holds label questions (the answer wanted, and rivals that a head might be answering instead), tokens to be
ranked under OV circuits, and the logit difference or the rows on which the model itself is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.models.recording import OpenModel
from headscope.names import Site

AttentionKind = Literal["causal", "bidirectional", "cross"]

LARGEST_LOGITS = 2**25  # numbers: a batch with larger logits is split


@dataclass(frozen=True)
class ProbeQuestion:
    """A question, and rivals that a head might be answering instead. Rows with query label −1 are not asked.

    Inputs with the same number in ``strata`` are made alike; in each stratum the wanted answer has to beat the rival
    called ``opponent``, so that some kinds of inputs cannot make up for others.
    """

    wanted: Question
    rivals: Mapping[str, Question]
    strata: Int[Tensor, " input"] | None = None
    opponent: str = ""

    def row_weights(self, batch: int) -> Float[Tensor, "batch query"]:
        """Weights that average over the asked rows of each input."""
        asked = (self.wanted.query != -1).expand(batch, -1).float()
        return asked / asked.sum(1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class OVRanking:
    """Positions of each input, the token that an OV circuit should raise there, a wrong one, and all candidates."""

    positions: Int[Tensor, "input position"]
    right: Int[Tensor, "input position"]
    wrong: Int[Tensor, "input position"]
    candidates: Int[Tensor, " candidate"]


@dataclass(frozen=True)
class LogitDifference:
    """The right and the wrong next token at a position, and two tokens that are ``absent`` from the input."""

    position: Int[Tensor, " input"]
    right: Int[Tensor, " input"]
    wrong: Int[Tensor, " input"]
    absent: Int[Tensor, "input 2"]


@dataclass(frozen=True)
class Batch:
    """Inputs of one length. The next tokens of ``task_rows`` are the task; ``counterfactual`` are matched inputs."""

    ids: Int[Tensor, "input token"]
    questions: Mapping[str, ProbeQuestion] = field(default_factory=dict)
    ov_rankings: Mapping[str, OVRanking] = field(default_factory=dict)
    logit_difference: LogitDifference | None = None
    task_rows: Bool[Tensor, "input token"] | None = None
    source: Int[Tensor, "input source"] | None = None
    counterfactual: Batch | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self, model: OpenModel) -> dict[str, Tensor]:
        """Keyword arguments of the model's forward pass; an encoder–decoder gets the ids on both sides by default."""
        if is_encoder_decoder(model):
            return {"input_ids": self.ids if self.source is None else self.source, "decoder_input_ids": self.ids}
        return {"input_ids": self.ids}

    def task_positions(self) -> Int[Tensor, " position"]:
        """The positions whose logits the task needs, in order; the first alone if there is no task."""
        if self.logit_difference is not None:
            return self.logit_difference.position.unique()  # type: ignore[no-untyped-call,no-any-return]
        if self.task_rows is None:
            return torch.zeros(1, dtype=torch.long)
        return self.task_rows[:, :-1].any(0).nonzero().flatten()

    def part(self, start: int, stop: int) -> Batch:
        """The inputs ``start:stop``."""
        keep, target = slice(start, stop), self.logit_difference
        return replace(
            self,
            ids=self.ids[keep],
            questions={
                name: ProbeQuestion(
                    _part(each.wanted, keep),
                    {k: _part(v, keep) for k, v in each.rivals.items()},
                    None if each.strata is None else each.strata[keep],
                    each.opponent,
                )
                for name, each in self.questions.items()
            },
            ov_rankings={
                name: OVRanking(each.positions[keep], each.right[keep], each.wrong[keep], each.candidates)
                for name, each in self.ov_rankings.items()
            },
            logit_difference=None
            if target is None
            else LogitDifference(*(each[keep] for each in vars(target).values())),
            task_rows=None if self.task_rows is None else self.task_rows[keep],
            source=None if self.source is None else self.source[keep],
            counterfactual=None if self.counterfactual is None else self.counterfactual.part(start, stop),
        )


@dataclass(frozen=True)
class Probe:
    """Batches, a sentence on how they were made, the task if there is one, and each arc's best fixed offset."""

    batches: tuple[Batch, ...]
    description: str
    task: str | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_inputs(self) -> int:
        return sum(map(len, self.batches))

    def fit_memory(self, model: OpenModel) -> Probe:
        """Split batches so that their logits fit into memory."""
        width = model.shape.vocabulary or model.shape.d_model
        sizes = [max(1, LARGEST_LOGITS // (width * batch.ids.shape[1])) for batch in self.batches]
        parts = [
            batch.part(start, start + size)
            for batch, size in zip(self.batches, sizes, strict=True)
            for start in range(0, len(batch), size)
        ]
        return replace(self, batches=tuple(parts))


def attention_kind(site: Site) -> AttentionKind | None:
    """Which probes fit a site; None for one that attends to two texts at once."""
    if site.kind == "merged":
        return None
    return "cross" if site.kind == "cross" else "causal" if site.causal else "bidirectional"


def is_causal(model: OpenModel) -> bool:
    """Whether no head of the model attends to later tokens or to another text."""
    return all(attention_kind(site) == "causal" for site in model.shape.sites.values())


def is_encoder_decoder(model: OpenModel) -> bool:
    return any(site.kind == "cross" for site in model.shape.sites.values())


def one_key_question(targets: Int[Tensor, "input query"], n_key: int | None = None) -> Question:
    """Each row asks for the one key position in ``targets``; −1 asks for none."""
    return Question(targets, torch.arange(targets.shape[1] if n_key is None else n_key))


def one_row_question(row: Int[Tensor, " input"], keys: Sequence[Sequence[int]], length: int) -> Question:
    """One row of each input asks for a set of key positions, which may be empty."""
    query, key = torch.full((2, len(row), length), -1)
    query[torch.arange(len(row)), row] = 1
    for index, positions in enumerate(keys):
        key[index, list(map(int, positions))] = 1
    return Question(query, key)


def offset_questions(asked: Bool[Tensor, "input query"], offsets: Sequence[int]) -> dict[str, Question]:
    """Make rivals by position only: the key this many positions before the row (after it if negative)."""
    rivals = {}
    for offset in offsets:
        target = torch.arange(asked.shape[1]) - offset
        inside = asked & (target >= 0) & (target < asked.shape[1])
        name = f"offset {-offset:+d}" if offset else "itself"
        rivals[name] = one_key_question(target.expand_as(asked).where(inside, -1))
    return rivals


def _part(question: Question, keep: slice) -> Question:
    query, key = (labels if len(labels) == 1 else labels[keep] for labels in (question.query, question.key))
    return Question(query, key, question.exclude_self)
