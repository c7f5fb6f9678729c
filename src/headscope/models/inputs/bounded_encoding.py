"""Call a stranger's tokenizer so that neither its rules nor a long text exhaust memory, and its panics are errors.

The normalizers of a tokenizer.json may multiply a text (three times "replace a by a thousand a"). Where they could make
too much of a text, they are run one by one, and the size of each result is bounded before it is made. What a template
adds to a text, and what a decoder makes of tokens, is bounded by their form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from headscope.errors import InputError

MOST_CHARACTERS = 2**22
"""Most characters of a text, before and after normalization. Each may become a token of a hundred bytes."""
MOST_ADDED = 2**12
"""Most special tokens that a tokenizer may put around a text, or around two."""
BEGINNING = 2**17
"""Characters of a long text that are tokenized first: if they exceed the context, the rest is not."""

_UNICODE = {"NFKC": 18, "NFKD": 18, "Precompiled": 18, "NFD": 4, "NFC": 3, "Lowercase": 3, "BertNormalizer": 12}
_UNICODE |= {"ByteLevel": 4}


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
        why = (str(error).strip().splitlines() or ["no reason given"])[0][:200]
        raise InputError(
            f"this model's tokenizer gives up on {what} ({why}); its rules are broken: use another tokenizer, or "
            "give ids"
        ) from None


class GrowthLimit:
    """Bounds how far a tokenizer's rules lengthen a text; other tokenizers than fast ones have none."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self.steps = parts_of(getattr(backend, "normalizer", None))
        self.decoding = parts_of(getattr(backend, "decoder", None))
        self.added = sum(map(_tokens_added, parts_of(getattr(backend, "post_processor", None))))
        splitting = parts_of(getattr(backend, "pre_tokenizer", None))
        self.splitting: int = 2 ** min(60, sum(step.get("type") == "ByteLevel" for step in splitting))

    def normalized(self, length: int) -> int:
        """How many characters the normalizers make of so many, at most."""
        return _grown(self.steps, length)

    def decoded(self, tokens: Iterable[str]) -> int:
        """How many characters the decoder makes of tokens that are stored so, at most."""
        return sum(_grown(self.decoding, len(token)) for token in tokens)

    def check(self, text: str, what: str = "the text") -> None:
        """Refuse a text that is too long, or that these rules make too long."""
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"{what} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read at once")
        if self.added > MOST_ADDED:
            raise InputError(
                f"this model's tokenizer adds {self.added:,} tokens to every text, and at most {MOST_ADDED:,} are "
                "read; its rules are broken: use another tokenizer, or give ids"
            )
        if self.normalized(len(text)) * self.splitting <= MOST_CHARACTERS:
            return
        for step in self.steps:
            if _length_after(step, text) > 4 * MOST_CHARACTERS:
                raise _grows(what)
            with panics_as_errors(what):
                text = _normalizer(step).normalize_str(text)
        if len(text) * max(1, self.splitting // 2) > MOST_CHARACTERS:
            raise _grows(what)


def _grows(what: str) -> InputError:
    return InputError(
        f"this model's tokenizer lengthens {what} past {MOST_CHARACTERS:,} characters before it splits it into tokens; "
        "its rules are broken: use another tokenizer, or give ids"
    )


def _state(part: Any) -> dict[str, Any]:
    """The JSON of a normalizer or pre-tokenizer; nothing for one written in Python."""
    if part is None:
        return {}
    try:
        read = json.loads(part.__getstate__())
    except Exception:  # a custom part has no JSON
        return {}
    return read if isinstance(read, dict) else {}


def parts_of(part: Any) -> list[dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder as their JSON, sequences of them flattened."""
    return _flat(_state(part))


def _flat(state: dict[str, Any]) -> list[dict[str, Any]]:
    if state.get("type") == "Sequence":
        names = ("normalizers", "pretokenizers", "decoders", "processors")
        return [step for name in names for part in state.get(name, []) for step in _flat(part)]
    return [state] if state else []


def _grown(steps: Iterable[dict[str, Any]], length: int) -> int:
    for step in steps:
        length = min(length * _factor(step) + _added(step), 2**60)
    return length


def _tokens_added(step: dict[str, Any]) -> int:
    """Tokens that a template puts around a text, or around two."""
    named = step.get("special_tokens", {})
    sizes = {name: len(token.get("ids", ())) for name, token in named.items()} if isinstance(named, dict) else {}
    pieces = [piece.get("SpecialToken", {}) for part in ("single", "pair") for piece in step.get(part, ())]
    return sum(sizes.get(piece.get("id"), 0) for piece in pieces)


def _factor(step: dict[str, Any]) -> int:
    if step.get("type") == "Replace":
        return 1 + len(step.get("content", ""))
    return _UNICODE.get(str(step.get("type")), 1)


def _added(step: dict[str, Any]) -> int:
    """Characters that a step adds to any text, even an empty one, which a pattern may match."""
    if step.get("type") == "Replace" and not step.get("pattern", {}).get("String"):
        return len(step.get("content", ""))
    return len(step.get("prepend", "")) if step.get("type") == "Prepend" else 0


def _length_after(step: dict[str, Any], text: str) -> int:
    pattern = step.get("pattern", {}).get("String") if step.get("type") == "Replace" else None
    if pattern:
        return len(text) + text.count(pattern) * (len(step["content"]) - len(pattern))
    return len(text) * _factor(step) + _added(step)


def _normalizer(step: dict[str, Any]) -> Any:
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    return Tokenizer.from_str(json.dumps({"version": "1.0", "normalizer": step, "model": model})).normalizer
