"""Count the bytes of tensors that are alive at once, at every operation."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return result

    def _hold(self, storage: torch.UntypedStorage) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        if not size or address in self.known:
            return
        self.known.add(address)
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._release, address, size)

    def _release(self, address: int, size: int) -> None:
        self.known.discard(address)
        self.held -= size


def peak_tensor_bytes(work: Callable[[], object]) -> int:
    """The most bytes that tensors made by this work held at once."""
    with _Counting() as counting:
        kept = work()
    del kept
    return counting.peak


def storages_kept(work: Callable[[], object]) -> int:
    """How many allocations made by this work are alive while its result is."""
    with _Counting() as counting:
        kept = work()
        count = len(counting.known)
    del kept
    return count
