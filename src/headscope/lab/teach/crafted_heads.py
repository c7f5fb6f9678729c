"""Train the heads of one attention layer on one sentence, each towards a target pattern chosen by the user.

The layer reads token + position embeddings. W_Q and W_K of each head are trained towards its own target; W_V, W_O and
the unembedding learn to predict the attended words, so that a token can be followed from the attention weights through
the concatenation to the output. The result is an ordinary model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.teach.target_patterns import Target, split_words
from headscope.lab.teach.tiny_transformer import Adam, TinyBlock, TinyConfig, TinyTransformer
from headscope.models.modes import threads

GOOD_ENOUGH = 0.9
"""A row is fitted when this much of its target is covered."""

MOST_STEPS, LEARNING_RATE = 5000, 0.005

INITIAL_SCALE = 0.3
"""Scale of the initial W_Q and W_K, so that every head starts with a nearly uniform pattern."""


@dataclass(frozen=True, kw_only=True)
class CraftSettings:
    """Sizes and training of the heads. Without ``positions`` the position embeddings are zero."""

    d_model: int = 32
    d_head: int = 8
    steps: int = 120
    seed: int = 0
    positions: bool = True
    snapshots: int = 16


@dataclass(frozen=True)
class Job:
    """What to fit: the words, the wanted pattern of each head, and which of its rows have a target."""

    words: list[str]
    wanted: Float[Tensor, "head query key"]
    has_target: Bool[Tensor, "head query"]

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        return _word_ids(self.words)[None]


@dataclass(frozen=True)
class Snapshot:
    """Loss, hit and pattern of each head after some steps."""

    step: int
    loss: list[float]
    hit: list[float]
    patterns: Float[Tensor, "head query key"]


@dataclass(frozen=True)
class _Fitted:
    """A fitted model, its training, and how much of each wanted row it covers."""

    model: TinyTransformer
    snapshots: list[Snapshot]
    losses: Float[Tensor, "step head"]
    hits: Float[Tensor, "head query"]


Progress = Callable[[Snapshot], None]


@threads(1)  # matrices this small are slower on several
def fit(job: Job, settings: CraftSettings, on_progress: Progress | None = None) -> _Fitted:
    """Train W_Q and W_K of each head towards its target; W_V, W_O and the unembedding to predict the attended words."""
    model = fresh_model(job, settings)
    attention, x, answers = model.attention(), model.embed(job.ids).detach(), _answers(job)
    adam = Adam([*attention.parameters(), *model.unembedding.parameters()], LEARNING_RATE)
    last = settings.snapshots - 1  # snapshots are denser at first
    due = {round(settings.steps * (index / last) ** 1.6) for index in range(settings.snapshots)}
    snapshots: list[Snapshot] = []
    losses: list[Tensor] = []
    for step in range(settings.steps + 1):
        weights = _pattern(model, x)
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
    return _Fitted(model.eval(), snapshots, torch.stack(losses), _covered(weights.detach(), job.wanted))


def fresh_model(job: Job, settings: CraftSettings) -> TinyTransformer:
    """Make an untrained attention layer for this sentence. Equal seeds give equal weights."""
    config = TinyConfig(
        vocabulary=len(set(job.words)) + 1,
        context=len(job.words),
        d_model=settings.d_model,
        n_heads=len(job.wanted),
        d_head=settings.d_head,
        residual=False,
    )
    model = TinyTransformer(config)
    model.initialise(settings.seed)
    with torch.no_grad():
        model.attention().q_proj.weight.mul_(INITIAL_SCALE)
        model.attention().k_proj.weight.mul_(INITIAL_SCALE)
        if not settings.positions:
            model.positions.weight.zero_()
    return model


def _pattern(model: TinyTransformer, x: Float[Tensor, "1 token d_model"]) -> Float[Tensor, "head token token"]:
    """The attention pattern of every head on one sentence."""
    block = model.blocks[0]
    assert isinstance(block, TinyBlock)
    return block.attention.patterns(x, mask=block.mask)[0]


def _covered(
    weights: Float[Tensor, "head query key"], wanted: Float[Tensor, "head query key"]
) -> Float[Tensor, "head query"]:
    """How much of each wanted row the weights cover: Σ min(weight, wanted)."""
    return torch.minimum(weights, wanted).sum(-1)


def _word_ids(words: Sequence[str]) -> Int[Tensor, " token"]:
    """Token ids by first appearance, from 1; equal words have equal ids, and 0 is the unknown word."""
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    return torch.tensor([vocabulary[word] for word in words])


def _answers(job: Job) -> Float[Tensor, "query vocabulary"]:
    """The wanted prediction at each word: the words that its heads attend to."""
    without = 1 - job.has_target.any(0).float()
    attended = (job.wanted * job.has_target.float()[:, :, None]).sum(0) + without[:, None] * job.wanted[0]
    vocabulary = F.one_hot(job.ids[0], len(set(job.words)) + 1).float()
    answers = attended @ vocabulary
    return answers / answers.sum(-1, keepdim=True)


def _snapshot(step: int, loss: Tensor, weights: Tensor, job: Job) -> Snapshot:
    hits = _covered(weights, job.wanted)
    hit = [_head_hit(hits[index], job.has_target[index]) for index in range(len(hits))]
    return Snapshot(step, [round(value, 4) for value in loss.tolist()], hit, weights)


def _head_hit(hits: Float[Tensor, " query"], has_target: Bool[Tensor, " query"]) -> float:
    """Mean over the rows that have a target, or over all rows where none has."""
    return round(float(hits[has_target].mean() if bool(has_target.any()) else hits.mean()), 4)


@dataclass(frozen=True)
class _Diagnosis:
    """Find why a row misses its target by fitting again: with more steps, then with a wider head."""

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

    def why(self, head: int, position: int) -> str:
        """Say why this row misses its target."""
        alike = self._alike(head, position)
        if alike:
            return alike
        settings = self.settings
        longer, wider = float(self.longer[head, position]), float(self.wider[head, position])
        if longer >= GOOD_ENOUGH:
            return f"{settings.steps} steps are too few: after {self.more} this row reaches {longer:.2f}."
        if wider >= GOOD_ENOUGH:
            return (
                f"d_head={settings.d_head} is too small: a head of {settings.d_model} numbers reaches {wider:.2f} on "
                "this row. One score is a product of so few numbers that the rows get in each other's way."
            )
        return (
            f"d_model={settings.d_model} is too small to tell {len(self.job.words)} words apart here: even a head of "
            f"{settings.d_model} numbers reaches only {wider:.2f}."
        )

    def _alike(self, head: int, position: int) -> str:
        """Name words with equal embeddings, which cannot be told apart: as keys or as queries."""
        x = fresh_model(self.job, self.settings).embed(self.job.ids)[0].detach()
        same = (x[:, None] - x[None]).abs().amax(-1) < 1e-6
        row, words = self.job.wanted[head, position], self.job.words
        for key in range(position + 1):
            for other in range(key):
                if same[key, other] and abs(float(row[key] - row[other])) > 1 - GOOD_ENOUGH:
                    both = f"{words[key]!r} at {other} and at {key}"
                    return f"{both} look alike without positions: no head can choose between them."
        for other in range(len(words)):
            difference = float((row - self.job.wanted[head, other]).abs().sum())
            if other != position and same[position, other] and difference > 1 - GOOD_ENOUGH:
                return (
                    f"{words[position]!r} at {position} and at {other} have the same query without positions, but "
                    "should attend to different words."
                )
        return ""


UNKNOWN = "<?>"


@dataclass(frozen=True)
class RowFit:
    """One row of which the pattern covers too little of the target: how much, and why."""

    word: str
    position: int
    hit: float
    why: str


@dataclass(frozen=True)
class CraftedHead:
    """How much of its target one head covers on average, and the rows it missed."""

    name: str
    asks: str
    hit: float
    misses: list[RowFit]


@dataclass(frozen=True)
class Crafted:
    """A sentence and the heads trained on it; ``model`` and ``tokenizer`` open in the microscope like any other."""

    words: list[str]
    targets: list[Target]
    settings: CraftSettings
    wanted: Float[Tensor, "head query key"]
    heads: list[CraftedHead]
    snapshots: list[Snapshot]
    losses: Float[Tensor, "step head"]
    model: TinyTransformer
    tokenizer: Tokenizer

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        return _word_ids(self.words)[None]


def craft(
    sentence: str,
    targets: Sequence[Target],
    settings: CraftSettings | None = None,
    on_progress: Progress | None = None,
) -> Crafted:
    """Train one head towards each target. ``on_progress`` is called with every snapshot."""
    settings, words = settings or CraftSettings(), split_words(sentence)
    if not 1 <= len(targets) <= 16:
        raise InputError(f"{len(targets)} targets: give 1 to 16, one per head")
    rows = [target.rows(words) for target in targets]
    job = Job(words, torch.stack([matrix for matrix, _ in rows]), torch.stack([has for _, has in rows]))
    fitted = fit(job, settings, on_progress)
    diagnosis = _Diagnosis(job, settings)
    heads = [_head_fit(target, index, fitted, diagnosis) for index, target in enumerate(targets)]
    return Crafted(
        words,
        list(targets),
        settings,
        job.wanted,
        heads,
        fitted.snapshots,
        fitted.losses,
        fitted.model,
        word_tokenizer(words),
    )


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A tokenizer whose vocabulary is the words of this sentence."""
    vocabulary = {UNKNOWN: 0} | {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    marks = pre_tokenizers.Split(Regex(r"[^\w\s'’-]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # puts the spaces back
    return tokenizer


def _head_fit(target: Target, index: int, fitted: _Fitted, diagnosis: _Diagnosis) -> CraftedHead:
    has_target, words = diagnosis.job.has_target[index], diagnosis.job.words
    misses = []
    for position in has_target.nonzero()[:, 0].tolist():
        hit = round(float(fitted.hits[index, position]), 4)
        if hit < GOOD_ENOUGH:
            misses.append(RowFit(words[position], position, hit, diagnosis.why(index, position)))
    return CraftedHead(target.name, target.asks, _head_hit(fitted.hits[index], has_target), misses)
