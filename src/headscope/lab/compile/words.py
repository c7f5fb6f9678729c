"""The words that compiled models read, their tokenizer, and texts with copies, lines, brackets and numbers in them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

START = "<s>"
_GROUPS: dict[str, tuple[str, ...]] = {
    "function words": (" the", " of", " and", " to", " in", " was", " with", " it"),
    "content words": (
        " horse", " river", " stone", " bread", " lamp", " winter", " garden", " letter", " cold", " green", " slow",
        " runs", " sees", " brings", " sleeps", " sings",
    ),
    "capitals": (" Anna", " Boris", " Clara", " David", " Paris", " Rome"),
    "digits": (" 0", " 1", " 2", " 3", " 4", " 5"),
    "word pieces": ("ing", "ly", "ness"),
    "commas": (",", ";"),
    "sentence ends": (".", "!"),
    "separators": ("\n",),
    "opening": (" (",),
    "closing": (")",),
}  # fmt: skip
VOCABULARY = (START, "<other>", *(word for words in _GROUPS.values() for word in words))
IDS = {word: index for index, word in enumerate(VOCABULARY)}

CLASSES: dict[str, tuple[str, ...]] = {
    "punctuation": (",", ";", ".", "!", " (", ")"),
    "separators": ("\n", START),
    "sentence ends": (".", "!", "\n"),
    "commas": (",",),
    "function words": _GROUPS["function words"],
    "content words": _GROUPS["content words"] + _GROUPS["capitals"],
    "capitals": _GROUPS["capitals"],
    "digits": _GROUPS["digits"],
    "word pieces": _GROUPS["word pieces"],
    "opening": _GROUPS["opening"],
    "closing": _GROUPS["closing"],
}
"""Classes of words that a compiled head can ask for, by the name of the rule."""


def word_tokenizer() -> Tokenizer:
    """One token per word with the space before it, and a start token before every text."""
    tokenizer = Tokenizer(models.WordLevel(IDS, unk_token="<other>"))
    pieces = "|".join(_GROUPS["word pieces"])
    words = rf"({pieces})\b| ?\p{{L}}+?(?=({pieces})\b|\b)| ?\p{{N}}| ?[^\s\w]|\n"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(words), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, 0)])
    return tokenizer


def sample_texts(count: int, length: int, seed: int = 0) -> list[list[int]]:
    """Texts as token ids: sentences of words, with copied stretches, numbers, brackets and line breaks."""
    generator, texts = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        words = [START]
        while len(words) < length:
            words += _sentence(words, generator)
        texts.append([IDS[word] for word in words[:length]])
    return texts


def _sentence(so_far: Sequence[str], generator: torch.Generator) -> list[str]:
    def draw(options: Sequence[str]) -> str:
        return options[int(torch.randint(len(options), (1,), generator=generator))]

    def happens(chance: float) -> bool:
        return float(torch.rand(1, generator=generator)) < chance

    made: list[str] = []
    for _ in range(int(torch.randint(4, 9, (1,), generator=generator))):
        kinds = ("function words", "content words", "content words", "capitals", "digits", "function words")
        made.append(draw(_GROUPS[draw(kinds)]))
        if made[-1] in _GROUPS["content words"] and happens(0.25):
            made.append(draw(_GROUPS["word pieces"]))
        if happens(0.12):
            made.append(draw(_GROUPS["commas"]))
    if happens(0.4):
        at = int(torch.randint(len(made), (1,), generator=generator))
        made[at:at] = [" (", *(draw(_GROUPS["content words"]) for _ in range(2)), ")"]
    if len(so_far) > 12 and happens(0.5):  # say something again that stood earlier
        start = int(torch.randint(1, len(so_far) - 6, (1,), generator=generator))
        made += [word for word in so_far[start : start + 5] if word not in ("\n", " (", ")")]
    return [*made, draw(_GROUPS["sentence ends"]), *(["\n"] if happens(0.3) else [])]
