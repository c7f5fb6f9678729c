"""Check the arguments of public functions at the call, before a wrong one causes an error inside torch."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeVar, Union, get_args, get_origin

from headscope.errors import InputError

WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "True or False", "NoneType": "None",
    "Callable": "a function", "function": "a function", "Head": "a head such as '5.6' or (5, 6)",
}  # fmt: skip
T = TypeVar("T", bound=Callable[..., Any])


def checked(what: T) -> T:
    """Check arguments of a function, of a dataclass, or of all public methods of a class against their annotations.

    The values of a ``Literal`` are accepted in upper and lower case.
    """
    if isinstance(what, type):
        public = [] if is_dataclass(what) else [name for name in vars(what) if not name.startswith("_")]
        for name in ("__init__", *public):
            if inspect.isfunction(vars(what).get(name)):
                setattr(what, name, checked(vars(what)[name]))
        return what
    signature, hints = inspect.signature(what), dict[str, Any]()
    called = _called(what)

    @wraps(what)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = _bound(what, signature, args, kwargs)
        for name, value in given.arguments.items():
            if name != "self" and value is not signature.parameters[name].default:
                hint = hints.get(name, signature.parameters[name].annotation)
                if isinstance(hint, str):  # resolved when it is needed: what it names may be imported later than this
                    names = _Names(inspect.unwrap(what).__globals__)
                    hint = eval(hint, {}, names)
                    hints.update({name: hint} if names.loaded else {})
                given.arguments[name] = _checked(called, signature.parameters[name], value, hint)
        return what(*given.args, **given.kwargs)

    return wrapper  # type: ignore[return-value]


def named(what: T) -> T:
    """Check only the names of arguments, and only after a failed call: for functions that every forward pass calls."""
    if isinstance(what, type):
        what.__init__ = named(what.__init__)  # type: ignore[misc]
        return what

    @wraps(what)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return what(*args, **kwargs)
        except TypeError:
            _bound(what, inspect.signature(what), args, kwargs)
            raise

    return wrapper  # type: ignore[return-value]


def _called(what: Callable[..., Any]) -> str:
    return what.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def _bound(
    what: Callable[..., Any], signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """Arguments by name; refused where a function has no such argument, or needs one more."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(name for name in signature.parameters if name != "self")
        raise InputError(f"{_called(what)}(): {error}. It takes {takes or 'no arguments'}") from None


class _Names(dict[str, Any]):
    """A module's names, and those that it imports for type checkers only."""

    loaded = True

    def __missing__(self, name: str) -> Any:
        if name in vars(builtins):
            return vars(builtins)[name]
        ours = [module for key, module in sys.modules.items() if key.startswith("headscope.")]
        found = [each for module in ours if isinstance(each := vars(module).get(name), type)]
        self.loaded = self.loaded and bool(found)
        return found[0] if found else type(name, (), {})  # of a class that nothing has imported there is no object


def _checked(called: str, parameter: inspect.Parameter, value: Any, hint: Any) -> Any:
    """The value of an argument, as its ``Literal`` writes it; raise an error if it does not fit."""
    if type(value) is hint:
        return value
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple(_checked(called, parameter.replace(kind=parameter.KEYWORD_ONLY), each, hint) for each in value)
    if Path in get_args(hint) and isinstance(value, str | Path) and "\0" in str(value):
        raise InputError(f"{parameter.name}={str(value)!r} is not a file name: it contains the character NUL")
    values = [one for each in (hint, *get_args(hint)) if get_origin(each) is Literal for one in get_args(each)]
    same = [one for one in values if isinstance(value, str) and str(one).lower() == value.lower()]
    if same:
        return same[0]
    if parameter.kind is parameter.VAR_KEYWORD or _fits(value, hint):
        return value
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}…"
    if values:
        raise InputError(f"{parameter.name}={shown} is not supported. Use {_listed([repr(one) for one in values])}")
    raise InputError(f"{called}({parameter.name}={shown}): {parameter.name} is {_said(hint)}, not {_kind(value)}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; what a hint says beyond ordinary types is not looked at."""
    kind: Any = get_origin(hint) or hint
    parts = get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Literal:
        return value in parts
    if kind in (int, float):
        number = isinstance(value, SupportsIndex if kind is int else SupportsFloat)
        return number and not getattr(value, "shape", ())  # an array or tensor of one number is a number
    if kind is Any or not isinstance(kind, type):
        return True
    if vars(kind).get("_is_protocol") and not vars(kind).get("_is_runtime_protocol"):
        return True
    if not isinstance(value, kind) or (isinstance(value, str | bytes) and kind in (Sequence, Collection)):
        return False  # one text, given for a list, would be read as a list of characters
    if not parts or not issubclass(kind, Collection):
        return True
    several: Any = value
    if issubclass(kind, Mapping):
        return all(_fits(key, parts[0]) and _fits(each, parts[1]) for key, each in several.items())
    if issubclass(kind, tuple) and parts[-1] is not Ellipsis:
        return len(several) == len(parts) and all(map(_fits, several, parts))
    return all(_fits(each, parts[0]) for each in several)


def _said(hint: Any) -> str:
    """A type in words."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        heads = any(getattr(part, "__name__", "") == "Head" for part in parts)
        others = [part for part in parts if not heads or (get_origin(part) or part) not in (str, int, tuple)]
        return _listed(list(dict.fromkeys(_said(part) for part in others)))
    if kind is Literal:
        return _listed([repr(part) for part in parts])
    if kind is tuple and parts[-1] is not Ellipsis:
        return f"a tuple ({', '.join(map(_said, parts))})"
    if isinstance(kind, type) and issubclass(kind, Collection) and kind is not str and not issubclass(kind, Mapping):
        return f"a list, each {_said(parts[0])}" if parts and parts[0] is not Any else "a list"
    name = getattr(kind, "__name__", str(kind))
    if "[Tensor" in name or name == "Tensor":
        return f"a tensor ({kind.dim_str})" if "[" in name else "a tensor"
    return WORDS.get(name, f"a {name}")


def _kind(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if type(value).__name__ == "Tensor" else _said(type(value))


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def summary(record: Any) -> str:
    """The ``__repr__`` of what holds tensors: their shapes and ranges, a line each."""
    return "\n  ".join((type(record).__name__.strip("_"), *_lines("", record)))


def _lines(name: str, value: Any) -> Iterator[str]:
    if type(value).__name__ == "Tensor":
        ends = f", from {value.min().item() + 0.0:.3g} to {value.max().item():.3g}" if value.numel() else ""
        yield f"{name}: {' × '.join(map(str, value.shape))}{ends}"
    elif names := vars(type(value)).get("_fields"):  # a named tuple
        for each in names:
            yield from _lines(f"{name}.{each}".lstrip("."), getattr(value, each))
    elif isinstance(value, dict) or vars(type(value)).get("__repr__") is summary:
        for each, part in (value if isinstance(value, dict) else vars(value)).items():
            yield from _lines(f"{name}.{each}".lstrip("."), part) if each[:1] != "_" else ()
    elif value is not None:
        yield f"{name}: {value!r}"
