"""The command line. Each command is a short function; what it needs is imported when it runs."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError

if TYPE_CHECKING:
    from headscope.cli.commands import app

__all__ = ["app", "main"]

INTERRUPTED = 130  # 128 and the number of the signal, as a shell counts


def main() -> None:
    """Run the command line. What goes wrong is told in words, not as a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows question marks
    try:
        _run()
    except KeyboardInterrupt:  # while the commands were being loaded; later the app itself answers so
        sys.exit(INTERRUPTED)
    except HeadscopeError as error:
        _end(str(error), *error.__notes__)
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written is not tried again at the end
        if isinstance(problem, BrokenPipeError):
            sys.exit(1)
        _end(f"{problem.filename or 'what was to be printed'}: {problem.strerror or problem}")


def _run() -> None:
    from headscope.cli.commands import app, without_a_command

    try:
        app(sys.argv[1:] or without_a_command())
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _end(what: str, *notes: str) -> None:
    print("\n".join([f"error: {what}", *notes]), file=sys.stderr)
    sys.exit(1)


def __getattr__(name: str) -> Any:
    """``app``, loaded on first use, so that ``main`` can be called before anything slow is imported."""
    if name != "app":
        raise AttributeError(f"headscope.cli has no attribute {name!r}")
    from headscope.cli.commands import app

    return app
