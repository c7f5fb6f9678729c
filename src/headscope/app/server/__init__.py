"""The page's server, the only room that imports fastapi and uvicorn: one file of routes for each part of the page."""

from headscope.app.server.application import STATIC, application, openapi
from headscope.app.server.guard import HOST
from headscope.app.server.serve import Place, free_port, serve

__all__ = ["HOST", "STATIC", "Place", "application", "free_port", "openapi", "serve"]
