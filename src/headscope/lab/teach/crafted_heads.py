"""Train the heads of one attention layer on one sentence, each towards a target pattern chosen by the user.

The layer reads token + position embeddings. W_Q and W_K of each head are trained towards its own target; W_V, W_O and
the unembedding learn to predict the attended words, so that a token can be followed from the attention weights through
the concatenation to the output. The result is an ordinary model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.teach.fit_heads import (
    GOOD_ENOUGH,
    CraftSettings,
    Diagnosis,
    Fitted,
    Job,
    Progress,
    Snapshot,
    fit,
    head_hit,
    pattern,
    word_ids,
)
from headscope.lab.teach.target_patterns import SENTENCE, Target, default_targets, split_words
from headscope.lab.teach.tiny_transformer import TinyTransformer

UNKNOWN = "<?>"


@dataclass(frozen=True)
class _RowFit:
    """One row with a target: how much of it the pattern covers, and, if little, why."""

    word: str
    position: int
    hit: float
    why: str = ""


@dataclass(frozen=True)
class _HeadFit:
    """How much of its target one head covers, on average and row by row."""

    name: str
    asks: str
    hit: float
    rows: list[_RowFit]

    @property
    def misses(self) -> list[_RowFit]:
        return [row for row in self.rows if row.hit < GOOD_ENOUGH]


@dataclass(frozen=True)
class _TokenTrace:
    """One token through the layer: attention weights, z, concatenated z, each head's contribution, and their sum."""

    word: str
    position: int
    weights: Float[Tensor, "head key"]
    z: Float[Tensor, "head d_head"]
    concatenated: Float[Tensor, " concatenated"]
    parts: Float[Tensor, "head d_model"]
    output: Float[Tensor, " d_model"]


@dataclass(frozen=True)
class Crafted:
    """A sentence and the heads trained on it; ``model`` and ``tokenizer`` open in the microscope like any other."""

    words: list[str]
    targets: list[Target]
    settings: CraftSettings
    wanted: Float[Tensor, "head query key"]
    heads: list[_HeadFit]
    snapshots: list[Snapshot]
    losses: Float[Tensor, "step head"]
    model: TinyTransformer
    tokenizer: Tokenizer

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        return word_ids(self.words)[None]

    @torch.no_grad()
    def trace(self, position: int) -> _TokenTrace:
        """Follow the token at this position through the heads."""
        if not 0 <= position < len(self.words):
            raise InputError(f"there is no word {position}; this sentence has words 0–{len(self.words) - 1}")
        attention, x = self.model.attention(), self.model.embed(self.ids)
        weights = pattern(self.model, x)[:, position]
        z = torch.einsum("hk,hkd->hd", weights, attention.project(x)[2][0])
        parts = torch.einsum("hd,hdm->hm", z, attention.output_weight())
        return _TokenTrace(self.words[position], position, weights, z, z.flatten(), parts, parts.sum(0))


def craft(
    sentence: str = SENTENCE,
    targets: Sequence[Target] | None = None,
    settings: CraftSettings | None = None,
    on_progress: Progress | None = None,
) -> Crafted:
    """Train one head towards each target. ``on_progress`` is called with every snapshot."""
    settings, words = settings or CraftSettings(), split_words(sentence)
    chosen = _default_for(words) if targets is None else list(targets)
    if not 1 <= len(chosen) <= 16:
        raise InputError(f"{len(chosen)} targets: give 1 to 16, one per head")
    rows = [target.rows(words, causal=settings.causal) for target in chosen]
    job = Job(words, torch.stack([matrix for matrix, _ in rows]), torch.stack([has for _, has in rows]))
    fitted = fit(job, settings, on_progress)
    diagnosis = Diagnosis(job, settings)
    heads = [_head_fit(target, index, fitted, diagnosis) for index, target in enumerate(chosen)]
    return Crafted(
        words,
        chosen,
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


def _head_fit(target: Target, index: int, fitted: Fitted, diagnosis: Diagnosis) -> _HeadFit:
    has_target, words = diagnosis.job.has_target[index], diagnosis.job.words
    rows = []
    for position in has_target.nonzero()[:, 0].tolist():
        hit = round(float(fitted.hits[index, position]), 4)
        why = "" if hit >= GOOD_ENOUGH else diagnosis.why(index, position)
        rows.append(_RowFit(words[position], position, hit, why))
    return _HeadFit(target.name, target.asks, head_hit(fitted.hits[index], has_target), rows)


def _default_for(words: Sequence[str]) -> list[Target]:
    if list(words) != split_words(SENTENCE):
        raise InputError(
            "this sentence has no default targets; give one per head, as arrows such as crossed > horse, was > it"
        )
    return default_targets()
