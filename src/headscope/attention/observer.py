"""Who is watching. Both seams, our own module and transformers', hand every attention call to ``attend`` here.

With nobody watching it is one SDPA call. An observer is a function that is given the call and answers with z; it may
look, and it may change what happens. It lives in a context variable, so two threads never see each other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.backends import sdpa
from headscope.attention.scores import Scores


@dataclass(frozen=True)
class Call:
    """One attention computation of one site. ``site`` is the module that asked, by identity."""

    site: torch.nn.Module
    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    v: Float[Tensor, "batch kv key d_value"]
    scores: Scores
    dropout: float = 0.0


Observer = Callable[[Call], Tensor]

_current: ContextVar[Observer | None] = ContextVar("headscope_observer", default=None)


def current() -> Observer | None:
    """The observer of this thread and context, if there is one."""
    return _current.get()


@contextmanager
def watching(observer: Observer | None) -> Iterator[None]:
    """Let this observer see every attention call made inside the block (``None``: nobody)."""
    token = _current.set(observer)
    try:
        yield
    finally:
        _current.reset(token)


def watched() -> bool:
    """Whether anybody is watching. A compiled graph cannot ask: its model is observed in its uncompiled form."""
    return not torch.compiler.is_dynamo_compiling() and _current.get() is not None


def attend(call: Call) -> Float[Tensor, "batch head query d_value"]:
    """z for this call, from the observer if there is one."""
    observer = _current.get() if watched() else None
    return plain(call) if observer is None else observer(call)


def plain(call: Call) -> Float[Tensor, "batch head query d_value"]:
    """z, unobserved, as fast as PyTorch can."""
    return sdpa.attention(call.q, call.k, call.v, call.scores, call.dropout)
