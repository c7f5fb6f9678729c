"""Four heads at work: W_Q and W_K of each head are trained, while one watches, to look where a person pointed.

One layer reads token + place embeddings of one sentence. Each head's pattern is pulled to its own target and to
nothing else; beside it W_V, W_O and an unembedding learn to name what the heads found, so that a token can be
followed from the weights through the concatenation to the output. The result is an ordinary model.
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

__all__ = ["CraftSettings", "Crafted", "HeadFit", "Reading", "RowFit", "Snapshot", "craft", "word_tokenizer"]

UNKNOWN = "<?>"


@dataclass(frozen=True)
class RowFit:
    """One row that has something to find: how much of its target it covers, and, if little, why."""

    word: str
    place: int
    hit: float
    why: str = ""


@dataclass(frozen=True)
class HeadFit:
    """How close one head came."""

    name: str
    asks: str
    hit: float
    rows: list[RowFit]

    @property
    def misses(self) -> list[RowFit]:
        return [row for row in self.rows if row.hit < GOOD_ENOUGH]


@dataclass(frozen=True)
class Reading:
    """One token followed through the layer: weights, each head's Σ p·v, the concatenation, its parts and their sum."""

    word: str
    place: int
    weights: Float[Tensor, "head key"]
    delivered: Float[Tensor, "head d_head"]
    concatenated: Float[Tensor, " concatenated"]
    parts: Float[Tensor, "head d_model"]
    output: Float[Tensor, " d_model"]


@dataclass(frozen=True)
class Crafted:
    """A sentence and the heads made for it. ``model`` and ``tokenizer`` open in the microscope like any other."""

    words: list[str]
    targets: list[Target]
    settings: CraftSettings
    wanted: Float[Tensor, "head query key"]
    heads: list[HeadFit]
    snapshots: list[Snapshot]
    losses: Float[Tensor, "step head"]
    model: TinyTransformer
    tokenizer: Tokenizer

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        return word_ids(self.words)[None]

    @torch.no_grad()
    def read(self, place: int) -> Reading:
        """Follow the token at this place through the four heads."""
        if not 0 <= place < len(self.words):
            raise InputError(f"there is no word {place}; this sentence has words 0–{len(self.words) - 1}")
        attention, x = self.model.attention(), self.model.embed(self.ids)
        weights = pattern(self.model, x)[:, place]
        delivered = torch.einsum("hk,hkd->hd", weights, attention.project(x)[2][0])
        parts = torch.einsum("hd,hdm->hm", delivered, attention.output_weight())
        return Reading(self.words[place], place, weights, delivered, delivered.flatten(), parts, parts.sum(0))


def craft(
    sentence: str = SENTENCE,
    targets: Sequence[Target] | None = None,
    settings: CraftSettings | None = None,
    on_progress: Progress | None = None,
) -> Crafted:
    """Fit one head to each target. ``on_progress`` is called with every snapshot as it is made."""
    settings, words = settings or CraftSettings(), split_words(sentence)
    chosen = _default_for(words) if targets is None else list(targets)
    if not 1 <= len(chosen) <= 16:
        raise InputError(f"{len(chosen)} targets: craft 1 to 16 heads, one target each")
    rows = [target.rows(words, causal=settings.causal) for target in chosen]
    job = Job(words, torch.stack([matrix for matrix, _ in rows]), torch.stack([found for _, found in rows]))
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
    """A tokenizer that knows the words of this sentence."""
    vocabulary = {UNKNOWN: 0} | {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    marks = pre_tokenizers.Split(Regex(r"[^\w\s'’-]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # puts the spaces back
    return tokenizer


def _head_fit(target: Target, index: int, fitted: Fitted, diagnosis: Diagnosis) -> HeadFit:
    finds, words = diagnosis.job.finds[index], diagnosis.job.words
    rows = []
    for place in finds.nonzero()[:, 0].tolist():
        hit = round(float(fitted.hits[index, place]), 4)
        rows.append(RowFit(words[place], place, hit, "" if hit >= GOOD_ENOUGH else diagnosis.why(index, place)))
    return HeadFit(target.name, target.asks, head_hit(fitted.hits[index], finds), rows)


def _default_for(words: Sequence[str]) -> list[Target]:
    if list(words) != split_words(SENTENCE):
        raise InputError(
            "this sentence needs its own targets, one a head; give arrows such as crossed > horse, was > it"
        )
    return default_targets()
