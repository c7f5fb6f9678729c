"""A model's vocabulary for writing probes: words of one token, and the tokens that its tokenizer adds to a text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.errors import InputError
from headscope.models.protocol import Token
from headscope.models.recording import OpenModel

SAMPLE = 4096
BEFORE_WORD, AFTER_WORD = "The horse saw ", "there."
_WORD = re.compile(r"^ ?[A-Za-z]{2,}$")
_SEPARATOR = re.compile(r"^\s*[.,;:!?()\"'\-\n]+\s*$")


class UntestableError(Exception):
    """Raised when a probe does not fit a model; the message is the reason that the report gives."""


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model reads it: ids, and tokens with their spans of characters (None for added ones)."""

    ids: tuple[int, ...]
    tokens: tuple[Token, ...]

    def positions(self, span: tuple[int, int]) -> list[int]:
        """The positions of the tokens that overlap a span of characters."""
        start, stop = span
        return [
            position
            for position, token in enumerate(self.tokens)
            if token.start is not None and token.end is not None and token.start < stop and token.end > start
        ]


class Vocabulary:
    """The tokens of an opened model. Without a tokenizer, separators are the ids given as ``separators``."""

    def __init__(self, model: OpenModel, seed: int = 0, separators: Sequence[int] = ()) -> None:
        self.model, self.seed, self.given_separators = model, seed, tuple(separators)

    @cached_property
    def example(self) -> TokenizedText | None:
        """A small text, tokenized; None if the model reads no text."""
        try:
            return self.tokenize("The horse.")
        except InputError:
            return None

    @property
    def reads_text(self) -> bool:
        return self.example is not None

    def require_text(self) -> None:
        """Raise unless the model has a tokenizer that gives spans of characters."""
        if not self.reads_text:
            raise UntestableError("it reads no text: there is no tokenizer, or one that gives no spans of characters")

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that the tokenizer adds before a text."""
        return _leading_added(self.example.tokens) if self.example else ()

    @cached_property
    def suffix(self) -> tuple[int, ...]:
        """The tokens that it adds after a text."""
        return _leading_added(self.example.tokens[::-1])[::-1] if self.example else ()

    @property
    def added_tokens(self) -> str:
        """A sentence on how inputs begin and end, for the recipe."""
        if not self.reads_text:
            return "no tokenizer: nothing is put around the tokens"
        around = [self._names(part) for part in (self.prefix, self.suffix)]
        return f"as the model's tokenizer does it: before {around[0]}, after {around[1]}"

    @property
    def context(self) -> int:
        """The largest number of tokens in an input."""
        return self.model.shape.context or 1024

    @cached_property
    def ordinary(self) -> Int[Tensor, " token"]:
        """Tokens to draw from: whole words if the model reads text, else all but separators and special tokens."""
        size = self.model.shape.vocabulary or len(self.model.embedding())
        special = {*self.prefix, *self.suffix, *self.model.end_tokens, *self.given_separators}
        drawn = random.Random(self.seed).sample(range(size), min(size, SAMPLE))
        if self.reads_text:
            read = self.model.processor.tokens_of(torch.tensor(drawn))
            drawn = [token.id for token in read if _WORD.match(token.text)] or drawn
        kept = sorted(token for token in drawn if token not in special)
        if len(kept) < 16:
            raise UntestableError(f"only {len(kept)} ordinary tokens were found; a probe needs at least 16")
        return torch.tensor(kept)

    def tokenize(self, text: str) -> TokenizedText:
        tokens = self.model.prepare(text).tokens
        if not any(token.start is not None for token in tokens):
            raise InputError("this tokenizer gives no spans of characters for its tokens")
        return TokenizedText(tuple(token.id for token in tokens), tokens)

    def wrap(self, ids: Int[Tensor, "input token"]) -> Int[Tensor, "input longer"]:
        """Put the tokens that the tokenizer adds around these ids."""
        before, after = (torch.tensor(part, dtype=torch.long) for part in (self.prefix, self.suffix))
        return torch.cat((before.expand(len(ids), -1), ids, after.expand(len(ids), -1)), dim=1)

    def single_tokens(self, words: Iterable[str]) -> dict[str, int]:
        """The words that are a single token inside a sentence, with their ids there.

        A sentence, because tokenizers differ in what they make of a space at the start of a text. Words that share a
        token (the unknown one) are left out.
        """
        if not self.reads_text:
            return {}
        found = {}
        for word in words:
            text = self.tokenize(f"{BEFORE_WORD}{word} {AFTER_WORD}")
            start, stop = len(BEFORE_WORD), len(BEFORE_WORD) + len(word)
            here = text.positions((start, stop))
            token = text.tokens[here[0]] if len(here) == 1 else None
            if token is not None and token.start in (start - 1, start) and token.end == stop:  # or its space
                found[word] = text.ids[here[0]]
        ids = list(found.values())
        return {word: token for word, token in found.items() if ids.count(token) == 1}

    def is_separator(self, ids: Int[Tensor, "input token"]) -> Tensor:
        """Mark punctuation, line ends and what the tokenizer adds after a text; never the first token."""
        known = set(self.given_separators) | set(self.suffix)
        if self.reads_text:
            read = self.model.processor.tokens_of(torch.unique(ids))
            known |= {token.id for token in read if _SEPARATOR.match(token.text)}
        found = torch.isin(ids, torch.tensor(sorted(known), dtype=torch.long))
        found[:, 0] = False
        return found

    def _names(self, ids: tuple[int, ...]) -> str:
        return "".join(token.text for token in self.model.processor.tokens_of(torch.tensor(ids))) if ids else "nothing"


def _leading_added(tokens: Iterable[Token]) -> tuple[int, ...]:
    return tuple(token.id for token in takewhile(lambda token: token.start is None, tokens))
