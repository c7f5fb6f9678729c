"""Say a head's mixture in a sentence whose every number is a fitted one, and read the numbers back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headscope.heads.rules.report import HeadRules, RulePart

RESTS = 0.15
"""From this mass on, a head is said to rest on the first token."""
CONTENT = "on what each token has read, layer by layer, from the one before it"
SAID = 0.01
"""Rules that explain less of the rest are not in the sentence."""


def sentence(head: HeadRules) -> str:
    """The first token first, then the rest by rule, largest part first; what is not explained comes last."""
    begin = "Rests" if head.first >= RESTS else "Hardly rests"
    clauses = [_clause(part) for part in said(head)]
    rest = ", ".join(clauses) + "; " if clauses else ""
    left = decimals(1 - head.rest.value)
    content = on_content(head)
    ending = f", of which {decimals(content)} depends on content: {CONTENT}" if content >= SAID else ""
    return f"{begin} on the first token ({decimals(head.first)}). Of the rest, {rest}{left} is not explained{ending}."


def on_content(head: HeadRules) -> float:
    """What short context explains of the rest beyond the rules."""
    return max(0.0, head.in_context.rest.value - head.rest.value)


def said(head: HeadRules) -> list[RulePart]:
    """The rules that the sentence names, in its order."""
    parts = [part for part in head.rules if part.name != "first token" and part.part >= SAID]
    return sorted(parts, key=lambda part: -part.part)


def decimals(value: float) -> str:
    """Two decimals without the zero before them: ``.44``.

    >>> decimals(0.437), decimals(1.0), decimals(-0.02)
    ('.44', '1.00', '−.02')
    """
    written = f"{abs(value):.2f}"
    return ("−" if round(value, 2) < 0 else "") + (written[1:] if written.startswith("0") else written)


def numbers(written: str) -> list[float]:
    """The decimals of a sentence in order; percentages as shares."""
    found = re.findall(r"(\d*\.\d\d|\d+(?= %))", written)
    return [float(each) if "." in each else int(each) / 100 for each in found]


def _clause(part: RulePart) -> str:
    where = "" if part.applies >= 0.995 else f", where there is one (at {round(part.applies * 100)} % of places)"
    return f"{decimals(part.part)} goes to {part.phrase}{where}"
