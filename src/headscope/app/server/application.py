"""The web application: the rooms' routes, the built page, and errors as sentences."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from headscope import __version__
from headscope.app.server import microscope
from headscope.app.server.desk import Desks
from headscope.app.server.guard import guard
from headscope.app.shelf import Shelf
from headscope.errors import HeadscopeError

STATIC = Path(__file__).parents[1] / "static"


def application(shelf: Shelf) -> FastAPI:
    """The web application that shows these models."""
    app = FastAPI(title="headscope", version=__version__, docs_url=None, redoc_url=None)
    app.add_exception_handler(HeadscopeError, _say)
    app.add_exception_handler(RequestValidationError, _say_validation)
    app.include_router(microscope.routes(Desks(shelf)))
    guard(app)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def openapi() -> str:
    """The API's description, from which the front end's types are generated."""
    return json.dumps(application(Shelf()).openapi(), indent=1)


def _say(request: Request, error: Exception) -> Response:
    return JSONResponse({"kind": type(error).__name__, "message": str(error)}, status_code=422)


def _say_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return JSONResponse({"kind": "InputError", "message": f"{where}: {first['msg']}"}, status_code=422)
