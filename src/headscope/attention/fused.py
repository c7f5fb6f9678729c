"""Triton: output, log-sum-exp and statistics in one flash pass."""

from __future__ import annotations

from collections.abc import Mapping, Set

from torch import Tensor

from headscope.attention.observation import Rows, Statistic
from headscope.attention.questions import Question
from headscope.attention.scores import Scores


def refuse(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> str | None:
    """Why this backend will not take the request, or None."""
    return f"fused needs CUDA, got {q.device.type}"


def observe(
    q: Tensor, k: Tensor, v: Tensor, scores: Scores, questions: Mapping[str, Question], statistics: Set[Statistic]
) -> Rows:
    raise AssertionError("refused before it is called")
