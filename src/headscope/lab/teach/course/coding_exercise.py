"""Check a file in which a student builds multi-head attention, gap by gap, against the reference.

Every gap is one function of the file. A wrong result is compared with what the mistakes that people make would give
(``common_mistakes.py``), so that each gets its own sentence.
"""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from headscope.attention.reference import HeadWeights, multi_head, one_head
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.lab.teach.course.common_mistakes import MISTAKES, Layer

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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_exercise(path: Path) -> None:
    """Write the file with its gaps; a file that is there stays."""
    if path.exists():
        raise InputError(f"{path.name} is there already; check it with headscope exercise {path.name}")
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
            gap.name, "wrong", f"The file has no function {gap.name}; headscope exercise writes a new one."
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
