"""What each page shows."""

from pathlib import Path

REAL_HEADS = Path(__file__).with_name("real_heads.json")
"""Heads of SmolLM2-135M on a few sentences, recorded by `python -m bench.real_heads`."""
