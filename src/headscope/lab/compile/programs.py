"""Every rule that a head can be compiled to follow, and programs: a few rules together."""

from __future__ import annotations

from dataclasses import dataclass

from headscope.errors import InputError
from headscope.lab.compile.selectors import (
    Selector,
    class_of,
    decay,
    first_token,
    from_to,
    offset,
    same_token,
    same_two,
    start_after,
)

_OFFSETS = {"itself": 0, "previous token": 1, **{f"{steps} back": steps for steps in range(2, 9)}}
_CLASSES = (
    "punctuation", "sentence ends", "commas", "function words", "content words", "capitals", "digits", "word pieces",
)  # fmt: skip


def _all_selectors() -> dict[str, Selector]:
    found = [first_token(), *(offset(rule, steps) for rule, steps in _OFFSETS.items())]
    found += [decay(near) for near in (2.0, 4.0, 8.0, 16.0, 32.0)]
    for name in _CLASSES:
        found += [class_of(name), class_of(name, last=True), class_of(name, near=3.0), class_of(name, near=8.0)]
    found += [
        same_token("copies"), same_token("last copies", last=True),
        same_token("after a copy", note=0), same_token("last after a copy", note=0, last=True),
        same_token("two after a copy", note=1), same_two(),
        start_after("start of sentence", (".", "!", "\n")), start_after("start of line", ("\n",)),
        from_to("matching bracket", (")",), (" (",)),
    ]  # fmt: skip
    return {selector.rule: selector for selector in found}


SELECTORS = _all_selectors()
"""Every rule that a head can be compiled to follow, by the rule's name."""


@dataclass(frozen=True)
class Program:
    """What a model computes, and the rule of each head that it needs."""

    name: str
    rules: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = [rule for rule in self.rules if rule not in SELECTORS]
        if unknown:
            raise InputError(f"{', '.join(unknown)}: no head is compiled from this; there are {', '.join(SELECTORS)}")

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return tuple(SELECTORS[rule] for rule in self.rules)
