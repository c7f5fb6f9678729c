"""Standard questions and mean answers of one look, and of all texts of one pass at once.

Labels are made once per text, mean answers for all sites that share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.backends.waiting_layers import Sizes, WaitingLayers
from headscope.attention.questions import Question
from headscope.heads.questions.standard_questions import (
    Sides,
    VisibleKeys,
    answerable_rows,
    monotone_share,
    questions_between,
    standard_questions,
)
from headscope.models.protocol import Prepared

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
            look.statistics(site)
            found = look.cache.means(site)
            if found is not None:
                return found
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
            rows = answerable_rows(self._between(sides, torch.device("cpu")), keys)
            asked = {name: found[0].float() / found.sum() for name, found in rows.items() if found.any()}
            weights = torch.stack(list(asked.values())) if asked else torch.zeros(0, len(sides[0]))
            self._weights[key] = (list(asked), weights.to(device, non_blocking=True))
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


class _RowWeights(NamedTuple):
    """How much each row counts in a mean, and which questions each text can answer."""

    weights: Float[Tensor, "question text row"]
    answered: list[list[bool]]


class BatchAnswers:
    """Questions to the texts of a pass, and the mean answers of every layer that was observed after it."""

    def __init__(self, ids: Int[Tensor, "text position"], lengths: Sequence[int]) -> None:
        self.ids, self.lengths = ids, tuple(lengths)
        self._weights: dict[VisibleKeys, _RowWeights] = {}
        self._means: dict[str, tuple[Sequence[Float[Tensor, "question head"]], list[list[bool]]]] = {}

    @classmethod
    def of(cls, texts: Sequence[Prepared]) -> BatchAnswers | None:
        """For texts of tokens alone; None where some have a decoder, a picture or sound beside them."""
        if any(set(text.inputs) != {"input_ids"} or text.decoder_tokens or text.stacks for text in texts):
            return None
        lengths = [text.inputs["input_ids"].shape[1] for text in texts]
        if any(text.inputs["input_ids"].shape[0] != 1 for text in texts) or lengths != [len(t.tokens) for t in texts]:
            return None
        ids = torch.full((len(texts), max(lengths)), -1)
        for row, text in zip(ids, texts, strict=True):
            row[: text.inputs["input_ids"].shape[1]] = text.inputs["input_ids"][0]
        return cls(ids, lengths)

    def together(self, sizes: Sequence[Sizes]) -> Mapping[str, Question] | None:
        """The padded questions of all texts, where queries and keys of a site are their positions."""
        return self.questions if tuple(sizes) == self._sizes else None

    @cached_property
    def _sizes(self) -> tuple[Sizes, ...]:
        return tuple((length, length) for length in self.lengths)

    @cached_property
    def questions(self) -> Mapping[str, Question]:
        """The standard questions of all texts, padded with labels that match nothing."""
        return standard_questions(self.ids, self.ids >= 0)

    def means(self, layers: WaitingLayers, site: str, causal: bool, text: int) -> Answers | None:
        """One text's mean answers at a site. The first call computes those of all texts and of all sites like it."""
        if site not in self._means:
            found = layers.masses(site)
            if found is None or len(found[1]) != len(self.questions):
                return None
            self._compute(*found, VisibleKeys.of(causal, layers.mask(site), self.ids.shape[1]))
        means, answered = self._means[site]
        by_question = zip(self.questions, means[text].unbind(), answered[text], strict=True)
        return {name: mean for name, mean, known in by_question if known}

    def _compute(
        self, sites: Sequence[str], mass: Float[Tensor, "question item head query"], keys: VisibleKeys
    ) -> None:
        rows = self._rows(keys)
        weights = rows.weights.to(mass.device, non_blocking=True)[:, None, :, None]
        means = (mass.view(len(mass), len(sites), -1, *mass.shape[2:]) * weights).sum(-1)
        for site, own in zip(sites, means.unbind(1), strict=True):
            self._means[site] = own.unbind(1), rows.answered

    def _rows(self, keys: VisibleKeys) -> _RowWeights:
        if keys not in self._weights:
            found = torch.stack(list(answerable_rows(self.questions, keys).values()))
            counts = found.sum(-1, keepdim=True)
            answered = (counts[..., 0] > 0).T.tolist()
            self._weights[keys] = _RowWeights(found.float() / counts.clamp(min=1), answered)
        return self._weights[keys]


def together(answers: BatchAnswers | None) -> Callable[[Sequence[Sizes]], Mapping[str, Question] | None]:
    """Where ``WaitingLayers`` get the questions of all texts at once, if these texts have such."""
    return (lambda _: None) if answers is None else answers.together
