"""The fused backend: output, log-sum-exp and statistics in one flash-attention pass on the GPU, in Triton."""

from headscope.attention.backends.fused.host import observe, refuse

__all__ = ["observe", "refuse"]
