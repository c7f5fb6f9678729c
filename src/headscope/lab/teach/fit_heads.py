"""Fitting heads to targets by gradient, and saying, where a row was missed, what it would have needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.teach.tiny_transformer import Adam, TinyBlock, TinyConfig, TinyTransformer, one_thread

GOOD_ENOUGH = 0.9
"""A row counts as fitted when this much of its target is covered."""

MOST_STEPS = 5000

FIRST_SIZE = 0.3
"""W_Q and W_K start this much smaller than usual, so that every head starts by looking everywhere alike."""


@dataclass(frozen=True, kw_only=True)
class CraftSettings:
    """How the heads are made. Without ``places`` a head sees only which word, not where."""

    d_model: int = 32
    d_head: int = 8
    steps: int = 120
    learning_rate: float = 0.005
    seed: int = 0
    causal: bool = True
    places: bool = True
    snapshots: int = 16

    def __post_init__(self) -> None:
        if not (1 <= self.d_head <= 256 and 2 <= self.d_model <= 512 and 1 <= self.steps <= MOST_STEPS):
            raise InputError(
                f"d_model={self.d_model}, d_head={self.d_head}, steps={self.steps}: use d_model 2–512, d_head 1–256 "
                f"and 1–{MOST_STEPS} steps, as in d_model=32, d_head=8, steps=120"
            )
        if self.snapshots < 2 or not 0 < self.learning_rate <= 1:
            raise InputError(
                f"snapshots={self.snapshots}, learning_rate={self.learning_rate}: use at least 2 snapshots and a "
                "rate in 0–1, as in 0.005"
            )


@dataclass(frozen=True)
class Job:
    """What is to be fitted: words as ids, the wanted rows of each head, and which rows have something to find."""

    words: list[str]
    wanted: Float[Tensor, "head query key"]
    finds: Bool[Tensor, "head query"]

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        return word_ids(self.words)[None]


@dataclass(frozen=True)
class Snapshot:
    """The heads after some steps: loss and hit of each, and their patterns."""

    step: int
    loss: list[float]
    hit: list[float]
    patterns: Float[Tensor, "head query key"]


@dataclass(frozen=True)
class Fitted:
    """A fitted model, how it came about, and how much of each wanted row it covers."""

    model: TinyTransformer
    snapshots: list[Snapshot]
    losses: Float[Tensor, "step head"]
    hits: Float[Tensor, "head query"]


Progress = Callable[[Snapshot], None]


@one_thread()
def fit(job: Job, settings: CraftSettings, on_progress: Progress | None = None) -> Fitted:
    """Train W_Q and W_K of every head towards its target; W_V, W_O and the unembedding to name what was found."""
    model = fresh_model(job, settings)
    attention, x, answers = model.attention(), model.embed(job.ids).detach(), _answers(job)
    adam = Adam([*attention.parameters(), *model.unembedding.parameters()], settings.learning_rate)
    due = _schedule(settings)
    snapshots: list[Snapshot] = []
    losses: list[Tensor] = []
    for step in range(settings.steps + 1):
        weights = pattern(model, x)
        loss = -(job.wanted * weights.clamp(min=1e-12).log()).sum(-1).mean(-1)
        losses.append(loss.detach())
        if step in due:
            snapshots.append(_snapshot(step, loss.detach(), weights.detach(), job))
            if on_progress is not None:
                on_progress(snapshots[-1])
        if step == settings.steps:
            break
        z = weights.detach() @ attention.project(x)[2][0]
        logits = model.unembedding(attention.o_proj(z.transpose(0, 1).flatten(1)))
        adam.descend(loss.sum() + F.cross_entropy(logits, answers))
    return Fitted(model.eval(), snapshots, torch.stack(losses), covered(weights.detach(), job.wanted))


def fresh_model(job: Job, settings: CraftSettings) -> TinyTransformer:
    """One attention layer over this sentence, not yet trained. Equal seeds give equal weights."""
    config = TinyConfig(
        vocabulary=len(set(job.words)) + 1,
        context=len(job.words),
        d_model=settings.d_model,
        n_heads=len(job.wanted),
        d_head=settings.d_head,
        causal=settings.causal,
        residual=False,
    )
    model = TinyTransformer(config)
    model.initialise(settings.seed)
    with torch.no_grad():
        model.attention().q_proj.weight.mul_(FIRST_SIZE)
        model.attention().k_proj.weight.mul_(FIRST_SIZE)
        if not settings.places:
            model.places.weight.zero_()
    return model


def pattern(model: TinyTransformer, x: Float[Tensor, "1 token d_model"]) -> Float[Tensor, "head token token"]:
    """Every head's weights on one sentence."""
    block = model.blocks[0]
    assert isinstance(block, TinyBlock)
    return block.attention.patterns(x, mask=block.mask)[0]


