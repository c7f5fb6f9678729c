"""Say a head's mixture in a sentence whose every number is a fitted one, and read the numbers back."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.heads.rules.report import Example, HeadRules, RulePart

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
    whole = f"{begin} on the first token ({decimals(head.first)}). Of the rest, {rest}{left} is not explained{ending}."
    shown = legible_example(head)
    if shown is None:
        return whole
    weight, by_rules = decimals(shown["weight"]), decimals(shown["by_rules"])
    query, key = shown["query"], shown["key"]
    return f"{whole} For example, “{query}” reads “{key}” with {weight}, by its rules with {by_rules}."


def example(head: HeadRules) -> Example | None:
    """The strongest example of what the rules leave out, where some of that depends on content."""
    return head.examples[0] if head.examples and on_content(head) >= SAID else None


def legible_example(head: HeadRules) -> dict[str, Any] | None:
    """The example that the sentence names, with its tokens as they stand there."""
    shown = example(head)
    if shown is None:
        return None
    tokens = {"query": legible(shown.query), "key": legible(shown.key)}
    return {**tokens, "weight": shown.weight, "by_rules": shown.by_rules}


def legible(token: str) -> str:
    """A token without the space before it; a line break as a sign, no quotation marks that a sentence uses.

    >>> legible(" river"), legible("\\n"), legible(" ")
    ('river', '⏎', '␣')
    """
    shown = token.replace("\n", "⏎").strip() or "␣"
    return re.sub("[“”„]", '"', shown)


def on_content(head: HeadRules) -> float:
    """What short context explains of the rest beyond the rules."""
    return max(0.0, round(head.in_context.rest.value - head.rest.value, 4))


def said(head: HeadRules) -> list[RulePart]:
    """The rules that the sentence names, in its order."""
    parts = [part for part in head.rules if part.name != "first token" and part.part >= SAID]
    return sorted(parts, key=lambda part: -part.part)


def decimals(value: float) -> str:
    """Two decimals without the zero before them: ``.44``. Ties go up, as on the page.

    >>> decimals(0.437), decimals(1.0), decimals(-0.02), decimals(0.125)
    ('.44', '1.00', '−.02', '.13')
    """
    written = str(Decimal(abs(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))
    return ("−" if round(value, 2) < 0 else "") + (written[1:] if written.startswith("0") else written)


def numbers(written: str) -> list[float]:
    """The decimals of a sentence in order; percentages as shares. Tokens in quotation marks and distances are none."""
    found = re.findall(r"(\d*\.\d\d|\d+(?= %))", re.sub(r"“[^”]*”|\(within about [^)]*\)", "", written))
    return [float(each) if "." in each else int(each) / 100 for each in found]


def _clause(part: RulePart) -> str:
    where = "" if part.applies >= 0.995 else f", where there is one (at {int(part.applies * 100 + 0.5)} % of places)"
    return f"{decimals(part.part)} goes to {part.phrase}{where}"
