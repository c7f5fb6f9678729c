"""Check annotations at every call in the tests, and axis names only where a signature has shapes.

The import hook of jaxtyping (``--jaxtyping-packages`` in pyproject.toml) compares axis names in every function, though
most have none, and makes a check anew whenever a function inside a function is defined. That was half of the time of
many tests. Here beartype alone checks functions without axes, and those inside others only where they have axes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

AXES = jaxtyping.jaxtyped("context")
CHECK = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def install() -> None:
    """Replace the decorator that jaxtyping's import hook writes above functions and classes."""
    jaxtyping.jaxtyped = decorator  # type: ignore[assignment]


def decorator(*, typechecker: Any) -> Callable[[Any], Any]:
    """What the import hook calls; its type checker is beartype, which ``checked`` calls with settings of its own."""
    return checked


def checked(made: Any) -> Any:
    if inspect.isclass(made):
        return _checked_class(made)
    hints = {name: _resolved(hint, made.__globals__) for name, hint in made.__annotations__.items()}
    shaped = any(map(has_shape, hints.values()))
    if "<locals>" in made.__qualname__ and not shaped:
        return made
    return _switched(made, _checked(made, hints), AXES if shaped else nullcontext())


def has_shape(hint: Any) -> bool:
    """Whether a type has named axes, itself or in its parts."""
    array = inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray)
    return array or any(has_shape(part) for part in get_args(hint))


def _switched(made: Any, checked: Any, axes: AbstractContextManager[None]) -> Any:
    """Checked, its axis names in a scope of their own for each call, unless jaxtyping is switched off."""

    @functools.wraps(made)
    def called(*args: Any, **named: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return made(*args, **named)
        with axes:
            return checked(*args, **named)

    return called


def _checked_class(made: type) -> type:
    own = vars(made).get("__init__")
    at_the_door = inspect.unwrap(own) is not own if own else False  # by headscope.checked, whose errors tests read
    if dataclasses.is_dataclass(made) and inspect.isfunction(own) and not at_the_door:
        made.__init__ = checked(own)  # type: ignore[misc]
    return made


def _checked(function: Any, hints: dict[str, Any]) -> Any:
    """The function, checked by its resolved annotations; it keeps the written ones."""
    written, function.__annotations__ = function.__annotations__, hints
    try:
        return CHECK(function)
    finally:
        function.__annotations__ = written


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """An annotation as a type; what cannot be resolved here (imported for type checkers only) is not checked."""

    def holder(value: Any) -> None: ...

    holder.__annotations__ = {"value": hint}
    try:
        return get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:
        return Any
