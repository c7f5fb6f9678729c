"""Base classes of the API's requests and responses. The front end's types are generated from them.

A response that comes with arrays is the JSON part of a container (see wire.py); its docstring names the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from headscope.app.wire import Arrays

SCHEMA_VERSION = 1


class Request(BaseModel):
    """A request body, or a part of one. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Response(BaseModel):
    """A response body, or a part of one. Every field is sent, also one that has its default value."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Problem(Response):
    """An error, as one sentence to show to the user."""

    kind: str
    message: str


Emit = Callable[[Any, Arrays], None]
"""Send one frame of a stream: a response and its arrays."""
