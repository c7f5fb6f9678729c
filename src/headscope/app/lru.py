"""Keep the most recently used values, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(OrderedDict[K, V]):
    """A dict that drops its least recently used entries when they weigh more than ``size``; the newest one stays.

    An entry weighs 1, or what ``weigh`` says: its bytes, say, which may change.
    """

    def __init__(self, size: int, weigh: Callable[[V], int] | None = None) -> None:
        super().__init__()
        self.size, self.weigh = size, weigh

    def __getitem__(self, key: K) -> V:
        self.move_to_end(key)
        return super().__getitem__(key)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        self.trim()

    def find(self, key: K) -> V | None:
        """The entry of this key, which is now the most recently used one; None if it is missing."""
        return self[key] if key in self else None  # noqa: SIM401 - get does not count as use

    def trim(self) -> None:
        """Drop what is too much. Needed after entries have grown."""
        while len(self) > 1 and self.weight > self.size:
            self.drop_oldest()

    @property
    def weight(self) -> int:
        return len(self) if self.weigh is None else sum(map(self.weigh, self.entries()))

    def entries(self) -> list[V]:
        """Every value, the least recently used first; unlike ``values``, this does not count as use."""
        return [super(LRU, self).__getitem__(key) for key in list(self)]

    def drop_oldest(self) -> None:
        del self[next(iter(self))]

    def cached(self, key: K, compute: Callable[[], V]) -> V:
        """The entry of this key, computed if it is missing."""
        if key in self:
            return self[key]
        self[key] = value = compute()
        return value
