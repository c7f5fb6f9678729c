"""A rule: a distribution over keys for every query, made of two labels and the distance.

A key is a target of a query where their labels are equal; ``near`` lets weight fall with distance, ``last`` takes the
nearest target only. The first key of a text is left out of every rule but *first token*, which is about nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.token_features import TokenFeatures

LabelPair = tuple[Int[Tensor, " token"], Int[Tensor, " token"]]
"""Labels of the queries and of the keys; −1 matches nothing."""

Targets = Literal["all", "last"]


@dataclass(frozen=True)
class Rule:
    """Where a query's attention goes by this rule: to the keys with its label.

    ``phrase`` ends the sentence "… goes to": *what followed an earlier copy*. ``position`` says that the labels depend
    on positions alone.
    """

    name: str
    phrase: str
    labels: Callable[[TokenFeatures], LabelPair]
    near: float | None = None
    """Weight falls by a factor e over this many tokens; None for equal weights."""
    targets: Targets = "all"
    exclude_self: bool = True
    position: bool = False
    always: bool = False
    """Whether every query has a target."""

    def __post_init__(self) -> None:
        if self.near is not None and not self.near > 0:
            raise InputError(f"{self.name!r}: near={self.near}; the distance over which weight falls is above 0")

    @property
    def is_first_token(self) -> bool:
        return self.name == FIRST_TOKEN


FIRST_TOKEN = "first token"


def near(rule: Rule, distance: float) -> Rule:
    """*A near*: the same targets, with weight that falls by a factor e over ``distance`` tokens."""
    phrase = f"{rule.phrase} near by (within about {distance:g} tokens)"
    return replace(rule, name=f"{rule.name}, near {distance:g}", phrase=phrase, near=distance)


def last(rule: Rule) -> Rule:
    """*The last A*: the nearest target only."""
    return replace(rule, name=f"last {rule.name}", phrase=f"{rule.phrase}, the last one only", targets="last")


def before(rule: Rule, other: Rule) -> Rule:
    """*A before B*: the targets of ``rule`` that stand directly before a target of ``other``."""

    def labels(text: TokenFeatures) -> LabelPair:
        (query, key), (query_b, key_b) = rule.labels(text), other.labels(text)
        following = torch.cat((key_b[1:], key_b.new_full((1,), -1)))
        return _pair(query, query_b), _pair(key, following)

    return replace(
        rule, name=f"{rule.name} before {other.name}", phrase=f"{rule.phrase} directly before {other.phrase}",
        labels=labels, position=rule.position and other.position, always=False,
    )  # fmt: skip


def from_question(question: LabelRule) -> Rule:
    """A user's label question as a rule."""
    return Rule(
        question.name,
        f"the targets of “{question.name}”",
        lambda text: question.labels(text.tokens),
        exclude_self=question.exclude_self,
    )


def as_rules(given: Sequence[Rule | LabelRule]) -> tuple[Rule, ...]:
    """Rules, and label questions made rules of; each also near by and the last one only."""
    found: list[Rule] = []
    for entry in given:
        if isinstance(entry, Rule):
            found.append(entry)
        else:
            rule = from_question(entry)
            found += [rule, near(rule, 8.0), last(rule)]
    return tuple(found)


class Targeted:
    """The labels of some rules on one text. ``block`` gives their distributions for a few rows, never for all."""

    def __init__(self, rules: Sequence[Rule], text: TokenFeatures, device: torch.device | str = "cpu") -> None:
        self.rules, self.n_tokens = tuple(rules), len(text)
        cache: dict[int, LabelPair] = {}
        self._pairs = []
        for rule in rules:
            pair = cache.get(id(rule.labels))
            if pair is None:
                pair = cache[id(rule.labels)] = _checked(rule, text)
            self._pairs.append(tuple(labels.to(device) for labels in pair))

    def block(self, rows: Int[Tensor, " row"], visible: Bool[Tensor, "row key"]) -> Float[Tensor, "rule row key"]:
        """Weights of every rule for these query positions over all keys; rows without a target are zero."""
        n_keys = visible.shape[1]
        keys = torch.arange(n_keys, device=rows.device)
        distance = (rows[:, None] - keys).abs()
        found = visible.new_zeros((len(self.rules), *visible.shape), dtype=torch.float32)
        matches: dict[tuple[int, bool], Tensor] = {}
        fading: dict[float, Tensor] = {}
        for index, rule in enumerate(self.rules):
            if rule.is_first_token:
                found[index, :, 0] = 1.0
                continue
            at = (id(rule.labels), rule.exclude_self)
            if at not in matches:
                matches[at] = self._match(index, rows, visible, distance)
            weights = matches[at].float()
            if rule.targets == "last":
                weights = _nearest(matches[at], distance)
            if rule.near is not None:
                if rule.near not in fading:
                    fading[rule.near] = torch.exp(distance / -rule.near)
                weights = weights * fading[rule.near]
            found[index] = weights
        return found.div_(found.sum(-1, keepdim=True).clamp_min(1e-30))

    def _match(self, index: int, rows: Tensor, visible: Tensor, distance: Tensor) -> Bool[Tensor, "row key"]:
        query, key = self._pairs[index]
        asked = query[rows]
        match = (asked[:, None] == key[None, : visible.shape[1]]) & (asked != -1)[:, None] & visible
        match[:, 0] = False
        if self.rules[index].exclude_self:
            match &= distance > 0
        return match


def _nearest(match: Bool[Tensor, "row key"], distance: Int[Tensor, "row key"]) -> Float[Tensor, "row key"]:
    far = distance.masked_fill(~match, distance.shape[1] + 1)
    nearest = far.argmin(1, keepdim=True)
    return torch.zeros(match.shape, device=match.device).scatter_(1, nearest, match.any(1, keepdim=True).float())


def _checked(rule: Rule, text: TokenFeatures) -> LabelPair:
    query, key = rule.labels(text)
    for side, labels in (("query", query), ("key", key)):
        if labels.shape != (len(text),) or labels.is_floating_point() or labels.dtype == torch.bool:
            raise InputError(
                f"the {side} labels of the rule {rule.name!r} are {labels.dtype} of shape {tuple(labels.shape)}; "
                f"this text needs {len(text)} integers, one per token"
            )
    return query.long(), key.long()


def _pair(one: Int[Tensor, " token"], other: Int[Tensor, " token"]) -> Int[Tensor, " token"]:
    """One label for two: equal where both are equal; −1 where either is."""
    return torch.where((one < 0) | (other < 0), -1, one * 2**21 + other % 2**21)
