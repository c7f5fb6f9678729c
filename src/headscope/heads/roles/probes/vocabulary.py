"""A model's tokens, from the side of somebody who writes probes: what it puts around a text, and what is one token."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.errors import InputError
from headscope.models.protocol import OpenModel, Token

SAMPLE = 4096
_WORD = re.compile(r"^ ?[A-Za-z]{2,}$")
_SEPARATOR = re.compile(r"^\s*[.,;:!?()\"'\-\n]+\s*$")


class UntestableError(Exception):
    """This probe cannot be put to this model; the message says why, and goes into the report."""


@dataclass(frozen=True)
class Spelled:
    """A text as the model reads it: ids, and where each token stands in the text (None for added ones)."""

    ids: tuple[int, ...]
    tokens: tuple[Token, ...]

    def at(self, span: tuple[int, int]) -> list[int]:
        """The places of the tokens that overlap a span of characters."""
        start, stop = span
        return [
            place
            for place, token in enumerate(self.tokens)
            if token.start is not None and token.end is not None and token.start < stop and token.end > start
        ]


class Vocabulary:
    """``separators`` are given as ids where there is no tokenizer to tell them by their looks."""

    def __init__(self, model: OpenModel, seed: int = 0, separators: Sequence[int] = ()) -> None:
        self.model, self.seed, self.given_separators = model, seed, tuple(separators)

    @cached_property
    def example(self) -> Spelled | None:
        """A small text as the model reads it; None if it reads no text."""
        try:
            return self.spell("The horse.")
        except InputError:
            return None

    @property
    def reads_text(self) -> bool:
        return self.example is not None

    def need_text(self) -> None:
        """Words of a text can only be asked for where its tokens say where they stand in it."""
        if not self.reads_text:
            raise UntestableError(
                "it reads no text: there is no tokenizer, or one that does not say where tokens stand"
            )

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """What the tokenizer puts before a text of its own accord."""
        return self._added(self.example.tokens) if self.example else ()

    @cached_property
    def suffix(self) -> tuple[int, ...]:
        """What it puts after one."""
        return self._added(self.example.tokens[::-1])[::-1] if self.example else ()

    @property
    def rule(self) -> str:
        """How inputs begin and end, in words, for the recipe."""
        if not self.reads_text:
            return "no tokenizer: nothing is put around the tokens"
        around = [self._names(part) for part in (self.prefix, self.suffix)]
        return f"as the model's tokenizer does it: before {around[0]}, after {around[1]}"

    @property
    def room(self) -> int:
        """How many tokens an input may have."""
        return self.model.shape.context or 1024

    @cached_property
    def ordinary(self) -> Int[Tensor, " token"]:
        """Tokens to draw from: whole words where there is text, else every token that is not a separator or special."""
        size = self.model.shape.vocabulary or self._embedded_tokens()
        special = {*self.prefix, *self.suffix, *self.model.end_tokens, *self.given_separators}
        drawn = random.Random(self.seed).sample(range(size), min(size, SAMPLE))
        if self.reads_text:
            read = self.model.tokens_of(torch.tensor(drawn))
            drawn = [token.id for token in read if _WORD.match(token.text)] or drawn
        kept = sorted(token for token in drawn if token not in special)
        if len(kept) < 16:
            raise UntestableError(f"only {len(kept)} ordinary tokens were found; a probe needs at least 16")
        return torch.tensor(kept)

    @cached_property
    def pool(self) -> Int[Tensor, " token"]:
        """The ordinary tokens of which a single one is known to be read alone: at most 512 of them."""
        generator = torch.Generator().manual_seed(self.seed)
        return self.ordinary[torch.randperm(len(self.ordinary), generator=generator)[:512]]

    def spell(self, text: str) -> Spelled:
        tokens = self.model.prepare(text).tokens
        if not any(token.start is not None for token in tokens):
            raise InputError("this tokenizer does not say where its tokens stand in the text")
        return Spelled(tuple(token.id for token in tokens), tokens)

    def wrap(self, ids: Int[Tensor, "input token"]) -> Int[Tensor, "input longer"]:
        """Ids with what the tokenizer puts around a text."""
        before, after = (torch.tensor(part, dtype=torch.long) for part in (self.prefix, self.suffix))
        return torch.cat((before.expand(len(ids), -1), ids, after.expand(len(ids), -1)), dim=1)

    def single(self, words: Iterable[str]) -> dict[str, int]:
        """Those words that are one token each when they follow a space, with their ids."""
        if not self.reads_text:
            return {}
        spelled = ((word, self.model.token_ids(" " + word)) for word in words)
        return {word: ids[0] for word, ids in spelled if len(ids) == 1}

    def is_separator(self, ids: Int[Tensor, "input token"]) -> Tensor:
        """Punctuation and line ends, and what the tokenizer puts after a text; never the first token."""
        known = set(self.given_separators) | set(self.suffix)
        if self.reads_text:
            read = self.model.tokens_of(torch.unique(ids))
            known |= {token.id for token in read if _SEPARATOR.match(token.text)}
        found = torch.isin(ids, torch.tensor(sorted(known), dtype=torch.long))
        found[:, 0] = False
        return found

    def _added(self, tokens: Sequence[Token]) -> tuple[int, ...]:
        added: list[int] = []
        for token in tokens:
            if token.start is not None:
                break
            added.append(token.id)
        return tuple(added)

    def _names(self, ids: tuple[int, ...]) -> str:
        return "".join(token.text for token in self.model.tokens_of(torch.tensor(ids))) if ids else "nothing"

    def _embedded_tokens(self) -> int:
        return int(self.model.embedding().shape[0])
