"""Measure whether heads learn different things: similarity while training, spare heads, and shared KV heads.

python bench/sharing.py writes bench/results/sharing.json; python -m docs.generate.sharing docs/sharing.md the page.

Equal heads get equal gradients: nothing in the mathematics tells them apart, so they stay equal. A random start, or
the smallest perturbation, breaks the symmetry.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observer import Call, observing, plain
from headscope.errors import InputError
from headscope.lab.teach.kv_sharing import by_groups
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel, evaluate, train_all
from headscope.lab.teach.one_or_many import KEYS
from headscope.lab.teach.tiny_transformer import Adam
from headscope.models.modes import threads

RESULTS = Path(__file__).resolve().parent / "results" / "sharing.json"
STARTS = ("random", "equal", "nudged")
NUDGE = 1e-3


@dataclass(frozen=True)
class Moment:
    """Mean pattern similarity, largest weight difference between heads, and loss after some training steps."""

    step: int
    similarity: float
    distance: float
    loss: float


@dataclass(frozen=True)
class Growth:
    """How similar the heads of one layer were while the model was trained."""

    start: str
    n_heads: int
    moments: list[Moment]
    accuracy: float


def similarity(patterns: Float[Tensor, "row head key"]) -> Float[Tensor, "head head"]:
    """Mean overlap of two heads' attention patterns: 1 when equal, 0 when disjoint."""
    n_heads = patterns.shape[1]
    shared = torch.minimum(patterns[:, :, None], patterns[:, None]).sum(-1)
    return shared.mean(0).view(n_heads, n_heads)


def mean_similarity(patterns: Float[Tensor, "row head key"]) -> float:
    """Mean similarity over pairs of different heads."""
    matrix = similarity(patterns)
    count = len(matrix)
    if count < 2:
        return 1.0
    return float((matrix.sum() - matrix.trace()) / (count * (count - 1)))


@torch.no_grad()
def last_patterns(model: LookupModel, ids: Int[Tensor, "row token"]) -> Float[Tensor, "row head key"]:
    """Attention patterns of the first layer at the last position."""
    block = model.body.blocks[0]
    x = block.get_submodule("attention_norm")(model.body.embed(ids))
    return model.body.attention().patterns(x, mask=block.mask)[:, :, -1]  # type: ignore[arg-type]


@torch.no_grad()
def make_equal(model: LookupModel, nudge: float = 0.0, seed: int = 0) -> None:
    """Copy the first head's weights to every head of the first layer, plus noise of std ``nudge``."""
    attention = model.body.attention()
    generator = torch.Generator().manual_seed(seed)
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        rows = projection.weight.view(attention.n_heads, attention.d_head, -1)
        rows.copy_(rows[:1].expand_as(rows).clone())
        rows.add_(nudge * torch.randn(rows.shape, generator=generator))
    columns = attention.o_proj.weight.view(-1, attention.n_heads, attention.d_head)
    columns.copy_(columns[:, :1].expand_as(columns).clone())


@torch.no_grad()
def weight_distance(model: LookupModel) -> float:
    """Largest absolute difference between two heads' query and key weights."""
    attention = model.body.attention()
    stacked = torch.cat([p.weight.view(attention.n_heads, -1) for p in (attention.q_proj, attention.k_proj)], dim=1)
    return float((stacked[:, None] - stacked[None]).abs().max())


@threads(1)
def grow(
    start: str = "random", *, n_heads: int = 2, budget: Budget | None = None, every: int = 50, seed: int = 0
) -> Growth:
    """Train one layer on two lookups at once, and record how similar its heads are."""
    if start not in STARTS:
        raise InputError(f"start={start!r} is not one of {', '.join(STARTS)}")
    budget = budget or Budget()
    if n_heads < 2 or budget.d_model % n_heads:
        raise InputError(f"{n_heads=} with d_model={budget.d_model}: use at least 2 heads, and a divisor of d_model")
    model = LookupModel(KEYS, Arm(name="grown", n_heads=n_heads, d_head=budget.d_model // n_heads), budget, seed)
    if start != "random":
        make_equal(model, NUDGE if start == "nudged" else 0.0, seed)
    probe, _ = KEYS.rows(256, torch.Generator().manual_seed(10_007))
    generator, adam = torch.Generator().manual_seed(seed), Adam(model.parameters(), budget.learning_rate)
    moments: list[Moment] = []
    for step in range(budget.steps + 1):
        ids, answers = KEYS.rows(budget.batch, generator)
        loss = F.cross_entropy(model(ids).flatten(0, 1), answers.flatten())
        if step % every == 0 or step == budget.steps:
            alike = round(mean_similarity(last_patterns(model, probe)), 4)
            moments.append(Moment(step, alike, weight_distance(model), round(float(loss.detach()), 4)))
        if step < budget.steps:
            adam.descend(loss)
    right = evaluate(model.eval(), KEYS, budget.test_rows)
    return Growth(start, n_heads, moments, float(right.all(-1).float().mean()))


@dataclass(frozen=True)
class Removal:
    """Loss and accuracy with these heads zero-ablated."""

    removed: list[int]
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Redundancy:
    """Heads ablated one after the other, always the one that raises the loss least."""

    n_heads: int
    removals: list[Removal]

    def spare(self, tolerance: float = 0.01) -> int:
        """Count the heads that can be ablated before accuracy falls by more than ``tolerance``."""
        whole = self.removals[0].accuracy
        return max(len(each.removed) for each in self.removals if each.accuracy >= whole - tolerance)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"spare": self.spare()}


@threads(1)
@torch.no_grad()
def redundancy(model: LookupModel, rows: int = 1024) -> Redundancy:
    """Zero-ablate the heads of the first layer greedily, the smallest loss first, until none is left."""
    n_heads = model.body.attention().n_heads
    removals = [_ablated(model, [], rows)]
    while len(removals[-1].removed) < n_heads:
        removed = removals[-1].removed
        left = [head for head in range(n_heads) if head not in removed]
        removals.append(min((_ablated(model, [*removed, head], rows) for head in left), key=lambda each: each.loss))
    return Redundancy(n_heads, removals)


def _ablated(model: LookupModel, heads: Sequence[int], rows: int) -> Removal:
    ids, answers = model.task.rows(rows, torch.Generator().manual_seed(20_011))
    site = model.body.attention()

    def observer(call: Call) -> Tensor:
        z = plain(call)
        if call.site is site and heads:
            z = z.clone()
            z[:, list(heads)] = 0
        return z

    with observing(observer):
        logits = model(ids)
    loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
    right = (logits.argmax(-1) == answers).all(-1).float().mean()
    return Removal(list(heads), round(float(loss), 4), round(float(right), 4))


def measure() -> dict[str, object]:
    """Run the three experiments: growth from each start, redundancy of 8 heads, and shared KV heads."""
    budget = Budget(steps=800)
    growths = []
    for start in STARTS:
        growths.append(asdict(grow(start, budget=budget, every=100)))
        print(start, growths[-1]["accuracy"], flush=True)
    model = train_all(KEYS, Arm(name="8 heads", n_heads=8, d_head=4), [0], budget)[0].model
    machine = {"python": platform.python_version(), "torch": torch.__version__, "machine": platform.machine()}
    return {
        "schema_version": 1,
        "machine": machine,
        "budget": asdict(budget),
        "growths": growths,
        "redundancy": redundancy(model).to_dict(),
        "groups": [asdict(row) for row in by_groups(model, lambda each: _ablated(each, [], 1024).loss)],
    }


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
