"""Limits on what a model's tokenizer and chat template read and return; their failures become InputErrors.

Both run in this process. A tokenizer's patterns cannot be interrupted; a chat template is stopped between its lines.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headscope.errors import InputError

MOST_CHARACTERS = 2**22
"""Most characters of a text that is read, and of one that a template or a decoder writes."""
MOST_TOKENS = 2**24
"""Most tokens that a tokenizer may make of a text: a token per byte, at the most bytes per character."""
BEGINNING = 2**17
"""Characters of a long text that are tokenized first: if they exceed the context, the rest is not."""
TEMPLATE_SECONDS = 10.0


@contextmanager
def panics_as_errors(what: str) -> Iterator[None]:
    """Turn a panic of the tokenizers library, which no ``except Exception`` catches, into an InputError.

    Its errors are bare Exceptions, and become one too.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise InputError(
            f"this model's tokenizer gives up on {what} ({_reason(error)}); its rules are broken: use another "
            "tokenizer, or give ids"
        ) from None


def check_text(text: str, what: str) -> None:
    """Refuse a text that is too long to be tokenized at once."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{what} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read at once")


def check_tokens(ids: Sequence[int], what: str) -> None:
    """Refuse what a tokenizer made of a text if it is too many tokens."""
    if len(ids) > MOST_TOKENS:
        raise InputError(
            f"this model's tokenizer makes {len(ids):,} tokens of {what}, and at most {MOST_TOKENS:,} are read; its "
            "rules are broken: use another tokenizer, or give ids"
        )


def check_decoded(text: str, what: str) -> str:
    """Return what a tokenizer's decoder wrote; refuse it if it is too long."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"this model's tokenizer writes {len(text):,} characters for {what}, and at most {MOST_CHARACTERS:,} are "
            "shown; its rules are broken: use another tokenizer"
        )
    return text


def render_conversation(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> str:
    """Render messages by the tokenizer's chat template, a program in transformers' sandbox, within a time limit."""
    try:
        json.dumps(list(messages))
    except TypeError as error:
        raise InputError(f"the conversation holds what is no text: {error}; roles and contents are strings") from None
    try:
        with _stopped_after(TEMPLATE_SECONDS):
            text = str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    except Exception as error:
        why = _reason(error)
    else:
        if len(text) <= MOST_CHARACTERS:
            return text
        why = f"it makes {len(text):,} characters; at most {MOST_CHARACTERS:,} are read at once"
    raise InputError(
        f"this model's chat template gives up on the conversation ({why}); its rules are broken: give text instead of "
        "messages"
    )


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError at the first line of Python that this thread runs after so many seconds."""
    end, before = time.monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > end:
            raise TimeoutError(f"it takes more than {seconds:g} seconds")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _reason(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; the error's name without a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
