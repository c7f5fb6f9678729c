"""Turn exceptions into JSON error responses, without stack traces and without paths of the server's machine."""

from __future__ import annotations

import re
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from headscope.errors import HeadscopeError
from headscope.names import printable

_PATH = re.compile(
    r"""(?<![\w.:/\\…-])              # at the start of a word: and/or, org/model and http://… are no paths
        (?:[A-Za-z]:[\\/]|~?/|\\\\)   # C:\\  /  ~/  \\\\server
        (?:[^\\/\n'",;:()]*[\\/])*    # folders, whose names may hold spaces
        (?P<name>[^\\/\s'",;:()]*)    # its last part""",
    re.VERBOSE,
)


def add_error_handlers(app: FastAPI) -> None:
    """Answer headscope's errors, invalid requests and HTTP errors with a ``Problem``."""
    app.add_exception_handler(HeadscopeError, _headscope_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)


def without_paths(message: str) -> str:
    """The message with every path cut down to its last part."""
    return _PATH.sub(lambda found: f"…/{found['name']}", message)


def problem_response(kind: str, message: str, status: int) -> Response:
    # replaced: a message may quote half of a surrogate pair, which UTF-8 cannot encode
    text = printable(without_paths(message)).encode("utf-8", "replace").decode()
    return JSONResponse({"kind": kind, "message": text}, status_code=status)


def _headscope_error(request: Request, error: Exception) -> Response:
    return problem_response(type(error).__name__, str(error), HTTPStatus.UNPROCESSABLE_ENTITY)


def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{where}: {first['msg']}" if where else f"the request: {first['msg']}"
    return problem_response("InputError", message, HTTPStatus.UNPROCESSABLE_ENTITY)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = problem_response("Refused", str(error.detail), error.status_code)
    response.headers.update(error.headers or {})
    return response
