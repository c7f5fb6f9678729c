"""headscope: a microscope for attention heads.

Importing this loads nothing heavy: each public name is imported from its module on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.app.show import show as show
    from headscope.attention.module import MultiHeadAttention as MultiHeadAttention
    from headscope.attention.progress import progress as progress
    from headscope.attention.questions import Question as Question
    from headscope.heads.edits.ablate import ablate as ablate
    from headscope.heads.edits.ablate import force as force
    from headscope.heads.edits.ablate import scale as scale
    from headscope.heads.edits.hidden_keys import hide as hide
    from headscope.heads.edits.hidden_keys import knock_out as knock_out
    from headscope.heads.edits.patch import patch as patch
    from headscope.heads.edits.patch import steer as steer
    from headscope.heads.edits.path import path as path
    from headscope.heads.film import TrainingRecorder as TrainingRecorder
    from headscope.heads.look.sampling import Sampling as Sampling
    from headscope.heads.questions.label_rules import LabelRule as LabelRule
    from headscope.heads.questions.label_rules import token_class as token_class
    from headscope.heads.roles.run import RoleOptions as RoleOptions
    from headscope.models.any_torch.steps import StepOptions as StepOptions
    from headscope.names import Head as Head
    from headscope.scan.options import ScanOptions as ScanOptions
    from headscope.scope import compare as compare
    from headscope.scope import load as load
    from headscope.scope import open_look as open_look
    from headscope.scope import random_heads as random_heads

__version__ = "0.1.0"

_HOMES = {
    "Head": "headscope.names",
    "LabelRule": "headscope.heads.questions.label_rules",
    "MultiHeadAttention": "headscope.attention.module",
    "Question": "headscope.attention.questions",
    "RoleOptions": "headscope.heads.roles.run",
    "Sampling": "headscope.heads.look.sampling",
    "ScanOptions": "headscope.scan.options",
    "StepOptions": "headscope.models.any_torch.steps",
    "TrainingRecorder": "headscope.heads.film",
    "ablate": "headscope.heads.edits.ablate",
    "compare": "headscope.scope",
    "force": "headscope.heads.edits.ablate",
    "hide": "headscope.heads.edits.hidden_keys",
    "knock_out": "headscope.heads.edits.hidden_keys",
    "load": "headscope.scope",
    "open_look": "headscope.scope",
    "patch": "headscope.heads.edits.patch",
    "path": "headscope.heads.edits.path",
    "progress": "headscope.attention.progress",
    "random_heads": "headscope.scope",
    "scale": "headscope.heads.edits.ablate",
    "steer": "headscope.heads.edits.patch",
    "show": "headscope.app.show",
    "token_class": "headscope.heads.questions.label_rules",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headscope' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    if name in ("load", "open_look"):
        _connect_app()
    return getattr(import_module(home), name)


def _connect_app() -> None:
    """Let looks be shown and saved through the app, which heads may not import; it is loaded on first use."""
    from headscope.heads.look.look import Look

    def app() -> Any:
        """Import what shows and saves looks."""
        return import_module("headscope.app.export.notebook")

    Look.app = app


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
