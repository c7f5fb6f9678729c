"""The token sequences of a look: its text, what the decoder has written, and those of sites that read neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headscope.heads.look.look import Look
from headscope.models.protocol import Token
from headscope.names import Site

Stream = Literal["text", "written"]
Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class _TokenStreams:
    """Token sequences by name; ``sides`` names those of queries and keys for sites that have not the usual ones."""

    tokens: Mapping[str, Tokens]
    sides: dict[str, tuple[str, str]]

    @property
    def other(self) -> dict[str, Tokens]:
        """Those beside the text and what is written."""
        return {name: tokens for name, tokens in self.tokens.items() if name not in ("text", "written")}


def usual_sides(site: Site) -> tuple[Stream, Stream]:
    """Which of the model's two texts the queries and keys of a site come from, on most inputs."""
    queries: Stream = "written" if site.name.startswith("decoder") else "text"
    return queries, "text" if site.kind == "cross" else queries


def token_streams(look: Look) -> _TokenStreams:
    """Every token sequence that some site of this look reads."""
    tokens: dict[str, Tokens] = {"text": look.tokens, "written": look.written}
    sides: dict[str, tuple[str, str]] = {}
    for name in look.sites:
        usual = usual_sides(look.shape.sites[name])
        both = (look.query_tokens(name), look.key_tokens(name))
        if all(each is tokens[side] or each == tokens[side] for each, side in zip(both, usual, strict=True)):
            continue
        stack = name.partition(".")[0]
        sides[name] = (_named(tokens, both[0], stack), _named(tokens, both[1], stack))
    return _TokenStreams(tokens, sides)


def _named(tokens: dict[str, Tokens], wanted: Tokens, stack: str) -> str:
    """The name of a token sequence; a new one gets the name of its stack, with a number if that is taken."""
    known = next((name for name, each in tokens.items() if each == wanted), None)
    if known is not None:
        return known
    stack = f"positions {stack}" if stack.isdigit() or stack in ("text", "written") else stack
    name = stack if stack not in tokens else f"{stack} {len(tokens)}"
    tokens[name] = wanted
    return name
