"""Observe or change every attention computation of a model while it runs.

One layer of an observed forward pass goes back and forth like this:

1. The attention module, ours or one of transformers', has q, k and v. It passes them to ``attend`` as a ``Call``.
2. ``attend`` looks for an observer, set by ``with observing(observer):``. Without one, z comes from PyTorch's SDPA.
3. With one, it calls ``observer(call)``. The observer may store q and k (the activation cache), or measure the heads
   with ``engine.observe``, which runs the fastest backend that can: ``fused``, ``blockwise`` or ``dense``.
4. The observer returns z: ``plain(call)`` or ``observation.output`` to leave the model as it is, or another tensor of
   that shape to edit it. An ablation changes z; a knock-out computes it from changed scores.
5. The module multiplies z by W_O, and the model goes on with what the observer returned.

The observer is a ``ContextVar``, so threads and asyncio tasks do not see each other's.
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
    """The inputs of one attention computation. ``site`` is the attention module, known by its identity.

    ``first_query`` and ``first_key`` are positions in the text: above 0 in a step of generation with a KV cache.
    """

    site: torch.nn.Module
    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    v: Float[Tensor, "batch kv key d_value"]
    scores: Scores
    dropout: float = 0.0
    first_query: int = 0
    first_key: int = 0


Observer = Callable[[Call], Tensor]

_current: ContextVar[Observer | None] = ContextVar("headscope_observer", default=None)


def current() -> Observer | None:
    """Return this context's observer, if any. Compiled graphs have none: a model is observed in its uncompiled form."""
    return None if torch.compiler.is_dynamo_compiling() else _current.get()


@contextmanager
def observing(observer: Observer | None) -> Iterator[None]:
    """Pass every attention call made inside the block to this observer; ``None`` switches observing off."""
    token = _current.set(observer)
    try:
        yield
    finally:
        _current.reset(token)


def attend(call: Call) -> Float[Tensor, "batch head query d_value"]:
    """Compute z for this call, by the observer if there is one."""
    observer = current()
    return plain(call) if observer is None else observer(call)


def plain(call: Call) -> Float[Tensor, "batch head query d_value"]:
    """Compute z without observing, as fast as PyTorch can."""
    return sdpa.attention(call.q, call.k, call.v, call.scores, call.dropout)
