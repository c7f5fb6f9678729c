"""What shows and saves looks for ``heads``, which imports nothing above it: notebooks, pages, pictures and sound."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from headscope.app.export.html import save_html
from headscope.app.export.media_figure import drawn_media
from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks

__all__ = ["display", "drawn_media", "save_html"]


def display(look: Look | StepLooks) -> Any:
    """The MIME bundle for IPython: the microscope, and a picture and text where no kernel runs; None elsewhere."""
    if not _in_notebook():
        return None
    shown = look if isinstance(look, Look) else look[0]
    still = {"text/plain": _summary(shown), "image/svg+xml": (drawn_media(shown) or shown.plot()).svg()}
    if find_spec("anywidget") is None:
        return still | {"text/plain": f"{still['text/plain']}\nTo use it here: pip install anywidget"}
    from headscope.app.export.widget import Microscope

    live: Any = Microscope(look)._repr_mimebundle_()
    bundle, about = live if isinstance(live, tuple) else (live, {})
    return {**bundle, **still}, about


def _summary(look: Look) -> str:
    from rich.console import Console

    from headscope.app.terminal import summary

    written = io.StringIO()
    Console(file=written, width=100).print(summary(look))
    return written.getvalue().rstrip()


def _in_notebook() -> bool:
    """A kernel can show a widget; IPython in a terminal cannot."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
