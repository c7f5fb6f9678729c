"""The mistakes that people make when they write multi-head attention: what each gives, and a sentence on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Head = tuple[Tensor, Tensor, Tensor]
N_HEADS, D_HEAD, TOKENS = 4, 32, 5


@dataclass(frozen=True)
class Layer:
    """Weights and an input of the sizes that the exercise uses: 4 heads of 32 make 128."""

    x: Tensor
    heads: list[Head]
    W_O: Tensor
    allowed: Tensor

    @classmethod
    def made(cls) -> Layer:
        """The same layer each time."""
        draw = torch.Generator().manual_seed(0)
        width = N_HEADS * D_HEAD

        def weights(rows: int, columns: int) -> Tensor:
            return torch.randn(rows, columns, generator=draw, dtype=torch.float64) / math.sqrt(rows)

        heads = [(weights(width, D_HEAD), weights(width, D_HEAD), weights(width, D_HEAD)) for _ in range(N_HEADS)]
        x = torch.randn(TOKENS, width, generator=draw, dtype=torch.float64)
        return cls(x, heads, weights(width, width), torch.ones(TOKENS, TOKENS).tril().bool())

    @property
    def n_heads(self) -> int:
        return len(self.heads)

    @property
    def wide(self) -> Head:
        """W_Q, W_K and W_V of all heads side by side."""
        q, k, v = (torch.cat([head[part] for head in self.heads], dim=1) for part in range(3))
        return q, k, v


@dataclass(frozen=True)
class _Mistake:
    """What a common mistake gives for a gap's inputs, and what to say."""

    gives: Callable[..., Tensor]
    says: str


UNSCALED = "The scale is missing: divide by √d_head, or the scores of 32 products make the softmax all or nothing."
OVER_D = "Divided by d_head instead of its root: the shares come out too even. Take √d_head."
BY_MODEL = "Scaled by √d_model = √128; each head compares 32 numbers, so it is √d_head = √32."
WRONG_AXIS = (
    "Softmax over the wrong axis: here every column adds up to 1. A query shares out its own 1, so every row must: "
    "dim=-1."
)
AFTER = (
    "The mask came after the softmax: later words had taken their share before they were struck out, so rows no longer "
    "add up to 1. Mask the scores, then take the softmax."
)
UNMASKED = "The mask is not used: words read what comes after them."
INVERTED = (
    "The mask is the wrong way round: allowed is True where a key may be read, so fill where it is not: ~allowed."
)
ZEROS = "What may not be read got a score of 0, and e to the power of 0 is 1: it still takes a share. Use −∞."
NO_W_O = "W_O is forgotten: the heads' answers lie side by side, but nothing mixes them."
SUMMED = "The heads are added up. Then nobody can tell any more who said what: lay them end to end (torch.cat, dim=-1)."
BELOW = "Laid below each other, along the tokens. End to end means along the numbers: torch.cat(…, dim=-1)."
NO_TRANSPOSE = (
    "view without the transpose: it cuts the tokens apart, not the numbers, so a head gets pieces of several tokens. "
    "First view(token, n_heads, d_head), then transpose(0, 1)."
)
NO_TRANSPOSE_BACK = (
    "Put together without transposing back: the tokens are mixed up. transpose(0, 1) first, then reshape."
)
SWAPPED = "Query and key are swapped: rows are the words that ask, so it is q @ k.T."


def _shares(q: Tensor, k: Tensor, allowed: Tensor, scale: float | None = None) -> Tensor:
    scores = q @ k.mT * (k.shape[-1] ** -0.5 if scale is None else scale)
    return scores.masked_fill(~allowed, float("-inf")).softmax(-1)


def _head(wrong: str) -> Callable[..., Tensor]:
    def gives(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, allowed: Tensor) -> Tensor:
        return _attend(x @ W_Q, x @ W_K, allowed, wrong) @ (x @ W_V)

    return gives


def _attend(q: Tensor, k: Tensor, allowed: Tensor, wrong: str, d_model: int = N_HEADS * D_HEAD) -> Tensor:
    raw = q @ k.mT / math.sqrt(k.shape[-1])
    out = float("-inf")
    made: dict[str, Callable[[], Tensor]] = {
        "unscaled": lambda: _shares(q, k, allowed, 1.0),
        "over d": lambda: _shares(q, k, allowed, 1 / k.shape[-1]),
        "by model": lambda: _shares(q, k, allowed, d_model**-0.5),
        "axis": lambda: raw.masked_fill(~allowed, out).softmax(-2),
        "after": lambda: raw.softmax(-1) * allowed,
        "unmasked": lambda: raw.softmax(-1),
        "inverted": lambda: raw.masked_fill(allowed, out).softmax(-1).nan_to_num(),
        "zeros": lambda: raw.masked_fill(~allowed, 0.0).softmax(-1),
        "right": lambda: raw.masked_fill(~allowed, out).softmax(-1),
    }
    return made[wrong]()


