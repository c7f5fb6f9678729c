"""Experts of a mixture, computed so that each one's share can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def experts_one_by_one(model: nn.Module) -> Iterator[None]:
    """Have experts computed one after the other, so that each has its own share."""
    configs: dict[int, Any] = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    before = [(config, config._experts_implementation_internal) for config in configs.values() if _has_experts(config)]
    for config, _ in before:
        config._experts_implementation_internal = "eager"
    try:
        yield
    finally:
        for config, own in before:
            config._experts_implementation_internal = own


def _has_experts(config: Any) -> bool:
    return getattr(config, "_experts_implementation_internal", None) is not None
