"""Run what may not end, or may take all memory, in a process of its own: a stranger's patterns and chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headscope.errors import InputError
from headscope.models.inputs.bounded_encoding import MOST_CHARACTERS, GrowthLimit, parts_of
from headscope.models.inputs.child_pool import CHILDREN
from headscope.models.inputs.pattern_cost import backtracking_exponent

MOST_STEPS = 2**30
"""Steps that a tokenizer's patterns may take here; where their form allows more, they are tried in a child first."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a child may use: processor time and memory; and how long it is waited for, however busy the machine is."""

    seconds: int = 20
    megabytes: int = 1024
    wait: float = 180.0


class Isolation:
    """Tries a tokenizer's slow patterns in a child before they run here, and renders its chat template there."""

    def __init__(self, tokenizer: Any, growth: GrowthLimit, limits: Limits | None = None) -> None:
        self.tokenizer, self.limits = tokenizer, limits or Limits()
        self._growth = growth
        self._reading = _exponent(tokenizer, "normalizer", "pre_tokenizer")
        self._writing = _exponent(tokenizer, "decoder")

    def try_text(self, text: str, what: str) -> None:
        """Refuse a text on which the tokenizer's patterns take too long; most are ordinary and are not tried."""
        if self._reading and _steps(self._growth.normalized(len(text)), self._reading) > MOST_STEPS:
            self._run(what, {"task": "encode", "tokenizer": self.tokenizer.backend_tokenizer.to_str(), "text": text})

    def try_ids(self, ids: Sequence[int], what: str) -> None:
        """The same for the decoder's patterns, and where it may write too much."""
        if self._writing or self._writes_much(ids):
            whole = self.tokenizer.backend_tokenizer.to_str()
            self._run(what, {"task": "decode", "tokenizer": whole, "ids": list(ids)})

    def _writes_much(self, ids: Sequence[int]) -> bool:
        if not self._growth.decoding:
            return False
        stored = self.tokenizer.convert_ids_to_tokens(list(ids))
        return self._growth.decoded(token or "" for token in stored) > MOST_CHARACTERS

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """A conversation as text. A chat template is a program: it runs in a child, in transformers' own sandbox."""
        options = {**self.tokenizer.special_tokens_map, "add_generation_prompt": True}
        asked = {
            "task": "render", "template": self.tokenizer.get_chat_template(), "messages": list(messages),
            "options": options, "most": MOST_CHARACTERS,
        }  # fmt: skip
        return str(self._run("the conversation", asked, "chat template"))

    def _run(self, what: str, asked: dict[str, Any], part: str = "tokenizer") -> Any:
        limits = self.limits
        try:
            request = json.dumps({**asked, "seconds": limits.seconds, "megabytes": limits.megabytes}).encode()
        except TypeError as error:
            raise InputError(f"{what} holds what is no text: {error}; roles and contents are strings") from None
        answer = CHILDREN.ask(request, limits.wait)
        if "done" in answer:
            return answer["done"]
        way_out = "use another tokenizer, or give ids" if part == "tokenizer" else "give text instead of messages"
        if "failed" in answer:
            raise InputError(
                f"this model's {part} gives up on {what} ({answer['failed']}); its rules are broken: {way_out}"
            )
        raise InputError(
            f"this model's {part} was stopped on {what}: it takes more than {limits.seconds} seconds or "
            f"{limits.megabytes:,} MB; its rules are broken: {way_out}"
        )


def _exponent(tokenizer: Any, *parts: str) -> int:
    """The greatest exponent of the regular expressions in these parts of a fast tokenizer; 0 without any."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    patterns = (
        step["pattern"]["Regex"]
        for part in parts
        for step in parts_of(getattr(backend, part, None))
        if isinstance(step.get("pattern"), dict) and "Regex" in step["pattern"]
    )
    return max((backtracking_exponent(pattern) for pattern in patterns), default=0)


def _steps(length: int, exponent: int) -> int:
    """At most how many steps a search from every place of a text takes."""
    return length ** (1 + exponent) if exponent < 8 else MOST_STEPS + 1
