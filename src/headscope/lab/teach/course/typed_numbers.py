"""Read numbers as people type them: .3, 0,3, 30 %, 3/10, 1,200 heads."""

from __future__ import annotations

import re

_PLAIN = r"[-+]?(?:\d+(?:[.,]\d*)*|[.,]\d+)"
_TYPED = re.compile(rf"({_PLAIN})(?:\s*/\s*({_PLAIN}))?\s*(%?)\s*([^\W\d_]+(?:[ /][^\W\d_]+)*)?")
TOLERANCE = 0.005
"""Answers may be off by half a percent, near zero by half a hundredth."""


def readings(text: str) -> list[float]:
    """Every number that a typed text may mean; none where it is no number.

    A comma is a decimal sign in 0,3 and separates thousands in 1,200; where it could be either, both are meant.
    """
    found = _TYPED.fullmatch(text.replace("−", "-").replace("\u2009", " ").replace("\xa0", " ").strip().rstrip("."))
    if found is None:
        return []
    whole, below, percent, _ = found.groups()
    values = _decimals(whole)
    if below is not None:
        values = [value / divisor for value in values for divisor in _decimals(below) if divisor]
    return [value / 100 for value in values] if percent else values


def means(text: str, wanted: str) -> bool | None:
    """Whether a typed text means the same number as another; None where it is no number."""
    values = readings(text)
    if not values:
        return None
    if "%" in wanted and "%" not in text:
        values = [*values, *(value / 100 for value in values)]
    elif "%" in text and "%" not in wanted:
        values = [*values, *(value * 100 for value in values)]
    return any(
        abs(value - meant) <= TOLERANCE * max(1.0, abs(meant)) for value in values for meant in readings(wanted)[:1]
    )


def _decimals(text: str) -> list[float]:
    """The readings of digits with points and commas."""
    grouped = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?", text) is not None
    decimal = text.count(",") + text.count(".") == 1 or text.count(",") + text.count(".") == 0
    found = [float(text.replace(",", ""))] if grouped else []
    if decimal:
        found.append(float(text.replace(",", ".")))
    return found
