"""The command line. Each command imports what it needs when it runs, so that help is fast."""

from __future__ import annotations

import io
import json
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

SCHEMA_VERSION = 1  # of what --json prints
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
        _fail(type(error).__name__, str(error), error.__notes__[0].removeprefix("more: "))
    except OSError as problem:
        if problem.filename is not None:
            _fail("OSError", f"{problem.filename}: {problem.strerror or problem}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try to flush it again at exit
        if not isinstance(problem, BrokenPipeError):
            print(f"error: standard output: {problem.strerror or problem}", file=sys.stderr)
        sys.exit(1)


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
    from typer import Abort, BadParameter

    from headscope.cli.commands import app

    usage_error: Any = BadParameter.__base__  # click's, of which newer typers bring a copy
    package = Path(__file__).parent.parent  # a copy may lack the built page or the embedded model
    built = (package / "app/static/index.html").exists() and (package / "models/embedded/config.json").exists()
    try:
        words = sys.argv[1:] or (["serve"] if built else ["learn", "build"])
        status = app(words, prog_name="headscope", standalone_mode=not _as_json())
        sys.exit(status or 0)
    except usage_error as error:  # raised here with --json only
        _fail("UsageError", error.format_message(), f"{error.ctx.command_path if error.ctx else 'headscope'} --help", 2)
    except Abort:
        sys.exit(1)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _as_json() -> bool:
    return "--json" in sys.argv or "--brief" in sys.argv


def _fail(kind: str, message: str, more: str = "", status: int = 1) -> None:
    """End with an error: its message and the command that says more; with --json, as JSON on standard output."""
    if _as_json():
        error = {"kind": kind, "message": message, "try": more or "headscope doctor"}
        print(json.dumps({"schema_version": SCHEMA_VERSION, "error": error}, indent=2))
    else:
        print(printable("\n".join([f"error: {message}", *([f"more: {more}"] if more else [])])), file=sys.stderr)
    sys.exit(status)


def __getattr__(name: str) -> Any:
    """Import ``app`` on first use: ``main`` starts before anything slow is imported."""
    if name != "app":
        raise AttributeError(f"headscope.cli has no attribute {name!r}")
    from headscope.cli.commands import app

    return app
