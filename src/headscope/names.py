"""How headscope names things: a site is one attention module of a model, a head is one head of a site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headscope.checked import named
from headscope.errors import HeadNameError

AttentionKind = Literal["self", "cross", "merged"]


@named
@dataclass(frozen=True, order=True)
class Head:
    """One head: ``Head("5", 1)`` is written ``5.1``, ``Head("decoder.5.cross", 1)`` is ``decoder.5.cross.1``.

    >>> Head.parse("decoder.5.cross.1")
    Head('decoder.5.cross', 1)
    """

    site: str
    head: int

    def __post_init__(self) -> None:
        if not isinstance(self.site, str) or not isinstance(self.head, int):
            raise HeadNameError(
                f'Head({self.site!r}, {self.head!r}): give a text and a whole number, as in Head("5", 1)'
            )

    @classmethod
    def parse(cls, name: HeadName | int) -> Head:
        """Read a head's name: ``"5.1"``, ``(5, 1)``, or a Head."""
        if isinstance(name, Head):
            return name
        written = ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
        site, dot, head = written.strip().rpartition(".")
        if not dot or not site or not re.fullmatch("[0-9]{1,9}", head):
            raise HeadNameError(
                f"{name!r} is not a head name; write LAYER.HEAD, such as 5.1 for layer 5, head 1, or "
                'decoder.5.cross.1; in Python "5.1" or (5, 1)'
            )
        return cls(site, int(head))

    def __str__(self) -> str:
        return f"{self.site}.{self.head}"

    def __repr__(self) -> str:
        return f"Head({self.site!r}, {self.head})"


HeadName = str | tuple[str | int, int] | Head
"""How a head may be named: ``"5.1"``, ``(5, 1)`` or ``Head("5", 1)``."""


SiteName = str | int
"""How a site may be named: ``"5"``, ``5`` or ``"decoder.5.cross"``."""


@dataclass(frozen=True)
class Site:
    """One attention module: its name, its size, and what kind of attention it does."""

    name: str
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    kind: AttentionKind = "self"
    causal: bool = True
    window: int | None = None
    grid: tuple[int, int] | None = None
    """Rows and columns of the patches that its positions are, after class and register tokens."""

    @property
    def group_size(self) -> int:
        """How many query heads share one key/value head."""
        return self.n_heads // self.n_kv_heads

    def heads(self) -> list[Head]:
        return [Head(self.name, index) for index in range(self.n_heads)]

    def group(self, head: int) -> list[Head]:
        """All heads that share a head's keys and values."""
        first = head // self.group_size * self.group_size
        return self.heads()[first : first + self.group_size]


@dataclass(frozen=True)
class ModelShape:
    """What a model's attention looks like from outside: every site in order, and the widths around them."""

    name: str
    d_model: int
    vocabulary: int | None
    context: int | None
    """The most tokens it can read."""
    sites: Mapping[str, Site] = field(default_factory=dict)
    trained: int | None = None
    """The longest text it was trained on, where its config says so and it can read more."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The names of sites by the paths of their modules, which may be written too."""

    @property
    def n_heads(self) -> int:
        """All heads of the model together."""
        return sum(site.n_heads for site in self.sites.values())

    def heads(self) -> list[Head]:
        return [head for site in self.sites.values() for head in site.heads()]

    def find(self, name: HeadName | int) -> Head:
        """The head of that name, or an error that says which there are."""
        head = Head.parse(name)
        head = Head(self.paths.get(head.site, head.site), head.head)
        site = self.sites.get(head.site)
        if site is None:
            raise HeadNameError(f"{head}: this model has {self._span()}")
        if head.head >= site.n_heads:
            raise HeadNameError(f"{head}: site {site.name} has heads 0–{site.n_heads - 1}")
        return head

    def find_site(self, name: SiteName) -> str:
        """The site of that name, or an error that says which there are."""
        if str(name) not in self.sites:
            raise HeadNameError(f"there is no site {name}: this model has {self._span()}")
        return str(name)

    def _span(self) -> str:
        names = list(self.sites)
        if all(name.isdigit() for name in names) and names:
            return f"layers {names[0]}–{names[-1]}"
        return "the sites " + ", ".join(names)


def printable(text: str) -> str:
    """The text with terminal control and bidirectional characters replaced by visible ones."""
    return text.translate(_PICTURES)


def quoted(token: str) -> str:
    """Return a token for a sentence: in quotes, without the space before it, its line ends shown."""
    text = re.sub("^[ ▁Ġ]", "", token).replace("\r\n", "\n").replace("\n", "↵").replace("\t", "⇥")
    return f"“{printable(text if text.strip() else text.replace(' ', '␣') or '␣')}”"


def writable(name: str) -> str:
    """A file's name as it can be written to a file: bytes that are not UTF-8 as ``\\xff``."""
    return os.fsencode(name).decode(errors="backslashreplace")


_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= dict.fromkeys(
    (*range(0x7F, 0xA0), *range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�"
)
