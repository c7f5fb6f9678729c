"""Add the start token to a tokenizer that leaves it out although the model's files say that texts begin with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ADDED = (
    "{where} says that texts begin with a start token, and the tokenizer does not add it; headscope adds {token!r} "
    "({id})"
)


def gguf_start_token(fields: Mapping[str, Any]) -> tuple[bool | None, int | None]:
    """What a GGUF file's fields say: whether texts begin with a start token, and its id; None for what they lack."""
    add, token = (fields.get(f"tokenizer.ggml.{name}") for name in ("add_bos_token", "bos_token_id"))
    return None if add is None else bool(add.contents()), None if token is None else int(token.contents())


def add_start_token(tokenizer: Any, where: str, wanted: bool | None, start: int | None = None) -> str:
    """Make a tokenizer begin every text with the start token if that is ``wanted`` and it does not; return a note.

    ``wanted`` and ``start`` come from ``where``; without them, from the tokenizer's own settings.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ""
    wanted = bool(tokenizer.init_kwargs.get("add_bos_token")) if wanted is None else wanted
    start = tokenizer.bos_token_id if start is None else start
    if not wanted or start is None or _first(tokenizer) == start:
        return ""
    token = tokenizer.convert_ids_to_tokens(start)
    before = f"{token}:0 $A:0"
    from tokenizers import processors

    add = processors.TemplateProcessing(single=before, pair=f"{before} $B:1", special_tokens=[(token, start)])
    own = backend.post_processor
    backend.post_processor = add if own is None else processors.Sequence([own, add])
    return ADDED.format(where=where, token=token, id=start) if _first(tokenizer) == start else ""


def _first(tokenizer: Any) -> int | None:
    ids = tokenizer("a")["input_ids"]
    return int(ids[0]) if len(ids) else None
