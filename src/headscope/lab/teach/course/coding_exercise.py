"""Check a file in which a student builds multi-head attention, gap by gap, against the reference.

Every gap is one function of the file. A wrong result is compared with what the mistakes that people make would give
(``MISTAKES``), so that each gets its own sentence.
"""

from __future__ import annotations

import math
import runpy
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from headscope.attention.reference import HeadWeights, multi_head, one_head
from headscope.errors import InputError
from headscope.files import write_atomic

TEMPLATE = Path(__file__).with_name("attention_exercise.txt")
State = Literal["empty", "right", "wrong"]


@dataclass(frozen=True)
class _Gap:
    """A function to fill: what it is given, what it should return, and what to say when it does."""

    name: str
    given: tuple[Any, ...]
    wanted: Tensor
    says: str


@dataclass(frozen=True)
class CheckedGap:
    """One gap of a student's file."""

    name: str
    state: State
    says: str


def write_exercise(path: Path) -> None:
    """Write the file with its gaps; a file that is there stays."""
    if path.exists():
        raise InputError(f"{path.name} is there already; check it with headscope learn exercise {path.name}")
    write_atomic(path, TEMPLATE.read_bytes())


def check_exercise(path: Path) -> list[CheckedGap]:
    """Run the student's file, as the student, and check each of its functions."""
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        at = getattr(error, "lineno", None) or line
        raise InputError(f"{path.name} does not run: {type(error).__name__}: {error} (line {at})") from error
    return [_checked(gap, names) for gap in gaps()]


def gaps() -> list[_Gap]:
    """Every gap in order, with inputs that are the same each time."""
    layer = Layer.made()
    q, k = layer.x @ layer.heads[0][0], layer.x @ layer.heads[0][1]
    raw = q @ k.mT / k.shape[-1] ** 0.5
    left_out = raw.masked_fill(~layer.allowed, float("-inf"))
    weights = [HeadWeights(*head) for head in layer.heads]
    one = one_head(layer.x, layer.x, weights[0], layer.allowed).z
    whole = multi_head(layer.x, layer.x, weights, layer.W_O, layer.allowed)
    wide = layer.x @ layer.wide[0]
    split = torch.stack(wide.chunk(layer.n_heads, dim=-1))
    return [
        _Gap("project", (layer.x, layer.heads[0][0]), q, "Every token became a query of 32 numbers."),
        _Gap("scores", (q, k), raw, "Every query has met every key, and √d keeps the scores small."),
        _Gap("masked", (raw, layer.allowed), left_out, "e to the power of −∞ is 0: a later word gets no share."),
        _Gap("shares", (left_out,), left_out.softmax(-1), "Every row adds up to 1."),
        _Gap("single_head", (layer.x, *layer.heads[0], layer.allowed), one, "One head, whole."),
        _Gap("multi_head", (layer.x, layer.heads, layer.W_O, layer.allowed), whole, "4 × 32 = 128, mixed by W_O."),
        _Gap("split_heads", (wide, layer.n_heads), split, "Each head has its own 32 of the 128 numbers of a token."),
        _Gap("merge_heads", (split,), wide, "End to end again, token by token."),
        _Gap(
            "batched",
            (layer.x, *layer.wide, layer.W_O, layer.n_heads, layer.allowed),
            whole,
            "The same numbers as the loop, without a loop. This is multi-head attention as models run it.",
        ),
    ]


def _checked(gap: _Gap, names: Mapping[str, Any]) -> CheckedGap:
    function = names.get(gap.name)
    if not callable(function):
        return CheckedGap(
            gap.name, "wrong", f"The file has no function {gap.name}; headscope learn exercise writes a new one."
        )
    try:
        made = function(*_copies(gap.given))
    except Exception as error:
        inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "_checked"]
        at = f" (line {inside[-1].lineno})" if inside and inside[-1].lineno else ""
        if "ellipsis" in str(error).lower():
            return CheckedGap(gap.name, "empty", "It uses a gap that is still empty.")
        return CheckedGap(gap.name, "wrong", f"It stops with {type(error).__name__}: {error}{at}")
    if made is ... or made is None:
        return CheckedGap(
            gap.name, "empty", "Still a gap." if made is ... else "It returns nothing: is return missing?"
        )
    if not isinstance(made, Tensor):
        return CheckedGap(gap.name, "wrong", f"It returns {type(made).__name__}; a tensor is asked for.")
    if _same(made, gap.wanted):
        return CheckedGap(gap.name, "right", gap.says)
    return CheckedGap(gap.name, "wrong", _why(gap, made))


def _why(gap: _Gap, made: Tensor) -> str:
    for mistake in MISTAKES.get(gap.name, ()):
        if _same(made, mistake.gives(*gap.given)):
            return mistake.says
    if made.shape != gap.wanted.shape:
        return f"Its shape is {tuple(made.shape)}; it should be {tuple(gap.wanted.shape)}."
    finite = made.isfinite() & gap.wanted.isfinite()
    far = float((made - gap.wanted)[finite].abs().max()) if bool(finite.any()) else float("inf")
    return f"The shape is right, the numbers are not: they differ by up to {far:.3g}."


def _same(made: Tensor, wanted: Tensor) -> bool:
    """Whether two tensors hold the same numbers, infinities included."""
    return made.shape == wanted.shape and torch.allclose(made.double(), wanted.double(), atol=1e-5)


def _copies(given: tuple[Any, ...]) -> list[Any]:
    """Inputs of one's own, so that a function that writes into them spoils nothing."""
    return [[tuple(map(_copy, head)) for head in each] if isinstance(each, list) else _copy(each) for each in given]


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


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
SUMMED = "The heads are added up, so they can no longer be told apart: join them end to end (torch.cat, dim=-1)."
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
