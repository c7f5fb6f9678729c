"""Compiled graphs and PyTorch's fused encoder layers cannot be observed: modules run without them while open."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from headscope.errors import ModelError

_lock = threading.Lock()
_running = 0
_stance: Any = None

COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
"""Modules without which nothing is compiled; importing them takes seconds."""


def refuse_script(model: nn.Module) -> None:
    """Refuse a module that is TorchScript, or has such a part."""
    scripted = next((path for path, part in model.named_modules() if isinstance(part, torch.jit.ScriptModule)), None)
    if scripted is not None:
        where = f"its part {scripted}" if scripted else type(model).__name__
        raise ModelError(
            f"{where} is TorchScript, whose operations PyTorch does not show; give the Python module it was made from"
        )


def refuse_empty(model: nn.Module) -> None:
    """Refuse a module without numbers: its weights are on the meta device, and nothing moves them in as it runs."""
    empty = [name for name, weight in model.named_parameters() if weight.is_meta]
    if empty and not any(hasattr(part, "_hf_hook") for part in model.modules()):
        raise ModelError(
            f"{type(model).__name__} has no numbers yet: {empty[0]} is on the meta device; load its weights"
        )


class Uncompiled:
    """Takes compiled calls out of a module's parts, until ``restore``."""

    def __init__(self, model: nn.Module) -> None:
        compiled = [part for part in model.modules() if getattr(part, "_compiled_call_impl", None) is not None]
        self._calls = [(part, part._compiled_call_impl) for part in compiled]
        for part in compiled:
            part._compiled_call_impl = None

    def restore(self) -> None:
        """Put the compiled calls back."""
        for part, call in self._calls:
            part._compiled_call_impl = call
        self._calls = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Compile nothing inside the block. PyTorch has one switch per process: the last pass switches it back."""
        global _running, _stance
        with _lock:
            _running += 1
            if _stance is None and any(name in sys.modules for name in COMPILERS):
                _stance = torch.compiler.set_stance("force_eager")
        try:
            yield
        finally:
            with _lock:
                _running -= 1
                if _running == 0 and _stance is not None:
                    _stance.__exit__(None, None, None)
                    _stance = None


@contextmanager
def without_fast_path(model: nn.Module) -> Iterator[None]:
    """Inside, encoder layers of ``torch.nn`` are not fused. Fused, they set padded rows to zero; no row reads those."""
    fused = any(isinstance(part, nn.TransformerEncoder | nn.MultiheadAttention) for part in model.modules())
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        if fused:
            torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        if fused:
            torch.backends.mha.set_fastpath_enabled(before)
