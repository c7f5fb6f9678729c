"""Reading back what headscope wrote, from a file that may have been cut short or altered since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headscope.errors import HeadscopeError, InputError


@contextmanager
def reading(what: str, way_out: str) -> Iterator[None]:
    """Whatever goes wrong while a stored file is taken apart becomes one sentence: what it is, and the way out."""
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:  # readers of other projects raise what they like at a broken file
        why = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"{what} is broken, or is something else ({why}); {way_out}") from error
