"""Assemble the web application: the routes of every page, error handlers, the guard and the built page."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.staticfiles import StaticFiles

from headscope import __version__
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.pages.course.classroom import Classroom
from headscope.app.pages.film import Films
from headscope.app.server import sandbox
from headscope.app.server.errors import add_error_handlers
from headscope.app.server.guard import Guard
from headscope.app.server.join import Join
from headscope.app.server.routes import census, classroom, lab, learn, microscope
from headscope.app.server.token import AccessToken
from headscope.app.server.worker import RequestWorker

STATIC = Path(__file__).parents[1] / "static"


def application(
    registry: ModelRegistry,
    token: AccessToken | None = None,
    censuses: Censuses | None = None,
    films: Films | None = None,
    held: Classroom | None = None,
) -> FastAPI:
    """Return the web application for these models; with a token, reject requests without it. ``held`` is a class."""
    app = FastAPI(title="headscope", version=__version__, docs_url=None, redoc_url=None)
    add_error_handlers(app)
    worker = RequestWorker(registry)
    app.include_router(microscope.routes(worker))
    app.include_router(lab.routes(worker))
    app.include_router(learn.routes(worker, films or Films(), held))
    app.include_router(classroom.routes(worker, held))
    app.include_router(census.routes(worker, censuses or Censuses()))
    app.add_middleware(GZipMiddleware, compresslevel=5)
    app.add_middleware(Guard, token=token, join=Join(held, token) if held and token else None)
    app.mount("/python", StaticFiles(directory=sandbox.FOLDER))
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def openapi() -> str:
    """The API's OpenAPI description, from which the front end's types are generated."""
    return json.dumps(application(ModelRegistry()).openapi(), indent=1)
