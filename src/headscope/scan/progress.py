"""Show the progress of a scan: tokens (or bytes) processed, how many per second, time left.

Who listens to progress in this thread (the page) is told of tokens done and tokens in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headscope.attention.progress import listening, report_progress
from headscope.scan.measure import Advance

Total = int | None | Callable[[], int | None]
"""How much there is to do; None, or a function that returns None, as long as it is not known."""


@contextmanager
def progress_bar(title: str, total: Total, shown: bool | None, unit: str = "tokens") -> Iterator[Advance]:
    """Yield a function to call with the number of tokens just processed. ``shown=None``: in a terminal only."""
    if listening():
        yield _reporter(title.lower(), total)
        return
    if shown is False or (shown is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.completed:,.0f}{task.fields[of]} " + f"{unit},"),
        TextColumn("{task.fields[rate]:,.0f} " + f"{unit} per second"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        progress.add_task(title, total=_known(total), rate=0.0, of=_of(total))
        (task,) = progress.tasks

        def advance(tokens: int) -> None:
            rate = (task.completed + tokens) / (task.elapsed or 1e-6)
            progress.update(task.id, advance=tokens, rate=rate, total=_known(total), of=_of(total))

        yield advance


def _known(total: Total) -> int | None:
    return total() if callable(total) else total


def _of(total: Total) -> str:
    return "" if _known(total) is None else f" of {_known(total):,}"


def _reporter(task: str, total: Total) -> Advance:
    """Report the sum of what was processed; work whose end is not known is not reported."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if (known := _known(total)) is not None:
            report_progress(task, min(done, known), known)

    return advance
