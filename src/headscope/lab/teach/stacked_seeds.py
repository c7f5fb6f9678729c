"""Several seeds of one arm, trained as one batch: weights carry a leading axis of seeds, and every product is one call.

The answer is read at the last place, so the last layer asks only there; and one query needs no keys and values of its
own, because q·(W_K n) = (W_K^T q)·n and sum p (W_V n) = W_V (sum p n). The numbers are the model's own, in fewer steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, Finder, Task, judge
from headscope.lab.teach.tiny_transformer import Adam, one_thread


@dataclass(frozen=True)
class Trained:
    """A trained model and how often it was right on rows it had never seen: in every part, and in a part."""

    model: Finder
    accuracy: float
    parts_right: float


class Finders:
    """Models of one arm, a seed each, whose weights lie in one tensor per matrix."""

    def __init__(self, models: Sequence[Finder], arm: Arm) -> None:
        self.models, self.arm, self.task = list(models), arm, models[0].task
        self.weights = {
            name.removeprefix("body."): nn.Parameter(
                torch.stack([weight, *(m.get_parameter(name) for m in models[1:])])
            )
            for name, weight in models[0].named_parameters()
        }

    def logits(self, ids: Int[Tensor, "seed row token"]) -> Float[Tensor, "seed row lookup value"]:
        """What each model answers to its own rows."""
        first = torch.arange(len(ids))[:, None, None] * self.task.vocabulary
        x = F.embedding(ids + first, self.weights["embedding.weight"].flatten(0, 1))
        x = x + self.weights["places.weight"][:, None, : ids.shape[2]]
        for layer in range(self.arm.n_layers):
            place = f"blocks.{layer}."
            x = self._last_layer(x, place) if layer == self.arm.n_layers - 1 else self._layer(x, place)
        x = _normed(x[:, :, 0]) * self.weights["norm.weight"][:, None]
        answers = x @ self.weights["unembedding.weight"].mT
        return answers.view(*ids.shape[:2], self.task.lookups, self.task.n_values)

    def write_back(self) -> list[Finder]:
        """The models, each with its own weights again."""
        with torch.no_grad():
            for index, model in enumerate(self.models):
                for name, weight in self.weights.items():
                    model.get_parameter(f"body.{name}").copy_(weight[index])
        return self.models

    def _layer(self, x: Float[Tensor, "seed row token d_model"], place: str) -> Float[Tensor, "seed row token d_model"]:
        """A whole causal layer."""
        seeds, rows, length, _ = x.shape
        w_q, w_k, w_v, w_o = self._projections(place)
        normed = _normed(x).flatten(1, 2)
        q, k, v = (
            (normed @ weight.mT).view(seeds * rows, length, self.arm.n_heads, self.arm.d_head).transpose(1, 2)
            for weight in (w_q, w_k, w_v)
        )
        later = torch.ones(length, length, dtype=torch.bool).tril(-1)
        pattern = (k @ q.mT).masked_fill(later, float("-inf")).softmax(-2)  # over rows: the short axis stays outside
        z = (pattern.mT @ v).transpose(1, 2).reshape(seeds, rows * length, -1)
        return self._ffn(x + (z @ w_o.mT).view_as(x), place)

    def _last_layer(
        self, x: Float[Tensor, "seed row token d_model"], place: str
    ) -> Float[Tensor, "seed row 1 d_model"]:
        """The last layer at the last place only."""
        seeds, rows, _, d_model = x.shape
        n_heads, d_head = self.arm.n_heads, self.arm.d_head
        w_q, w_k, w_v, w_o = self._projections(place)
        normed = _normed(x)
        q = (normed[:, :, -1] @ w_q.mT).view(seeds, rows, n_heads, d_head).transpose(1, 2)
        asked = (q @ w_k.view(seeds, n_heads, d_head, d_model)).permute(0, 2, 3, 1)
        pattern = (normed @ asked).softmax(-2)
        read = (pattern.mT @ normed).transpose(1, 2)
        z = (read @ w_v.view(seeds, n_heads, d_head, d_model).mT).transpose(1, 2).reshape(seeds, rows, -1)
        return self._ffn(x[:, :, -1:] + (z @ w_o.mT)[:, :, None], place)

    def _projections(self, place: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_Q with its scale, W_K, W_V, all three with the norm's gain in them, and W_O."""
        gain = self.weights[f"{place}attention_norm.weight"][:, None]
        w_q, w_k, w_v, w_o = (self.weights[f"{place}attention.{name}_proj.weight"] for name in "qkvo")
        return w_q * (gain * self.arm.d_head**-0.5), w_k * gain, w_v * gain, w_o

    def _ffn(self, x: Float[Tensor, "seed row place d_model"], place: str) -> Float[Tensor, "seed row place d_model"]:
        if not self.arm.d_ff:
            return x
        flat = _normed(x).flatten(1, 2) * self.weights[f"{place}ffn_norm.weight"][:, None]
        up, down = (
            (self.weights[f"{place}ffn.{index}.weight"].mT, self.weights[f"{place}ffn.{index}.bias"][:, None])
            for index in (0, 2)
        )
        return x + torch.baddbmm(down[1], F.gelu(torch.baddbmm(up[1], flat, up[0])), down[0]).view_as(x)


def train(task: Task, arm: Arm, seed: int, budget: Budget | None = None) -> Trained:
    """Train one arm with one seed; equal seeds see equal rows."""
    return train_all(task, arm, [seed], budget)[0]


@one_thread()
def train_all(task: Task, arm: Arm, seeds: Sequence[int], budget: Budget | None = None) -> list[Trained]:
    """Train one arm with every seed at once; each sees the rows of its own seed and none of the others' weights."""
    if not seeds:
        raise InputError("no seeds: at least one run is needed, and several to say how sure one is")
    budget = budget or Budget()
    stack = Finders([Finder(task, arm, budget, seed) for seed in seeds], arm)
    adam = Adam(stack.weights.values(), budget.learning_rate)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for step in range(budget.steps):
        ids, answers = map(torch.stack, zip(*(task.rows(budget.batch, each) for each in generators), strict=True))
        surprise = F.cross_entropy(stack.logits(ids).flatten(0, 2), answers.flatten(), reduction="none")
        adam.rate = budget.learning_rate * min(1.0, (budget.steps - step) / (0.3 * budget.steps))
        adam.descend(surprise.view(len(seeds), -1).mean(1).sum())  # a seed's slopes are those of its own mean
    trained = []
    for model in stack.write_back():
        right = judge(model.eval(), task, budget.test_rows)
        accuracy, parts_right = float(right.all(-1).float().mean()), float(right.float().mean())
        trained.append(Trained(model, accuracy, parts_right))
    return trained


def _normed(x: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes d_model"]:
    """The root mean square divided out; the gain is applied to the matrix that reads this."""
    return F.rms_norm(x, (x.shape[-1],))