def _outputs(x: Tensor, heads: list[Head], allowed: Tensor, wrong: str = "right") -> list[Tensor]:
    return [_head(wrong)(x, *head, allowed) for head in heads]


def _batched(
    wrong: str = "right", *, view: bool = False, back: bool = True, mixed: bool = True
) -> Callable[..., Tensor]:
    def gives(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, allowed: Tensor) -> Tensor:
        split = _viewed if view else _split
        q, k, v = (split(x @ W, n_heads) for W in (W_Q, W_K, W_V))
        z = _attend(q, k, allowed, wrong) @ v
        y = (z.transpose(0, 1) if back else z).reshape(len(x), -1)
        return y @ W_O if mixed else y

    return gives


def _split(y: Tensor, n_heads: int) -> Tensor:
    return y.view(len(y), n_heads, -1).transpose(0, 1)


def _viewed(y: Tensor, n_heads: int) -> Tensor:
    return y.reshape(n_heads, len(y), -1)


_IN_A_HEAD = {
    "unscaled": UNSCALED,
    "over d": OVER_D,
    "by model": BY_MODEL,
    "axis": WRONG_AXIS,
    "after": AFTER,
    "unmasked": UNMASKED,
    "inverted": INVERTED,
    "zeros": ZEROS,
}


def _softmax(dim: int) -> Callable[[Tensor], Tensor]:
    return lambda scores: scores.softmax(dim)


MISTAKES: dict[str, tuple[_Mistake, ...]] = {
    "project": (_Mistake(lambda x, W: x @ W / math.sqrt(W.shape[-1]), "The scale belongs to the scores, not here."),),
    "scores": (
        _Mistake(lambda q, k: q @ k.mT, UNSCALED),
        _Mistake(lambda q, k: q @ k.mT / k.shape[-1], OVER_D),
        _Mistake(lambda q, k: q @ k.mT / math.sqrt(N_HEADS * D_HEAD), BY_MODEL),
        _Mistake(lambda q, k: k @ q.mT / math.sqrt(k.shape[-1]), SWAPPED),
        _Mistake(lambda q, k: q @ k.mT * math.sqrt(k.shape[-1]), "Multiplied by √d_head; divide by it."),
    ),
    "masked": (
        _Mistake(lambda scores, allowed: scores.masked_fill(allowed, float("-inf")), INVERTED),
        _Mistake(lambda scores, allowed: scores.masked_fill(~allowed, 0.0), ZEROS),
        _Mistake(lambda scores, allowed: scores * allowed, ZEROS),
        _Mistake(lambda scores, allowed: scores, UNMASKED),
        _Mistake(lambda scores, allowed: scores.softmax(-1) * allowed, AFTER),
    ),
    "shares": (
        _Mistake(_softmax(0), WRONG_AXIS),
        _Mistake(lambda scores: scores.exp(), "e to the scores, but not yet shares: divide each row by its sum."),
        _Mistake(
            lambda scores: scores.exp() / scores.exp().sum(), "Divided by the sum of all rows; each row adds up to 1."
        ),
    ),
    "single_head": tuple(_Mistake(_head(wrong), says) for wrong, says in _IN_A_HEAD.items()),
    "multi_head": (
        _Mistake(lambda x, heads, W_O, allowed: torch.cat(_outputs(x, heads, allowed), -1), NO_W_O),
        _Mistake(lambda x, heads, W_O, allowed: sum(_outputs(x, heads, allowed), torch.zeros(1)), SUMMED),
        _Mistake(lambda x, heads, W_O, allowed: torch.cat(_outputs(x, heads, allowed), 0), BELOW),
        *(
            _Mistake(
                lambda x, heads, W_O, allowed, wrong=wrong: torch.cat(_outputs(x, heads, allowed, wrong), -1) @ W_O,
                says,
            )
            for wrong, says in _IN_A_HEAD.items()
        ),
    ),
    "split_heads": (
        _Mistake(_viewed, NO_TRANSPOSE),
        _Mistake(
            lambda y, n_heads: y.view(len(y), n_heads, -1), "Almost: the heads should come first. transpose(0, 1)."
        ),
    ),
    "merge_heads": (_Mistake(lambda z: z.reshape(z.shape[1], -1), NO_TRANSPOSE_BACK),),
    "batched": (
        _Mistake(_batched(mixed=False), NO_W_O),
        _Mistake(_batched(view=True, back=False), NO_TRANSPOSE),
        _Mistake(_batched(view=True), NO_TRANSPOSE),
        _Mistake(_batched(back=False), NO_TRANSPOSE_BACK),
        *(_Mistake(_batched(wrong), says) for wrong, says in _IN_A_HEAD.items()),
    ),
}
