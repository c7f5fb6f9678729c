"""Show a progress bar in a terminal for work that reports its progress, unless the caller listens itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headscope.attention.progress import listening, progress_callback


@contextmanager
def progress_bar(title: str, shown: bool | None = None) -> Iterator[None]:
    """A bar for the work inside the block. ``shown=None``: in a terminal only, and where no callback is set."""
    if shown is False or (shown is None and (not sys.stderr.isatty() or listening())):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=28), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        with progress_callback(show):
            yield
