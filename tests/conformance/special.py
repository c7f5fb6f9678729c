"""Families whose tiny config needs more than sizes by name."""

from __future__ import annotations

from typing import Any

CHANGES: dict[str, dict[str, Any]] = {}
