"""Measure heads on short texts: patterns, next tokens with and without heads, each of them in turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.names import Head
from headscope.scope import Scope

BATCH = 30


@dataclass(frozen=True)
class Read:
    """A text, read once: its tokens, every head's pattern [head, query, key], the next token's probabilities."""

    text: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    patterns: Tensor
    next: Tensor

    def at(self, word: str) -> int:
        """The token of a word: `Tom#2` is the second occurrence, `^` the first token, `$` the last."""
        if word in "^$":
            return 0 if word == "^" else len(self.tokens) - 1
        word, _, count = word.partition("#")
        border = r"\b" if word.isalnum() else ""
        found = list(re.finditer(f"{border}{re.escape(word)}{border}", self.text))[int(count or 1) - 1]
        return next(at for at, (start, end) in enumerate(self.spans) if start < found.end() <= end)


@dataclass
class Meter:
    """A model whose heads are measured; what has been read is kept."""

    scope: Scope
    kept: dict[tuple[str, tuple[str, ...]], Read] = field(default_factory=dict)
    turns: dict[str, Tensor] = field(default_factory=dict)

    @property
    def heads(self) -> list[Head]:
        return list(self.scope.shape.heads())

    def number(self, head: str) -> int:
        return [str(each) for each in self.heads].index(head)

    def read(self, text: str, without: Sequence[str] = ()) -> Read:
        """Read a text with some heads at zero."""
        key = (text, tuple(without))
        if key not in self.kept:
            prepared, patterns = self.scope.model.prepare(text), []
            off = [Head.parse(name) for name in without]

            def attend(site: str, call: Call) -> Tensor:
                q, k = call.q, call.k
                rows = torch.arange(q.shape[2])
                patterns.append(call.scores.bind(q, k).block(q, k, rows, rows, 0).softmax(-1)[0])
                z = plain(call).clone()
                z[:, [head.head for head in off if head.site == site]] = 0
                return z

            with torch.no_grad():
                logits = self.scope.model.run(prepared.inputs, attend).logits[0, -1]
            tokens = prepared.tokens
            spans = tuple((token.start or 0, token.end or 0) for token in tokens)
            self.kept[key] = Read(
                text, tuple(token.text for token in tokens), spans, torch.cat(patterns), logits.softmax(-1)
            )
        return self.kept[key]

    def each(self, text: str) -> Tensor:
        """The next token's probabilities without each head in turn, [head, token]."""
        if text in self.turns:
            return self.turns[text]
        prepared, found = self.scope.model.prepare(text), []
        for some in torch.arange(len(self.heads)).split(BATCH):
            heads = [self.heads[at] for at in some.tolist()]

            def attend(site: str, call: Call, heads: list[Head] = heads) -> Tensor:
                z = plain(call).clone()
                for item, head in enumerate(heads):
                    if head.site == site:
                        z[item, head.head] = 0
                return z

            inputs = {name: value.expand(len(heads), *value.shape[1:]) for name, value in prepared.inputs.items()}
            with torch.no_grad():
                found.append(self.scope.model.run(inputs, attend).logits[:, -1].softmax(-1))
        self.turns[text] = torch.cat(found)
        return self.turns[text]

    def divergence(self, text: str) -> Tensor:
        """How much the next token's distribution changes without each head, in nats (KL)."""
        whole, each = self.read(text).next.double(), self.each(text).double()
        return (whole * (whole.clamp_min(1e-12).log() - each.clamp_min(1e-12).log())).sum(-1)

    def rank(self, text: str, head: str) -> int:
        """Which place a head has among all by how much the next token changes without it."""
        changes = self.divergence(text)
        return 1 + int((changes > changes[self.number(head)]).sum())

    def weight(self, text: str, head: str, query: str, *keys: str, without: Sequence[str] = ()) -> float:
        """How much of a head's attention from a word goes to others."""
        read = self.read(text, without)
        row = read.patterns[self.number(head), read.at(query)]
        return float(sum(row[read.at(key)] for key in keys))

    def next(self, text: str, words: str, without: Sequence[str] = ()) -> float:
        """The probability that one of these words comes next."""
        return float(self.read(text, without).next[[self.token(text, word) for word in words.split()]].sum())

    def adds(self, text: str, head: str, word: str) -> float:
        """What a head adds to a next word's logit on the direct path."""
        found = self.scope.look(text).logit_attribution(self.word(self.token(text, word)))
        return float(found.heads[Head.parse(head)])

    def token(self, text: str, word: str) -> int:
        """The token with which a word begins after this text, which is told by the likelier of two spellings."""
        ids = [self.scope.model.prepare(lead + word).inputs["input_ids"][0, 0] for lead in (" ", "")]
        return int(max(ids, key=lambda token: float(self.read(text).next[token])))

    def word(self, token: int) -> str:
        """A token's text."""
        return self.scope.model.processor.decode(torch.tensor([token]))
