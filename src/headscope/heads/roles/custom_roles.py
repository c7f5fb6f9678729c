"""Test a question of your own as a role: two labelling functions, with rivals and a null like any other role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import VisibleKeys, matching_keys
from headscope.heads.roles.battery import MOST, SELF, Evidence, ProbeMaker, Role
from headscope.heads.roles.probes.grammar import filler
from headscope.heads.roles.probes.probe import Batch, Probe, ProbeQuestion, is_causal, offset_questions
from headscope.heads.roles.probes.vocabulary import TokenizedText, UntestableError, Vocabulary

NEAR = (0, 1)  # offsets that are rivals: a head that always attends there answers many questions by chance


def own_role(rule: LabelRule, texts: Sequence[str] | None = None, threshold: float = 0.5, reason: str = MOST) -> Role:
    """Make a role of a label rule, on these texts or on plain sentences of the grammar; its null shuffles the keys."""

    def make(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
        sentences = [" ".join(filler(5, seed + 1000 * index)) for index in range(count)] if texts is None else texts
        return _probe(vocabulary, rule, sentences, seed)

    maker = ProbeMaker(f"own: {rule.name}", make)
    evidence = Evidence("attention", rule.name, threshold, 0.1, reason)
    return Role(rule.name, "Looks where your question's labels are equal.", maker, (evidence,), SELF, None)


def _probe(vocabulary: Vocabulary, rule: LabelRule, texts: Sequence[str], seed: int) -> Probe:
    vocabulary.require_text()
    groups: dict[int, list[TokenizedText]] = {}
    for text in map(vocabulary.tokenize, texts):
        groups.setdefault(len(text.ids), []).append(text)
    labelled = [_label(group, rule, is_causal(vocabulary.model)) for group in groups.values()]
    near = [offset for offset in NEAR if not all(each.is_offset(offset) for each in labelled)]
    generator = torch.Generator().manual_seed(seed)
    batches = tuple(batch for each in labelled if len(batch := _batch(each, rule.name, near, generator)))
    if not batches:
        raise UntestableError(f"in none of the {len(texts)} texts does the question {rule.name!r} have an answer")
    return Probe(batches, f"{sum(map(len, batches))} texts in which the question has an answer")


@dataclass(frozen=True)
class _LabelledTexts:
    """Texts of one length, the question of their labels, and how many visible keys match each row."""

    ids: Int[Tensor, "text token"]
    question: Question
    matching: Int[Tensor, "text token"]

    def is_offset(self, offset: int) -> bool:
        """Whether the question asks every row for the key at this offset and for nothing else.

        Then that offset is no rival. Where only some rows ask (the nouns, say), it is one.
        """
        n = self.ids.shape[1]
        one_each = (torch.arange(n) >= offset).long().expand_as(self.matching)
        at_offset = self.question.query[:, offset:] == self.question.key[:, : n - offset]
        excluded = self.question.exclude_self and offset == 0
        return not excluded and torch.equal(self.matching, one_each) and bool(at_offset.all())


def _label(texts: Sequence[TokenizedText], rule: LabelRule, causal: bool) -> _LabelledTexts:
    query, key = map(torch.stack, zip(*(rule.labels(text.tokens) for text in texts), strict=True))
    question = Question(query, key, rule.exclude_self)
    matching = matching_keys(question).visible(VisibleKeys(causal))
    return _LabelledTexts(torch.tensor([text.ids for text in texts]), question, matching)


def _batch(texts: _LabelledTexts, name: str, near: Sequence[int], generator: torch.Generator) -> Batch:
    """The texts with an answer, asked at the rows that can see one; the rivals are shuffled keys and near offsets."""
    question, asked = texts.question, texts.matching > 0
    keep = asked.any(1)
    query, key, asked = question.query.where(asked, -1)[keep], question.key[keep], asked[keep]
    order = torch.rand(query.shape, generator=generator).argsort(1)
    shuffled = {"the same labels, shuffled": replace(question, query=query, key=key.gather(1, order))}
    wanted = replace(question, query=query, key=key)
    return Batch(texts.ids[keep], questions={name: ProbeQuestion(wanted, shuffled | offset_questions(asked, near))})
