"""Small models of pictures and sound, and files for them."""

from __future__ import annotations

from tests.models.media import classifier, clip, files, llava, vit, whisper

__all__ = ["classifier", "clip", "files", "llava", "vit", "whisper"]
