"""How a scan is made: what a person may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import STANDARD
from headscope.scan.tally.reduction import TRAITS

DEFAULT_CONTEXT = 1024
TOKENS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """Everything but the model and the corpus. What is None is chosen and written into the recipe."""

    context: int | None = None
    """Tokens in a row; the model's own context up to 1,024 unless given."""
    batch: int | None = None
    """Rows in one pass."""
    shard_tokens: int = 2**17
    """Tokens in a shard: what is lost, at most, by each worker that is killed."""
    max_tokens: int | None = None
    """Stop reading the corpus after about so many tokens."""
    field: str = "text"
    lines: bool = False
    """In text files, each line is a document; otherwise each file."""
    broken: str = "stop"
    """At input that cannot be read: end the corpus there, or go on after it."""
    rules: tuple[LabelRule, ...] = ()
    """Questions beside the five standard ones."""
    replicates: int = 200
    examples: int = 5
    seed: int = 0
    threads: int | None = None
    workers: int = 1
    ray: str | None = None
    """A Ray address, or "local" to start Ray here."""
    progress: bool | None = None
    """A progress bar; None shows one in a terminal."""

    def __post_init__(self) -> None:
        least = {
            "context": 2,
            "batch": 1,
            "shard_tokens": 1,
            "max_tokens": 1,
            "replicates": 2,
            "examples": 1,
            "workers": 1,
        }
        for name, smallest in {**least, "threads": 1, "seed": 0}.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise InputError(f"{name}={value}: give at least {smallest}")
        if self.broken not in ("stop", "skip"):
            raise InputError(f"broken={self.broken!r}: choose 'stop' or 'skip'")
        taken = [*STANDARD, *TRAITS]
        for rule in self.rules:
            if rule.name in taken:
                raise InputError(f"a question named {rule.name!r} is there already; give yours another name")
            taken.append(rule.name)

    def context_for(self, longest: int | None) -> int:
        """Tokens in a row for a model that can read so many."""
        if self.context is None:
            return min(longest or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        if longest is not None and self.context > longest:
            raise InputError(
                f"context={self.context}, and this model reads at most {longest} tokens; give {longest} or less"
            )
        return self.context

    def batch_for(self, context: int) -> int:
        return self.batch or max(1, TOKENS_AT_ONCE // context)

    def rows_in_shard(self, context: int) -> int:
        """Whole batches, as many as make the shard about as large as asked."""
        batch = self.batch_for(context)
        return max(1, round(self.shard_tokens / (context * batch))) * batch
