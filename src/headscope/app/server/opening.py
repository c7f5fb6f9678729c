"""Opening another model from the page: refused by name unless the server was started to allow it."""

from __future__ import annotations

from fastapi import APIRouter

from headscope.app import schema
from headscope.app.server.desk import PROBLEM
from headscope.app.shelf import Shelf


def routes(shelf: Shelf) -> APIRouter:
    """Put one more model on the shelf."""
    router = APIRouter(prefix="/api", tags=["models"])

    @router.post("/models", responses=PROBLEM)
    def open_model(asked: schema.OpenRequest) -> schema.OpenedModel:
        return schema.OpenedModel(name=shelf.open(asked.name))

    return router
