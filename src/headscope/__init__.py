"""headscope: a microscope for attention heads.

Importing this loads nothing heavy: each public name is fetched from its room on first use.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.attention.module import MultiHeadAttention
    from headscope.attention.questions import Question
    from headscope.heads.film import TrainingRecorder
    from headscope.heads.look.edits import ablate, force, knock_out, patch, scale
    from headscope.names import Head
    from headscope.scope import load, open_look

__version__ = "0.1.0"

_HOMES = {
    "Head": "headscope.names",
    "MultiHeadAttention": "headscope.attention.module",
    "Question": "headscope.attention.questions",
    "TrainingRecorder": "headscope.heads.film",
    "ablate": "headscope.heads.look.edits",
    "force": "headscope.heads.look.edits",
    "knock_out": "headscope.heads.look.edits",
    "load": "headscope.scope",
    "open_look": "headscope.scope",
    "patch": "headscope.heads.look.edits",
    "scale": "headscope.heads.look.edits",
}

__all__ = [
    "Head",
    "MultiHeadAttention",
    "Question",
    "TrainingRecorder",
    "__version__",
    "ablate",
    "force",
    "knock_out",
    "load",
    "open_look",
    "patch",
    "scale",
]


def __getattr__(name: str) -> Any:
    if name == "cut":
        warnings.warn(
            "cut is called knock_out now; the old name goes in the next version", DeprecationWarning, stacklevel=2
        )
        name = "knock_out"
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headscope' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    if name == "load":
        _let_looks_show_themselves()
    return getattr(import_module(home), name)


def _let_looks_show_themselves() -> None:
    """Give Look its display: the app, which heads may not import, and which is loaded when a look is first shown."""
    from headscope.heads.look.look import Look

    def display(look: Look) -> Any:
        """What a notebook is told to show."""
        return import_module("headscope.app.export.notebook").display(look)

    Look.display = display


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
