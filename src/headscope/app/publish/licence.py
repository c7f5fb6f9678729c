"""The licence of a model's weights and where they are from, as the model's own files say it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headscope import __version__
from headscope.errors import InputError
from headscope.scope import EMBEDDED

CARDS = ("MODEL_CARD.md", "README.md")
UNKNOWN = "not stated"


@dataclass(frozen=True)
class Licence:
    """A licence by its short name, and the place that states it. ``stated`` is False where nothing does."""

    name: str
    source: str
    stated: bool


def licence_of(name: str, folder: Path | None) -> Licence:
    """What a model card beside the weights says; a hub name is its own source."""
    source = name if folder is None or "/" in name else f"{name}, a folder of files"
    if folder == EMBEDDED:
        source = f"trained for headscope, and part of headscope {__version__}"
    for path in () if folder is None else tuple(folder / card for card in CARDS):
        if path.is_file():
            found = _in_card(path.read_text(encoding="utf-8", errors="replace"))
            if found:
                return Licence(found, source, stated=True)
    return Licence(UNKNOWN, source, stated=False)


def require(licence: Licence, name: str, allowed: bool) -> None:
    """Refuse to publish weights whose licence does not say that one may, unless the person says so."""
    if not licence.stated and not allowed:
        raise InputError(
            f"{name} comes with no model card that states a licence, so headscope does not know that its weights "
            "may be published; if you know that you may, say so with --i-may"
        )


def _in_card(text: str) -> str | None:
    """``license:`` in the YAML block at the head of a model card."""
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    found = head and re.search(r"^license(?:_name)?:\s*['\"]?([\w.+-]+)", head[1], re.MULTILINE)
    return None if not found or found[1].lower() in ("unknown", "other") else found[1]
