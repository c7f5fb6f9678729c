"""Keep the most recently used values, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(OrderedDict[K, V]):
    """A dict that drops its least recently used entry when it holds more than ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def __getitem__(self, key: K) -> V:
        self.move_to_end(key)
        return super().__getitem__(key)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.size:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        del self[next(iter(self))]

    def cached(self, key: K, compute: Callable[[], V]) -> V:
        """The entry of this key, computed if it is missing."""
        if key not in self:
            self[key] = compute()
        return self[key]
