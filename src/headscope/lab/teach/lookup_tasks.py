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

    def __post_init__(self) -> None:
        if not 1 <= self.lookups <= self.n_keys or self.n_keys > 8 or self.n_values < 2:
            raise InputError(
                f"lookups={self.lookups}, n_keys={self.n_keys}, n_values={self.n_values}: use 1 to n_keys lookups, at "
                "most 8 keys and at least 2 values"
            )

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


class StackedModels:
    """Models of one arm, one per seed, with their weights stacked.

    Every product is one call for all seeds. The answer is read at the last position, so the last layer has one query
    and needs no keys and values: q·(W_K n) = (W_K^T q)·n and sum p (W_V n) = W_V (sum p n).
    """

    def __init__(self, models: Sequence[LookupModel], arm: Arm) -> None:
        self.models, self.arm, self.task = list(models), arm, models[0].task
        self.weights = {
            name.removeprefix("body."): nn.Parameter(
                torch.stack([weight, *(m.get_parameter(name) for m in models[1:])])
            )
            for name, weight in models[0].named_parameters()
        }

    def logits(self, ids: Int[Tensor, "seed row token"]) -> Float[Tensor, "seed row lookup value"]:
        """The logits of each model on its own rows."""
        first = torch.arange(len(ids))[:, None, None] * self.task.vocabulary
        x = F.embedding(ids + first, self.weights["embedding.weight"].flatten(0, 1))
        x = x + self.weights["positions.weight"][:, None, : ids.shape[2]]
        for layer in range(self.arm.n_layers):
            prefix = f"blocks.{layer}."
            x = self._last_layer(x, prefix) if layer == self.arm.n_layers - 1 else self._layer(x, prefix)
        x = _normed(x[:, :, 0]) * self.weights["norm.weight"][:, None]
        answers = x @ self.weights["unembedding.weight"].mT
        return answers.view(*ids.shape[:2], self.task.lookups, self.task.n_values)

    def write_back(self) -> list[LookupModel]:
        """Copy the stacked weights back into the models."""
        with torch.no_grad():
            for index, model in enumerate(self.models):
                for name, weight in self.weights.items():
                    model.get_parameter(f"body.{name}").copy_(weight[index])
        return self.models

    def _layer(
        self, x: Float[Tensor, "seed row token d_model"], prefix: str
    ) -> Float[Tensor, "seed row token d_model"]:
        """One causal layer at all positions."""
        seeds, rows, length, _ = x.shape
        w_q, w_k, w_v, w_o = self._projections(prefix)
        normed = _normed(x).flatten(1, 2)
        q, k, v = (
            (normed @ weight.mT).view(seeds * rows, length, self.arm.n_heads, self.arm.d_head).transpose(1, 2)
            for weight in (w_q, w_k, w_v)
        )
        later = torch.ones(length, length, dtype=torch.bool).tril(-1)
        pattern = (k @ q.mT).masked_fill(later, float("-inf")).softmax(-2)  # over rows: the short axis stays outside
        z = (pattern.mT @ v).transpose(1, 2).reshape(seeds, rows * length, -1)
        return self._ffn(x + (z @ w_o.mT).view_as(x), prefix)

    def _last_layer(
        self, x: Float[Tensor, "seed row token d_model"], prefix: str
    ) -> Float[Tensor, "seed row 1 d_model"]:
        """The last layer, at the last position only."""
        seeds, rows, _, d_model = x.shape
        n_heads, d_head = self.arm.n_heads, self.arm.d_head
        w_q, w_k, w_v, w_o = self._projections(prefix)
        normed = _normed(x)
        q = (normed[:, :, -1] @ w_q.mT).view(seeds, rows, n_heads, d_head).transpose(1, 2)
        folded = (q @ w_k.view(seeds, n_heads, d_head, d_model)).permute(0, 2, 3, 1)
        pattern = (normed @ folded).softmax(-2)
        averaged = (pattern.mT @ normed).transpose(1, 2)
        z = (averaged @ w_v.view(seeds, n_heads, d_head, d_model).mT).transpose(1, 2).reshape(seeds, rows, -1)
        return self._ffn(x[:, :, -1:] + (z @ w_o.mT)[:, :, None], prefix)

    def _projections(self, prefix: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_Q with its scale, W_K and W_V, with the norm's gain folded in, and W_O."""
        gain = self.weights[f"{prefix}attention_norm.weight"][:, None]
        w_q, w_k, w_v, w_o = (self.weights[f"{prefix}attention.{name}_proj.weight"] for name in "qkvo")
        return w_q * (gain * self.arm.d_head**-0.5), w_k * gain, w_v * gain, w_o

    def _ffn(
        self, x: Float[Tensor, "seed row position d_model"], prefix: str
    ) -> Float[Tensor, "seed row position d_model"]:
        if not self.arm.d_ff:
            return x
        flat = _normed(x).flatten(1, 2) * self.weights[f"{prefix}ffn_norm.weight"][:, None]
        up, down = (
            (self.weights[f"{prefix}ffn.{index}.weight"].mT, self.weights[f"{prefix}ffn.{index}.bias"][:, None])
            for index in (0, 2)
        )
        return x + torch.baddbmm(down[1], F.gelu(torch.baddbmm(up[1], flat, up[0])), down[0]).view_as(x)


@threads(1)  # matrices this small are slower on several
def train_all(task: LookupTask, arm: Arm, seeds: Sequence[int], budget: Budget | None = None) -> list[_Trained]:
    """Train one arm with all seeds at once; each seed draws its own rows and has its own weights."""
    if not seeds:
        raise InputError("seeds is empty: give at least one, and several for an interval")
    budget = budget or Budget()
    stack = StackedModels([LookupModel(task, arm, budget, seed) for seed in seeds], arm)
    adam = Adam(stack.weights.values(), budget.learning_rate)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for step in range(budget.steps):
        ids, answers = map(torch.stack, zip(*(task.rows(budget.batch, each) for each in generators), strict=True))
        losses = F.cross_entropy(stack.logits(ids).flatten(0, 2), answers.flatten(), reduction="none")
        adam.rate = budget.learning_rate * min(1.0, (budget.steps - step) / (0.3 * budget.steps))
        adam.descend(losses.view(len(seeds), -1).mean(1).sum())  # each seed gets the gradient of its own mean
    trained = []
    for model in stack.write_back():
        right = evaluate(model.eval(), task, budget.test_rows)
        accuracy, parts_right = float(right.all(-1).float().mean()), float(right.float().mean())
        trained.append(_Trained(model, accuracy, parts_right))
    return trained


def _normed(x: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes d_model"]:
    """RMS-normalise without gain; the gain is folded into the next matrix."""
    return F.rms_norm(x, (x.shape[-1],))
