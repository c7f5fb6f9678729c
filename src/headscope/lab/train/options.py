"""Model sizes and settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headscope.checked import checked
from headscope.errors import InputError
from headscope.lab.train.gpt import GPTConfig


@checked
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Model sizes and training settings; ``long_steps`` follow at ``long_context``, with as many tokens per step."""

    d_model: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_mlp: int | None = None
    vocabulary: int = 2048
    tokenizer: Path | None = None
    context: int = 256
    rows: int = 16
    steps: int = 1500
    long_context: int | None = None
    long_steps: int = 0
    learning_rate: float = 3e-3
    warmup: int = 100
    decay: float = 0.5
    weight_decay: float = 0.1
    repeats: float = 0.1
    seed: int = 0
    film_points: int = 90
    checkpoint_seconds: float = 60.0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("context", "rows", "steps", "film_points"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.repeats <= 1 or not 0 <= self.decay <= 1:
            raise InputError(f"repeats={self.repeats} and decay={self.decay} must be between 0 and 1")
        self.gpt(self.vocabulary)

    @property
    def total_steps(self) -> int:
        return self.steps + self.long_steps

    def gpt(self, vocabulary: int) -> GPTConfig:
        return GPTConfig(
            vocabulary=vocabulary,
            d_model=self.d_model,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            d_mlp=self.d_mlp,
            context=self.long_context or self.context,
        )

    def stage(self, step: int) -> tuple[int, int]:
        """Number of rows and context of this step."""
        if step < self.steps or self.long_context is None:
            return self.rows, self.context
        return max(1, self.rows * self.context // self.long_context), self.long_context

    def tokens(self, step: int) -> int:
        """Number of training tokens before this step."""
        early, late = min(step, self.steps), max(0, step - self.steps)
        rows, context = self.stage(self.steps)
        return early * self.rows * self.context + late * rows * context

    def rate(self, step: int) -> float:
        """The learning rate: linear warm-up, constant, then linear decay to zero."""
        up = (step + 1) / self.warmup if step < self.warmup else 1.0
        down = (self.total_steps - step) / max(1.0, self.decay * self.total_steps)
        return self.learning_rate * min(up, down, 1.0)