def covered(
    weights: Float[Tensor, "head query key"], wanted: Float[Tensor, "head query key"]
) -> Float[Tensor, "head query"]:
    """How much of each wanted row is there: Σ min(weight, wanted). For a single arrow, the weight on its end."""
    return torch.minimum(weights, wanted).sum(-1)


def word_ids(words: Sequence[str]) -> Int[Tensor, " token"]:
    """Equal words get equal ids, in the order in which they first appear; 0 is for words never seen."""
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    return torch.tensor([vocabulary[word] for word in words])


def _answers(job: Job) -> Float[Tensor, "query vocabulary"]:
    """What the output should name at each word: the words its heads were sent to find."""
    speak = job.finds.float()[:, :, None]
    silent = 1 - job.finds.any(0).float()
    found = (job.wanted * speak).sum(0) + silent[:, None] * job.wanted[0]
    vocabulary = F.one_hot(job.ids[0], len(set(job.words)) + 1).float()
    named = found @ vocabulary
    return named / named.sum(-1, keepdim=True)


def _schedule(settings: CraftSettings) -> set[int]:
    """When to take a snapshot: often at first, when much happens."""
    count = settings.snapshots
    return {round(settings.steps * (index / (count - 1)) ** 1.6) for index in range(count)}


def _snapshot(step: int, loss: Tensor, weights: Tensor, job: Job) -> Snapshot:
    hits = covered(weights, job.wanted)
    hit = [head_hit(hits[index], job.finds[index]) for index in range(len(hits))]
    return Snapshot(step, [round(value, 4) for value in loss.tolist()], hit, weights)


def head_hit(hits: Float[Tensor, " query"], finds: Bool[Tensor, " query"]) -> float:
    """The mean over the rows that have something to find; over all rows where none has."""
    return round(float(hits[finds].mean() if bool(finds.any()) else hits.mean()), 4)


@dataclass(frozen=True)
class Diagnosis:
    """Why a row was missed, found by trying: more steps, then a wider head."""

    job: Job
    settings: CraftSettings

    @property
    def more(self) -> int:
        return min(MOST_STEPS, 4 * self.settings.steps)

    @cached_property
    def longer(self) -> Tensor:
        return fit(self.job, replace(self.settings, steps=self.more)).hits

    @cached_property
    def wider(self) -> Tensor:
        return fit(self.job, replace(self.settings, d_head=self.settings.d_model)).hits

    def why(self, head: int, place: int) -> str:
        alike = self._alike(head, place)
        if alike:
            return alike
        settings = self.settings
        longer, wider = float(self.longer[head, place]), float(self.wider[head, place])
        if longer >= GOOD_ENOUGH:
            return f"{settings.steps} steps are too few: after {self.more} this row reaches {longer:.2f}."
        if wider >= GOOD_ENOUGH:
            return (
                f"d_head={settings.d_head} is too small: a head of {settings.d_model} numbers reaches {wider:.2f} on "
                "this row. One score is a product of so few numbers that the rows get in each other's way."
            )
        return (
            f"{settings.d_model} numbers a word do not hold {len(self.job.words)} words apart well enough here: even "
            f"a head of {settings.d_model} reaches only {wider:.2f}."
        )

    def _alike(self, head: int, place: int) -> str:
        """Two words with equal embeddings cannot be told apart: not as keys, and not as queries."""
        x = fresh_model(self.job, self.settings).embed(self.job.ids)[0].detach()
        same = (x[:, None] - x[None]).abs().amax(-1) < 1e-6
        row, words = self.job.wanted[head, place], self.job.words
        seen = place + 1 if self.settings.causal else len(words)
        for key in range(seen):
            for other in range(key):
                if same[key, other] and abs(float(row[key] - row[other])) > 1 - GOOD_ENOUGH:
                    both = f"{words[key]!r} at {other} and at {key}"
                    return f"{both} look alike without places: no head can choose between them."
        for other in range(len(words)):
            wishes = self.job.wanted[head, other]
            if other != place and same[place, other] and float((row - wishes).abs().sum()) > 1 - GOOD_ENOUGH:
                return (
                    f"{words[place]!r} at {place} and at {other} ask the same question without places, but should find "
                    "different words."
                )
        return ""
