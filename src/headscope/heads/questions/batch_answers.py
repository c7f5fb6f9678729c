"""Standard questions and mean answers of all texts of one pass at once.

For texts of tokens whose queries and keys are the text itself. It holds no look: looks hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.backends.waiting_layers import Sizes, WaitingLayers
from headscope.attention.questions import Question
from headscope.heads.questions.standard_questions import VisibleKeys, answerable_rows, standard_questions
from headscope.models.protocol import Prepared

Answers = dict[str, Float[Tensor, " head"]]


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
