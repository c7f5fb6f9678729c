"""Lookup tasks that ask for several values at once, and the small model that is trained on them.

*Keys*: a row holds (key, value) tokens in random order; the last token names k of the keys, in order; the answer is
their values, in that order. A value's token does not tell which part of the answer it is.
*Roles*: the same, but the k keys are always the same, so each value's token tells which part of the answer it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.lab.teach.tiny_transformer import Adam, TinyConfig, TinyTransformer
from headscope.models.modes import threads


@dataclass(frozen=True, kw_only=True)
class LookupTask:
    """Look up ``lookups`` values among ``n_keys`` tokens, each with one of ``n_values`` values."""

    name: str
    kind: Literal["keys", "roles"]
    lookups: int = 2
    n_keys: int = 6
    n_values: int = 8

    @property
    def questions(self) -> Int[Tensor, "question lookup"]:
        """Every possible question: the keys it names, in order."""
        if self.kind == "roles":
            return torch.arange(self.lookups)[None]
        return torch.tensor(list(permutations(range(self.n_keys), self.lookups)))

    @property
    def vocabulary(self) -> int:
        return self.n_keys * self.n_values + len(self.questions)

    @property
    def context(self) -> int:
        return self.n_keys + 1

    @property
    def chance(self) -> float:
        return float(self.n_values) ** -self.lookups

    def rows(
        self, count: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "row token"], Int[Tensor, "row lookup"]]:
        """Draw random rows and their answers."""
        values = torch.randint(self.n_values, (count, self.n_keys), generator=generator)
        order = torch.rand(count, self.n_keys, generator=generator).argsort(dim=1)
        tokens = (torch.arange(self.n_keys) * self.n_values + values).gather(1, order)
        questions = self.questions
        asked = torch.randint(len(questions), (count,), generator=generator)
        last = self.n_keys * self.n_values + asked
        return torch.cat((tokens, last[:, None]), dim=1), values.gather(1, questions[asked])


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of the comparison: sizes that give about the same number of parameters."""

    name: str
    n_heads: int
    d_head: int
    n_layers: int = 1
    d_ff: int = 0


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How one model is trained and tested."""

    d_model: int = 32
    steps: int = 1200
    batch: int = 128
    learning_rate: float = 0.008
    test_rows: int = 2048


class LookupModel(nn.Module):
    """A tiny transformer that answers every part of the question at the last position."""

    def __init__(self, task: LookupTask, arm: Arm, budget: Budget, seed: int) -> None:
        super().__init__()
        config = TinyConfig(
            vocabulary=task.vocabulary,
            context=task.context,
            d_model=budget.d_model,
            n_layers=arm.n_layers,
            n_heads=arm.n_heads,
            d_head=arm.d_head,
            d_ff=arm.d_ff,
            norm=True,
        )
        self.task, self.body = task, TinyTransformer(config)
        self.body.unembedding = nn.Linear(budget.d_model, task.lookups * task.n_values, bias=False)
        self.body.initialise(seed)

    def forward(self, ids: Int[Tensor, "row token"]) -> Float[Tensor, "row lookup value"]:
        return self.body(ids)[:, -1].unflatten(-1, (self.task.lookups, self.task.n_values))  # type: ignore[no-any-return]

    def n_parameters(self) -> int:
        return self.body.n_parameters()


@torch.no_grad()
def evaluate(model: LookupModel, task: LookupTask, rows: int, seed: int = 1_000_003) -> Bool[Tensor, "row lookup"]:
    """Which parts of the answers to unseen rows are right."""
    ids, answers = task.rows(rows, torch.Generator().manual_seed(seed))
    return model(ids).argmax(-1) == answers  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Trained:
    """A trained model and its accuracy on unseen rows: for whole answers, and for parts of answers."""

    model: LookupModel
    accuracy: float
    parts_right: float


@threads(1)  # matrices this small are slower on several
def train_all(task: LookupTask, arm: Arm, seeds: Sequence[int], budget: Budget | None = None) -> list[_Trained]:
    """Train one arm with every seed; each has its own weights and draws its own rows."""
    if not seeds:
        raise InputError("seeds is empty: give at least one, and several for an interval")
    return [_train(task, arm, seed, budget or Budget()) for seed in seeds]


def _train(task: LookupTask, arm: Arm, seed: int, budget: Budget) -> _Trained:
    model, generator = LookupModel(task, arm, budget, seed), torch.Generator().manual_seed(seed)
    adam = Adam(model.parameters(), budget.learning_rate)
    for step in range(budget.steps):
        ids, answers = task.rows(budget.batch, generator)
        adam.rate = budget.learning_rate * min(1.0, (budget.steps - step) / (0.3 * budget.steps))
        adam.descend(F.cross_entropy(model(ids).flatten(0, 1), answers.flatten()))
    right = evaluate(model.eval(), task, budget.test_rows)
    return _Trained(model, float(right.all(-1).float().mean()), float(right.float().mean()))
