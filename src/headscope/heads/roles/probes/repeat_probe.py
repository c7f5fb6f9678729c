"""The repeat probe: random tokens, then the same tokens again, which only a model that looks back can predict."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headscope.errors import InputError


@dataclass(frozen=True, kw_only=True)
class RepeatProbe:
    """``rows`` sequences: the start token, ``length`` different random tokens, and those tokens once more."""

    vocabulary: int
    length: int = 50
    rows: int = 8
    seed: int = 0
    start: int | None = 0
    avoid: frozenset[int] = frozenset()

    def tokens(self) -> Int[Tensor, "row token"]:
        """Draw the tokens by the seed; the start token and those to ``avoid`` are never drawn."""
        hidden = self.avoid | ({self.start} if self.start is not None else set())
        allowed = torch.tensor([token for token in range(self.vocabulary) if token not in hidden])
        if len(allowed) < self.length:
            raise InputError(f"{self.length=} different tokens cannot be drawn from {len(allowed)} allowed ones")
        generator = torch.Generator().manual_seed(self.seed)
        draws = [allowed[torch.randperm(len(allowed), generator=generator)[: self.length]] for _ in range(self.rows)]
        once = torch.stack(draws)
        twice = torch.cat((once, once), dim=1)
        return twice if self.start is None else F.pad(twice, (1, 0), value=self.start)

    def losses(self, logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]) -> _CopyLoss:
        """Mean loss on each copy. The second copy's first token cannot be predicted, so it is in neither."""
        loss = token_losses(logits, tokens)
        return _CopyLoss(float(loss[:, : -self.length].mean()), float(loss[:, 1 - self.length :].mean()))


@dataclass(frozen=True)
class _CopyLoss:
    """Mean loss on the first and on the second copy, in nats per token."""

    first: float
    second: float

    @property
    def gain(self) -> float:
        return self.first - self.second


def token_losses(
    logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]
) -> Float[Tensor, "row next_token"]:
    """Cross-entropy of every next token, in nats."""
    next_tokens = tokens[:, 1:].flatten().to(logits.device)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), next_tokens, reduction="none").view(len(tokens), -1)
