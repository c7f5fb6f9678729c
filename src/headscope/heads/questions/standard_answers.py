"""Standard questions and mean answers of one look: labels are made once, means for all sites that share them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.standard_questions import (
    Sides,
    VisibleKeys,
    answerable,
    monotone_share,
    questions_between,
)

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

Answers = dict[str, Float[Tensor, " head"]]
Weights = Float[Tensor, "question row"]


class StandardAnswers:
    """Questions and mean answers of a look. Sides are known by identity: hashing a text's tokens takes longer.

    The look is an argument: kept here it would be in a cycle, and its tensors would wait for the garbage collector.
    """

    def __init__(self) -> None:
        self._questions: dict[tuple[int, int, torch.device], tuple[Sides, dict[str, Question]]] = {}
        self._weights: dict[tuple[int, int, VisibleKeys, torch.device], tuple[list[str], Weights]] = {}
        self._means: dict[str, Answers] = {}

    def questions(self, sides: Sides | None, sizes: tuple[int, int], device: torch.device) -> dict[str, Question]:
        """The standard questions where queries and keys are this text's tokens, or two texts; none elsewhere."""
        return {} if sides is None or sizes != tuple(map(len, sides)) else self._between(sides, device)

    def means(self, look: Look, site: str) -> Answers:
        """Mean mass per head on every question, over the rows that can answer it; absent if no row can."""
        if site not in self._means:
            self._answer_like(look, site)
        return dict(self._means[site])

    def _between(self, sides: Sides, device: torch.device) -> dict[str, Question]:
        key = (id(sides[0]), id(sides[1]), device)
        if key not in self._questions:  # the same labels for every layer; keeping the sides keeps their identity
            self._questions[key] = (sides, questions_between(sides, device))
        return self._questions[key][1]

    def _answer_like(self, look: Look, site: str) -> None:
        """Answer for a site, and for all others with the same sides and shapes."""
        sides, masses = look.sides(site), look.statistics(site).mass
        together = list(_like(look, site, sides))
        means: list[Answers] = [{} for _ in together]
        if sides is not None and masses:
            device = next(iter(masses.values())).device
            names, weights = self._rows_asked(sides, look.visible_keys(site), device)
            if names:
                found = [look.statistics(other).mass[name][0] for name in names for other in together]
                stacked = torch.stack(found).view(len(names), len(together), *found[0].shape)
                for name, answers in zip(names, (stacked * weights[:, None, None]).sum(-1), strict=True):
                    for each, mean in zip(means, answers.unbind(), strict=True):
                        each[name] = mean
        for other, each in zip(together, means, strict=True):
            self._means[other] = each | _monotone(look, other)

    def _rows_asked(self, sides: Sides, keys: VisibleKeys, device: torch.device) -> tuple[list[str], Weights]:
        """The questions that some row can answer, and the weight of each row in their means. Counted on the CPU."""
        key = (id(sides[0]), id(sides[1]), keys, device)
        if key not in self._weights:
            asked = self._between(sides, torch.device("cpu"))
            rows = {name: answerable(question, keys)[0].float() for name, question in asked.items()}
            rows = {name: found / found.sum() for name, found in rows.items() if found.any()}
            weights = torch.stack(list(rows.values())) if rows else torch.zeros(0, len(sides[0]))
            self._weights[key] = (list(rows), weights.to(device, non_blocking=True))
        return self._weights[key]


def _like(look: Look, site: str, sides: Sides | None) -> Iterator[str]:
    shapes, keys = _shapes(look, site), look.visible_keys(site)
    for other in look.sites:
        same = look.sides(other)
        alike = same is sides if same is None or sides is None else same[0] is sides[0] and same[1] is sides[1]
        if alike and _shapes(look, other) == shapes and look.visible_keys(other) == keys:
            yield other


def _shapes(look: Look, site: str) -> dict[str, tuple[torch.Size, torch.device]]:
    return {name: (mass.shape, mass.device) for name, mass in look.statistics(site).mass.items()}


def _monotone(look: Look, site: str) -> Answers:
    """In cross-attention, the share of rows that attend no further back than the row before."""
    strongest = look.statistics(site).strongest
    if look.shape.sites[site].kind != "cross" or strongest is None:
        return {}
    share = monotone_share(strongest.key[0])
    return {} if share is None else {"monotone": share}
