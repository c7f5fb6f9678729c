"""The page's HTTP server. Only this package imports fastapi and uvicorn."""

from headscope.app.server.application import STATIC, application, openapi
from headscope.app.server.guard import HOST
from headscope.app.server.serve import ServeOptions, listen, serve, serve_tools

__all__ = ["HOST", "STATIC", "ServeOptions", "application", "listen", "openapi", "serve", "serve_tools"]
