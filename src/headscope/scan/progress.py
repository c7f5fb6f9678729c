"""A line that says how far a scan is: tokens read, tokens a second, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headscope.scan.measure import Tick


@contextmanager
def bar(title: str, total: int | None, shown: bool | None) -> Iterator[Tick]:
    """Tell the result how many tokens were just done. ``shown=None`` shows the bar in a terminal only."""
    if shown is False or (shown is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, said="")
        began, done = time.monotonic(), 0

        def tick(tokens: int) -> None:
            nonlocal done
            done += tokens
            rate = done / max(time.monotonic() - began, 1e-6)
            of = "" if total is None else f" of {total:,}"
            progress.update(task, completed=done, said=f"{done:,}{of} tokens, {rate:,.0f} a second")

        yield tick
