"""The repeat probe: random tokens, then the same tokens again, which only a model that looks back can predict.

``head_scores`` runs a model on such tokens, or on a text, and puts the standard questions to every one of its heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observation import Totals
from headscope.attention.observer import Call, observing
from headscope.errors import InputError
from headscope.heads.questions.standard_questions import VisibleKeys, matching_keys, standard_questions

Run = Callable[[Int[Tensor, "row token"]], Float[Tensor, "row token vocabulary"]]


@dataclass(frozen=True, kw_only=True)
class RepeatProbe:
    """``rows`` sequences: the start token, ``length`` different random tokens, and those tokens once more."""

    vocabulary: int
    length: int = 50
    rows: int = 8
    seed: int = 0
    start: int | None = 0
    avoid: frozenset[int] = frozenset()

    def tokens(self) -> Int[Tensor, "row token"]:
        """Draw the tokens by the seed; the start token and those to ``avoid`` are never drawn."""
        hidden = self.avoid | ({self.start} if self.start is not None else set())
        allowed = torch.tensor([token for token in range(self.vocabulary) if token not in hidden])
        if len(allowed) < self.length:
            raise InputError(f"{self.length=} different tokens cannot be drawn from {len(allowed)} allowed ones")
        generator = torch.Generator().manual_seed(self.seed)
        draws = [allowed[torch.randperm(len(allowed), generator=generator)[: self.length]] for _ in range(self.rows)]
        once = torch.stack(draws)
        twice = torch.cat((once, once), dim=1)
        return twice if self.start is None else F.pad(twice, (1, 0), value=self.start)

    def losses(self, logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]) -> _CopyLoss:
        """Mean loss on each copy. The second copy's first token cannot be predicted, so it is in neither."""
        loss = token_losses(logits, tokens)
        return _CopyLoss(float(loss[:, : -self.length].mean()), float(loss[:, 1 - self.length :].mean()))


@dataclass(frozen=True)
class _CopyLoss:
    """Mean loss on the first and on the second copy, in nats per token."""

    first: float
    second: float

    @property
    def gain(self) -> float:
        return self.first - self.second


@dataclass(frozen=True)
class QuestionScores:
    """Each head's attention on the standard questions and its entropy, summed over rows.

    Heads are in the order in which the model called them; ``counts`` says how many rows can answer each question.
    """

    heads: tuple[str, ...]
    sums: Mapping[str, Float[Tensor, " head"]]
    counts: Mapping[str, int]
    n_rows: int

    def mean(self, question: str) -> Float[Tensor, " head"]:
        """Every head's mean attention mass on a question, over the rows that can answer it."""
        return self.sums[f"mass.{question}"] / max(1, self.counts[question])

    def best(self, question: str) -> tuple[str, float]:
        """The head with the highest mean on a question, and that mean."""
        score, head = self.mean(question).max(dim=0)
        return self.heads[int(head)], float(score)


def token_losses(
    logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]
) -> Float[Tensor, "row next_token"]:
    """Cross-entropy of every next token, in nats."""
    next_tokens = tokens[:, 1:].flatten().to(logits.device)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), next_tokens, reduction="none").view(len(tokens), -1)


@torch.no_grad()
def head_scores(
    run: Run, tokens: Int[Tensor, "row token"]
) -> tuple[QuestionScores, Float[Tensor, "row token vocabulary"]]:
    """Run a causal model and score every head on the standard questions; the logits come too.

    The first row is left out of *first token*: it attends to itself whatever the head does.
    """
    asked = standard_questions(tokens)
    asked["first"] = replace(asked["first"], exclude_self=True)
    totals: list[Totals] = []

    def observer(call: Call) -> Tensor:
        seen = observe(call.q, call.k, call.v, scores=call.scores, questions=asked, statistics={"entropy"})
        totals.append(seen.totals())
        return seen.output

    with observing(observer):
        logits = run(tokens)
    sums = {name: torch.cat([each.sums[name] for each in totals]).float().cpu() for name in totals[0].sums}
    matching = {name: matching_keys(question).visible(VisibleKeys(causal=True)) for name, question in asked.items()}
    counts = {name: int((found > 0).sum()) for name, found in matching.items()}
    heads = [f"{layer}.{head}" for layer, each in enumerate(totals) for head in range(len(each.sums["entropy"]))]
    return QuestionScores(tuple(heads), sums, counts, tokens.numel()), logits
