"""Which embedded model a weight hash belongs to: today's, or one that an earlier version shipped."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "embedded"
EARLIER = "earlier.json"


def earlier(folder: Path | None = None) -> dict[str, str]:
    """Titles of the models that this folder held before, by weight hash: as stored, and in float32."""
    file = (folder or FOLDER) / EARLIER
    if not file.is_file():
        return {}
    return {str(digest): str(title) for digest, title in json.loads(file.read_text(encoding="utf-8")).items()}


def earlier_title(digest: str | None) -> str | None:
    """The title of the earlier embedded model with this weight hash; None for any other."""
    return earlier().get(digest) if digest else None
