"""The options of a scan, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from headscope.checked import checked
from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import STANDARD
from headscope.scan.tally import TRAITS

DEFAULT_CONTEXT = 1024
TOKENS_PER_PASS = {"cpu": 8192, "cuda": 32768}
"""A GPU needs more at once: it starts a pass over 8,192 tokens of a small model no faster than over 32,768."""


@checked
@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """The options of a scan. What is None is chosen by the scan and written into its recipe."""

    context: int | None = None
    """Tokens per row; by default the model's own context, up to 1,024."""
    batch: int | None = None
    """Rows per forward pass."""
    shard_tokens: int = 2**17
    """Tokens per shard: at most this much is lost when a worker is killed."""
    max_tokens: int | None = None
    """Stop reading the corpus after about this many tokens: with the passage that reaches it, or inside a long one."""
    field: str = "text"
    lines: bool = False
    """In text files, every line is a document; otherwise every file."""
    broken: Literal["stop", "skip"] = "stop"
    """At an unreadable part of the corpus: "stop" there, or "skip" it."""
    rules: tuple[LabelRule, ...] = ()
    """Questions in addition to the five standard ones."""
    replicates: int = 200
    examples: int = 5
    seed: int = 0
    threads: int | None = None
    workers: int = 1
    ray: str | None = None
    """A Ray address, or "local" to start Ray on this machine."""

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("batch", "shard_tokens", "max_tokens", "examples", "workers", "threads"), 1)
        for name, smallest in {**sizes, "context": 2, "replicates": 2, "seed": 0}.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise InputError(f"{name}={value}: give at least {smallest}")
        taken = [*STANDARD, *TRAITS]
        for rule in self.rules:
            if rule.name in taken:
                raise InputError(f"there is already a question named {rule.name!r}; choose another name")
            taken.append(rule.name)

    def context_for(self, longest: int | None) -> int:
        """Tokens per row, for a model whose context is ``longest``."""
        if self.context is None:
            return min(longest or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        if longest is not None and self.context > longest:
            raise InputError(
                f"context={self.context}, but this model's context is {longest} tokens; give {longest} or less"
            )
        return self.context

    def batch_for(self, context: int, device: torch.device) -> int:
        """Rows per forward pass."""
        return self.batch or max(1, TOKENS_PER_PASS.get(device.type, TOKENS_PER_PASS["cpu"]) // context)

    def rows_in_shard(self, context: int, device: torch.device) -> int:
        """Rows per shard: whole batches, close to ``shard_tokens``."""
        batch = self.batch_for(context, device)
        return max(1, round(self.shard_tokens / (context * batch))) * batch
