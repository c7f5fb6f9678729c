"""The command line. Each command imports what it needs when it runs, so that help is fast."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.names import printable

if TYPE_CHECKING:
    from headscope.cli.commands import app

__all__ = ["app", "main"]

INTERRUPTED = 130  # 128 and the number of the signal, as a shell counts


def main() -> None:
    """Run the command line; print headscope's errors as one line, without a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    _escape_messages_of_libraries()
    try:
        _run()
    except KeyboardInterrupt:  # while the commands are imported; later typer does the same
        sys.exit(INTERRUPTED)
    except HeadscopeError as error:
        _fail(str(error), *error.__notes__)
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try to flush it again at exit
        if isinstance(problem, BrokenPipeError):
            sys.exit(1)
        _fail(f"{problem.filename or 'standard output'}: {problem.strerror or problem}")


def _escape_messages_of_libraries() -> None:
    """Escape control characters in log records and warnings: libraries quote a stranger's files in them."""
    make_record, format_warning = logging.getLogRecordFactory(), warnings.formatwarning

    def record(*args: Any, **named: Any) -> logging.LogRecord:
        made = make_record(*args, **named)
        with suppress(Exception):  # arguments that do not fit: logging says so itself
            message = made.getMessage()
            if printable(message) != message:
                made.msg, made.args = printable(message), ()
        return made

    logging.setLogRecordFactory(record)
    warnings.formatwarning = lambda *args, **named: printable(format_warning(*args, **named))


def _run() -> None:
    from headscope.cli.commands import app

    package = Path(__file__).parent.parent  # a copy may lack the built page or the embedded model
    built = (package / "app/static/index.html").exists() and (package / "models/embedded/config.json").exists()
    try:
        app(sys.argv[1:] or ["serve" if built else "build"])
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _fail(message: str, *notes: str) -> None:
    print(printable("\n".join([f"error: {message}", *notes])), file=sys.stderr)
    sys.exit(1)


def __getattr__(name: str) -> Any:
    """Import ``app`` on first use: ``main`` starts before anything slow is imported."""
    if name != "app":
        raise AttributeError(f"headscope.cli has no attribute {name!r}")
    from headscope.cli.commands import app

    return app
