"""A role of one's own: a question made of two labelling functions, tested like any other of the battery."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.battery import MOST, SELF, Evidence, ProbeMaker, Role
from headscope.heads.measures import where
from headscope.heads.probes import Ask, Batch, Probe, offsets
from headscope.heads.rules import LabelRule
from headscope.heads.sentences import filler
from headscope.heads.vocabulary import Spelled, UntestableError, Vocabulary


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
    if not vocabulary.reads_text:
        raise UntestableError("it reads no text: there is no tokenizer, or one that does not say where tokens stand")
    causal = all(where(site) == "causal" for site in vocabulary.model.shape.sites.values())
    groups: dict[int, list[Spelled]] = {}
    for text in texts:
        spelled = vocabulary.spell(text)
        groups.setdefault(len(spelled.ids), []).append(spelled)
    generator = torch.Generator().manual_seed(seed)
    batches = [_batch(group, rule, causal, generator) for group in groups.values()]
    whole = tuple(batch for batch in batches if len(batch))
    if not whole:
        raise UntestableError(f"in none of the {len(texts)} texts does the question {rule.name!r} have an answer")
    return Probe(whole, f"{sum(map(len, whole))} texts in which the question has an answer")


def _batch(group: Sequence[Spelled], rule: LabelRule, causal: bool, generator: torch.Generator) -> Batch:
    labels = [rule.labels(spelled.tokens) for spelled in group]
    query, key = (torch.stack([pair[side] for pair in labels]) for side in (0, 1))
    asking = _answerable(query, key, causal, rule.exclude_self)
    keep = asking.any(1)
    query, key, asking = query.where(asking, -1)[keep], key[keep], asking[keep]
    order = torch.rand(query.shape, generator=generator).argsort(1)
    rivals = {
        "the same labels, shuffled": Question(query, key.gather(1, order), rule.exclude_self),
        **offsets(asking, (0, 1)),
    }
    ids = torch.tensor([spelled.ids for spelled in group])[keep]
    return Batch(ids, asks={rule.name: Ask(Question(query, key, rule.exclude_self), rivals)})


def _answerable(
    query: Int[Tensor, "text token"], key: Int[Tensor, "text token"], causal: bool, exclude_self: bool
) -> Bool[Tensor, "text token"]:
    """Rows that see at least one key with their label."""
    equal = (query[:, :, None] == key[:, None, :]) & (query != -1)[:, :, None]
    if causal:
        equal = equal.tril()
    if exclude_self:
        equal = equal & ~torch.eye(query.shape[1], dtype=torch.bool)
    return equal.any(-1)
