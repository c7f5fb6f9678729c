"""Errors as sentences: what a client is told when something is wrong. No stack trace, and no path of this machine."""

from __future__ import annotations

import re
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from headscope.errors import HeadscopeError

_PATH = re.compile(
    r"""(?<![\w.:/\\…-])              # at the start of a word: and/or, org/model and http://… are no paths
        (?:[A-Za-z]:[\\/]|~?/|\\\\)   # C:\\  /  ~/  \\\\server
        (?:[^\\/\n'",;:()]*[\\/])*    # folders, whose names may hold spaces
        (?P<name>[^\\/\s'",;:()]*)    # what it is called""",
    re.VERBOSE,
)


def say_problems(app: FastAPI) -> None:
    """Tell the application how to answer when something is wrong."""
    app.add_exception_handler(HeadscopeError, _say)
    app.add_exception_handler(RequestValidationError, _say_validation)
    app.add_exception_handler(HTTPException, _say_status)


def without_paths(message: str) -> str:
    """The sentence with each file or folder called by its last name only."""
    return _PATH.sub(lambda found: f"…/{found['name']}", message)


def problem(kind: str, message: str, status: int) -> Response:
    # replaced: a sentence may quote half of a surrogate pair, which UTF-8 cannot carry
    sentence = without_paths(message).encode("utf-8", "replace").decode()
    return JSONResponse({"kind": kind, "message": sentence}, status_code=status)


def _say(request: Request, error: Exception) -> Response:
    return problem(type(error).__name__, str(error), HTTPStatus.UNPROCESSABLE_ENTITY)


def _say_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{where}: {first['msg']}" if where else f"the request: {first['msg']}"
    return problem("InputError", message, HTTPStatus.UNPROCESSABLE_ENTITY)


def _say_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = problem("Refused", str(error.detail), error.status_code)
    answer.headers.update(error.headers or {})
    return answer
