"""A role of one's own: a question made of two labelling functions, tested like any other of the battery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.roles.battery import MOST, SELF, Evidence, ProbeMaker, Role
from headscope.heads.roles.measures import only_looks_back
from headscope.heads.roles.probes.grammar import filler
from headscope.heads.roles.probes.probe import Ask, Batch, Probe, offsets
from headscope.heads.roles.probes.vocabulary import Spelled, UntestableError, Vocabulary

NEAR = (0, 1)  # places back that stand as rivals: a head that always looks there answers many questions by chance


def own_role(rule: LabelRule, texts: Sequence[str] | None = None, threshold: float = 0.5, reason: str = MOST) -> Role:
    """The rule as a role, on these texts (plain sentences of our grammar unless given); its null shuffles the keys."""
    maker = ProbeMaker(
        f"own: {rule.name}", lambda vocabulary, count, seed: _probe(vocabulary, rule, _given(texts, count, seed), seed)
    )
    evidence = Evidence("attention", rule.name, threshold, 0.1, reason)
    return Role(rule.name, "Looks where your question's labels are equal.", maker, (evidence,), SELF, None)


def _given(texts: Sequence[str] | None, count: int, seed: int) -> list[str]:
    if texts is not None:
        return list(texts)
    return [" ".join(filler(5, seed + 1000 * index)) for index in range(count)]


def _probe(vocabulary: Vocabulary, rule: LabelRule, texts: Sequence[str], seed: int) -> Probe:
    vocabulary.need_text()
    causal = only_looks_back(vocabulary.model)
    groups: dict[int, list[Spelled]] = {}
    for text in texts:
        spelled = vocabulary.spell(text)
        groups.setdefault(len(spelled.ids), []).append(spelled)
    labelled = [_labelled(group, rule, causal) for group in groups.values()]
    near = [offset for offset in NEAR if not all(_is_offset(each.pairs, offset) for each in labelled)]
    generator = torch.Generator().manual_seed(seed)
    batches = [_batch(each, rule, near, generator) for each in labelled]
    whole = tuple(batch for batch in batches if len(batch))
    if not whole:
        raise UntestableError(f"in none of the {len(texts)} texts does the question {rule.name!r} have an answer")
    return Probe(whole, f"{sum(map(len, whole))} texts in which the question has an answer")


@dataclass(frozen=True)
class _Labelled:
    """Texts of one length, their labels, and which keys each row finds by them."""

    ids: Int[Tensor, "text token"]
    query: Int[Tensor, "text token"]
    key: Int[Tensor, "text token"]
    pairs: Bool[Tensor, "text token token"]


def _labelled(group: Sequence[Spelled], rule: LabelRule, causal: bool) -> _Labelled:
    labels = [rule.labels(spelled.tokens) for spelled in group]
    query, key = (torch.stack([pair[side] for pair in labels]) for side in (0, 1))
    ids = torch.tensor([spelled.ids for spelled in group])
    return _Labelled(ids, query, key, _pairs(query, key, causal, rule.exclude_self))


def _batch(texts: _Labelled, rule: LabelRule, near: Sequence[int], generator: torch.Generator) -> Batch:
    """The texts with an answer; only rows that see one ask."""
    asking = texts.pairs.any(-1)
    keep = asking.any(1)
    query, key, asking = texts.query.where(asking, -1)[keep], texts.key[keep], asking[keep]
    order = torch.rand(query.shape, generator=generator).argsort(1)
    rivals = {
        "the same labels, shuffled": Question(query, key.gather(1, order), rule.exclude_self),
        **offsets(asking, near),
    }
    return Batch(texts.ids[keep], asks={rule.name: Ask(Question(query, key, rule.exclude_self), rivals)})


def _pairs(
    query: Int[Tensor, "text token"], key: Int[Tensor, "text token"], causal: bool, exclude_self: bool
) -> Bool[Tensor, "text token token"]:
    """Where a row sees a key with its label."""
    equal = (query[:, :, None] == key[:, None, :]) & (query != -1)[:, :, None]
    if causal:
        equal = equal.tril()
    if exclude_self:
        equal = equal & ~torch.eye(query.shape[1], dtype=torch.bool)
    return equal


def _is_offset(pairs: Bool[Tensor, "text token token"], offset: int) -> bool:
    """Whether this is the question for one place, asked by every row that has it. A rival must not be the question.

    Asked by some rows only (the nouns, say), that place stays a rival: a head that always looks there does not ask.
    """
    n = pairs.shape[1]
    every = torch.ones(n, n, dtype=torch.bool)
    return torch.equal(pairs, (every.tril(-offset) & every.triu(-offset)).expand_as(pairs))
