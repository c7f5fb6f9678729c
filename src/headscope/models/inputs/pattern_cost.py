"""Bound how long a regular expression may backtrack, from its form alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNBOUNDED = 64
"""A repetition of more than this counts as one without end."""
NO_BOUND = 10**9
"""The exponent of patterns that may backtrack exponentially, and of constructs that are not followed here."""

_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")
_GROUP = re.compile(r"\?(?:[imu-]*:|[imu-]+\)|=|!|>|<=|<!|<[A-Za-z_]\w*>)")


@dataclass
class _Sequence:
    """Elements one after another: how many unbounded repetitions something after them can send back."""

    retried: int = 0
    pending: int = 0
    varies: bool = False

    def then(self, retried: int, pending: int, *, can_fail: bool) -> None:
        if can_fail:
            self.retried, self.pending = self.retried + self.pending, 0
        self.retried, self.pending = self.retried + retried, self.pending + pending


def backtracking_exponent(pattern: str) -> int:
    """A k such that one search from one place takes at most in the order of nᵏ steps on n characters.

    It counts the repetitions that an element after them can send back: ``\\p{L}+`` 0, ``\\s+(?!\\S)`` 1. A repetition
    of what itself varies in length, a back-reference, a recursion and whatever is unknown here have no bound.
    """
    try:
        found, end = _alternatives(pattern, 0)
    except (IndexError, ValueError):
        return NO_BOUND
    return min(found.retried, NO_BOUND) if end == len(pattern) else NO_BOUND


def _alternatives(pattern: str, at: int) -> tuple[_Sequence, int]:
    """The dearest of the alternatives that begin here, and where they end: at a bracket or the last character."""
    whole, now = _Sequence(), _Sequence()
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            whole, now, at = _dearer(whole, now), _Sequence(), at + 1
            whole.varies = True
            continue
        at = _element(pattern, at, now)
    return _dearer(whole, now), at


def _dearer(one: _Sequence, other: _Sequence) -> _Sequence:
    return _Sequence(max(one.retried, other.retried), max(one.pending, other.pending), one.varies or other.varies)


def _element(pattern: str, at: int, into: _Sequence) -> int:
    """Add the element at this place with its quantifier; the place after it."""
    inner = _Sequence()
    if pattern[at] == "(":
        opening = _GROUP.match(pattern, at + 1)  # other constructs look like a quantifier of nothing
        if opening is not None and opening[0].endswith(")"):
            return opening.end()  # flags alone
        inner, end = _alternatives(pattern, at + 1 if opening is None else opening.end())
        end += 1  # past the bracket, or, without one, past the pattern
    else:
        end = _one_character(pattern, at)
    quantifier = _QUANTIFIER.match(pattern, end)
    least, most = _times(quantifier) if quantifier else (1, 1)
    end = quantifier.end() if quantifier else end
    if most > 1 and (inner.varies or inner.retried or inner.pending):
        inner.retried = NO_BOUND
    unbounded = most > UNBOUNDED
    into.varies |= inner.varies or least != most
    into.then(inner.retried, inner.pending + unbounded, can_fail=least > 0)
    return end


def _one_character(pattern: str, at: int) -> int:
    """The end of one character, escape or class."""
    if pattern[at] == "\\":
        if pattern[at + 1] in "123456789kg":
            raise ValueError("a back-reference or a recursion")
        braces = re.compile(r"\\[pPx]\{[^}]*\}").match(pattern, at)
        return braces.end() if braces else at + 2
    if pattern[at] in "*+?":
        raise ValueError("a quantifier of nothing, or of another one")
    if pattern[at] != "[":
        return at + 1
    at += 2 if pattern[at + 1] == "^" else 1
    at += pattern[at] == "]"
    while pattern[at] != "]":
        at = _one_character(pattern, at) if pattern[at] in "\\[" else at + 1
    return at + 1


def _times(quantifier: re.Match[str]) -> tuple[int, int]:
    if quantifier[0][0] != "{":
        return {"*": (0, NO_BOUND), "+": (1, NO_BOUND), "?": (0, 1)}[quantifier[0][0]]
    least, comma, most = quantifier.groups()
    low = int(least or 0)
    return low, int(most) if most else (NO_BOUND if comma else low)
