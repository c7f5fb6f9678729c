"""Score every head of a causal model on the standard questions, over rows of tokens of one length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, observing
from headscope.heads.questions.standard_questions import VisibleKeys, matching_keys, standard_questions

Run = Callable[[Int[Tensor, "row token"]], Float[Tensor, "row token vocabulary"]]


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


@torch.no_grad()
def head_scores(
    run: Run, tokens: Int[Tensor, "row token"]
) -> tuple[QuestionScores, Float[Tensor, "row token vocabulary"]]:
    """Run a causal model and score every head on the standard questions; the logits come too.

    The first row is left out of *first token*: it attends to itself whatever the head does.
    """
    asked = standard_questions(tokens)
    asked["first"] = replace(asked["first"], exclude_self=True)
    sums: list[dict[str, Tensor]] = []

    def observer(call: Call) -> Tensor:
        seen = observe(call.q, call.k, call.v, scores=call.scores, questions=asked, statistics={"entropy"})
        named = {"entropy": seen.entropy, **{f"mass.{name}": mass for name, mass in seen.mass.items()}}
        sums.append({name: rows.double().sum((0, 2)).float().cpu() for name, rows in named.items()})
        return seen.output

    with observing(observer):
        logits = run(tokens)
    matching = {name: matching_keys(question).visible(VisibleKeys(causal=True)) for name, question in asked.items()}
    counts = {name: int((found > 0).sum()) for name, found in matching.items()}
    heads = [f"{layer}.{head}" for layer, each in enumerate(sums) for head in range(len(each["entropy"]))]
    return QuestionScores(
        tuple(heads), {name: torch.cat([each[name] for each in sums]) for name in sums[0]}, counts, tokens.numel()
    ), logits
