"""The rules of the embedded model, which ship with it, so that its heads' sentences are there at once.

``python -m headscope.app.pages.rules.shipped`` fits and writes them. The file is marked as generated and with the hash
of the weights it was fitted on; it is shown for these weights and for no others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headscope.files import write_atomic
from headscope.heads.rules.report import Rules
from headscope.lab.teach.course.passages import lesson_passages
from headscope.models.weight_hash import weight_hash
from headscope.scope import EMBEDDED, Scope, load

SHIPPED = EMBEDDED / "rules.json"
TEXTS = 24
GENERATED = "by `python -m headscope.app.pages.rules.shipped`; do not edit"


def shipped_rules(scope: Scope, path: Path = SHIPPED) -> Rules | None:
    """The rules that ship with this model, if its weights have some."""
    if scope.shape.name != EMBEDDED.name or not path.exists():
        return None
    written = json.loads(path.read_text(encoding="utf-8"))
    if written["recipe"].get("weights") != weight_hash(scope.model.model):
        return None
    return Rules.from_dict(written, opened=scope.model)


def ship(rules: Rules, path: Path = SHIPPED) -> None:
    """Write rules beside the model they were fitted on, one line per head."""
    written = rules.to_dict()
    heads = ",\n".join(_line(head) for head in written.pop("heads"))
    front = json.dumps({"generated": GENERATED, **written}, ensure_ascii=False)
    write_atomic(path, f'{front[:-1]},\n"heads": [\n{heads}\n]}}\n'.encode())


def texts_for(scope: Scope, count: int = TEXTS) -> Sequence[str]:
    """Passages of the lessons, short enough for this model: a token is at least a character."""
    longest = (scope.shape.context or 2**20) - 2
    return [text[:longest] for text in lesson_passages()[:count]]


def _line(head: dict[str, Any]) -> str:
    """A head on one line. What is measured on single documents stays out: the intervals are there."""
    kept = {name: _without_documents(value) for name, value in head.items()}
    for learned in ("with_table", "in_context"):
        kept[learned] = {name: _without_documents(value) for name, value in kept[learned].items()}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _without_documents(value: Any) -> Any:
    return {**value, "documents": []} if isinstance(value, dict) and "documents" in value else value


if __name__ == "__main__":
    with load() as embedded:
        ship(embedded.rules(texts_for(embedded)))
