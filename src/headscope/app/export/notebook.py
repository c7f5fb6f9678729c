"""Show a look as the microscope in a notebook, and as plain text anywhere else."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks


def display(look: Look | StepLooks) -> Any:
    """The MIME bundle for IPython; None outside a notebook, where it shows the look's repr."""
    if not _in_notebook():
        return None
    if find_spec("anywidget") is None:
        return {"text/plain": f"{look!r}\nTo see it here: pip install anywidget"}
    from headscope.app.export.widget import Microscope

    return Microscope(look)._repr_mimebundle_()


def _in_notebook() -> bool:
    """A kernel can show a widget; IPython in a terminal cannot."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
