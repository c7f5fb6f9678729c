"""Triton: output, log-sum-exp and statistics in one flash pass."""

from headscope.attention.backends.fused.host import observe, refuse

__all__ = ["observe", "refuse"]
