"""The web application: the rooms' routes, the built page, and errors as sentences."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from headscope import __version__
from headscope.app.model_registry import Shelf
from headscope.app.pages.census import Censuses
from headscope.app.pages.film import Films
from headscope.app.server.errors import say_problems
from headscope.app.server.guard import Guard
from headscope.app.server.routes import census, lab, learn, microscope, models
from headscope.app.server.token import Token
from headscope.app.server.worker import Desks

STATIC = Path(__file__).parents[1] / "static"


def application(
    shelf: Shelf, token: Token | None = None, censuses: Censuses | None = None, films: Films | None = None
) -> FastAPI:
    """The web application that shows these models; with a token, only to those who carry it."""
    app = FastAPI(title="headscope", version=__version__, docs_url=None, redoc_url=None)
    say_problems(app)
    desks = Desks(shelf)
    app.include_router(models.routes(desks))
    app.include_router(microscope.routes(desks))
    app.include_router(lab.routes(shelf))
    app.include_router(learn.routes(films or Films()))
    app.include_router(census.routes(censuses or Censuses()))
    app.add_middleware(Guard, token=token)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def openapi() -> str:
    """The API's description, from which the front end's types are generated."""
    return json.dumps(application(Shelf()).openapi(), indent=1)
