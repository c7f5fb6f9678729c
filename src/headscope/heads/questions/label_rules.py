"""Label rules: questions made of two labelling functions of the tokens, or of a regular expression."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import regex
import torch
from jaxtyping import Int
from torch import Tensor

from headscope.checked import checked
from headscope.errors import InputError
from headscope.models.protocol import Token

Labeller = Callable[[Sequence[Token]], Sequence[int]]
"""Given the tokens of a text, one integer for each; −1 matches nothing."""

LARGEST_LABEL = 2**40
SECONDS_PER_TOKEN = 2.0
"""How long a regular expression may search one token; a usual one takes microseconds."""
LONGEST_PATTERN = 1_000
MOST_REPEATS = 1_000
"""The largest product of the counts in a pattern, as in ``(a{20}){30}``: compiling unrolls them."""


@checked
@dataclass(frozen=True)
class LabelRule:
    """How much of a head's attention lands where ``key(tokens)[j] == query(tokens)[i]``?

    >>> same_length = lambda tokens: [len(token.text) for token in tokens]
    >>> LabelRule("same length", query=same_length, key=same_length, exclude_self=True).name
    'same length'
    """

    name: str
    query: Labeller
    key: Labeller
    exclude_self: bool = False

    def labels(
        self, tokens: Sequence[Token], keys: Sequence[Token] | None = None
    ) -> tuple[Int[Tensor, " token"], Int[Tensor, " key"]]:
        """Compute and check the query labels and key labels of a text; ``keys`` is another one in cross-attention."""
        return self._checked("query", tokens), self._checked("key", tokens if keys is None else keys)

    def identity(self) -> dict[str, Any]:
        """Describe the rule for a recipe, with a hash of its functions' source: a changed function is another rule."""
        sides = {"query": _describe(self.query), "key": _describe(self.key)}
        return {"name": self.name, **sides, "exclude_self": self.exclude_self}

    def _checked(self, side: str, tokens: Sequence[Token]) -> Int[Tensor, " token"]:
        given = getattr(self, side)(tokens)
        try:
            labels = torch.as_tensor(given if isinstance(given, Tensor) else list(given))
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"the {side} labels of the question {self.name!r} are not integers ({error}); give {len(tokens)}, "
                "one per token"
            ) from error
        if labels.is_floating_point() or labels.dtype == torch.bool or tuple(labels.shape) != (len(tokens),):
            raise InputError(
                f"the {side} labels of the question {self.name!r} are {labels.dtype} of shape {tuple(labels.shape)}; "
                f"this text needs {len(tokens)} integers, one per token"
            )
        if len(labels) and not -1 <= int(labels.min()) <= int(labels.max()) < LARGEST_LABEL:
            raise InputError(
                f"the {side} labels of the question {self.name!r} reach from {int(labels.min())} to "
                f"{int(labels.max())}; labels are at least 0, or −1 for none, and below {LARGEST_LABEL:,}"
            )
        return labels.long()


@dataclass(frozen=True)
class _PatternLabeller:
    """Label tokens by a regular expression: 1 where it is found, −1 elsewhere."""

    pattern: str

    @cached_property
    def _compiled(self) -> Any:
        return _compile_pattern(self.pattern)

    def __call__(self, tokens: Sequence[Token]) -> list[int]:
        labels = {text: self._label(text) for text in dict.fromkeys(token.text for token in tokens)}
        return [labels[token.text] for token in tokens]

    def _label(self, text: str) -> int:
        try:
            return 1 if self._compiled.search(text, timeout=SECONDS_PER_TOKEN) else -1
        except TimeoutError as error:
            raise InputError(
                f"the pattern {self.pattern!r} searched the token {text[:40]!r} for {SECONDS_PER_TOKEN:g} seconds; "
                "write it without repeats inside repeats, as in (a|aa)+"
            ) from error


def _compile_pattern(pattern: str) -> Any:
    """Compile a regular expression whose size is bounded; one that is wrong or too large raises ``ValueError``."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"it has {len(pattern):,} characters, more than {LONGEST_PATTERN:,}")
    counts = [max(int(number or 1) for number in found) for found in re.findall(r"\{(\d*),?(\d*)\}", pattern)]
    if math.prod(max(count, 1) for count in counts) > MOST_REPEATS:
        raise ValueError(f"its counted repeats multiply to more than {MOST_REPEATS:,}")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(str(error)) from error


@checked
def token_class(name: str, key: str, query: str = "") -> LabelRule:
    """A rule for the attention from tokens that match ``query`` (all by default) to tokens that match ``key``."""
    for side, pattern in (("key", key), ("query", query)):
        try:
            _compile_pattern(pattern)
        except ValueError as error:
            raise InputError(
                f"the {side} pattern {pattern!r} of {name!r} is not a regular expression: {error}"
            ) from error
    return LabelRule(name, _PatternLabeller(query), _PatternLabeller(key), exclude_self=True)


def read_class(written: str) -> LabelRule:
    """Parse a rule from the command line: ``NAME=PATTERN`` for keys, or ``NAME=QUERY=>KEY``.

    >>> read_class(r"digits=\\d").key.pattern
    '\\\\d'
    """
    name, equals, patterns = written.partition("=")
    if not name.strip() or not equals or not patterns:
        raise InputError(f"{written!r} is not a class of tokens; write NAME=PATTERN, as in punctuation=[.,;:]")
    query, arrow, key = patterns.partition("=>")
    return token_class(name.strip(), key, query) if arrow else token_class(name.strip(), patterns)


def _describe(labeller: Labeller) -> str:
    """The regular expression, or a function's name and a hash of its source."""
    if isinstance(labeller, _PatternLabeller):
        return f"matches {labeller.pattern!r}"
    name = getattr(labeller, "__qualname__", type(labeller).__qualname__)
    try:
        source = inspect.getsource(labeller)
    except (OSError, TypeError):
        return str(name)
    return f"{name} {hashlib.sha256(source.encode()).hexdigest()[:12]}"
