"""Texts and looks that the sessions of one server keep, bounded together by their bytes.

A text is kept once the model has read it, never when it was refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from headscope.app.lru import LRU
from headscope.app.pages.tiles import PatternTiles
from headscope.heads.look.look import Look

KEPT_LOOKS = 64
KEPT_PASSES = 8  # of the latest looks: the garbage collector goes through all their parts while everybody waits
KEPT_BYTES = 2 * 2**30  # of all looks of a server; the latest is kept whatever its size
TEXT_BYTES = 64 * 2**20  # of all texts, from which looks that were dropped are read again

_numbers = count(1)


@dataclass(frozen=True)
class Opened:
    """A kept look: its name and text, what was passed to the model, and how many tokens the text has, if known.

    ``sent``: it is of a picture or sound, which is not kept; once the look is dropped, its client sends it again.
    """

    name: str
    text: str
    source: Any
    look: Look
    length: int | None
    tiles: PatternTiles
    sent: bool = False

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds: q, k, z, the output of W_O, logits, tiles, and a recorded residual stream."""
        shape, sites = self.look.shape, self.look.shape.sites.values()
        per_token = sum(
            site.n_heads * site.d_head + site.n_kv_heads * site.d_head + 2 * site.n_heads * site.d_value
            for site in sites
        )
        numbers = len(self.look.tokens) * (per_token + len(sites) * shape.d_model + (shape.vocabulary or 0))
        recorded = 0 if self.look.kept_pass is None else self.look.kept_pass.nbytes
        return 4 * numbers + recorded + self.tiles.nbytes + sys.getsizeof(self.text)


class KeptLooks:
    """What all sessions of a server keep; safe to use from several threads.

    A look weighs at least so much of the bytes that there are at most ``KEPT_LOOKS``.
    """

    def __init__(self) -> None:
        self.looks: LRU[tuple[int, str], Opened] = LRU(
            KEPT_BYTES, weigh=lambda opened: max(opened.nbytes, KEPT_BYTES // KEPT_LOOKS)
        )
        self.texts: LRU[tuple[int, str], str] = LRU(TEXT_BYTES, weigh=sys.getsizeof)
        self._lock = threading.RLock()  # each model has a thread of its own

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. Nothing inside reports progress: a request that paused here would block others forever."""
        with self._lock:
            yield

    def part(self) -> _KeptPart:
        """The part of one more session."""
        return _KeptPart(self, next(_numbers))


@dataclass(frozen=True)
class _KeptPart:
    """What one session keeps, by name. Numbers of sessions are not used twice, as ids would be."""

    whole: KeptLooks
    number: int

    def look(self, name: str) -> Opened | None:
        with self.whole.locked():
            return self.whole.looks.find((self.number, name))

    def text(self, name: str) -> str | None:
        with self.whole.locked():
            return self.whole.texts.find((self.number, name))

    def keep(self, opened: Opened) -> Opened:
        with self.whole.locked():
            if not opened.sent:
                self.whole.texts[self.number, opened.name] = opened.text
            self.whole.looks[self.number, opened.name] = opened
        return opened

    def trim(self) -> None:
        """Drop the oldest looks of all sessions where tiles made them too large, and the oldest recorded passes."""
        with self.whole.locked():
            self.whole.looks.trim()
            for opened in self.whole.looks.entries()[:-KEPT_PASSES]:
                opened.look.forget_pass()

    def names(self) -> list[str]:
        """The looks that are kept, the latest used last."""
        with self.whole.locked():
            return [name for number, name in self.whole.looks if number == self.number]

    def move_to(self, whole: KeptLooks) -> _KeptPart:
        """Move the looks and texts into another server's store; return their part there."""
        part = whole.part()
        for name in self.names():
            part.keep(self.whole.looks[self.number, name])
        self.forget()
        return part

    def forget_looks(self) -> None:
        with self.whole.locked():
            for name in self.names():
                del self.whole.looks[self.number, name]

    def forget(self) -> None:
        """Drop everything; a session that is no longer used does not hold its model through its looks."""
        with self.whole.locked():
            self.forget_looks()
            for key in [key for key in self.whole.texts if key[0] == self.number]:
                del self.whole.texts[key]
