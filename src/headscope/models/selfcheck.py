"""The self-check at load: every claim that later pictures rest on, tried once on a short input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.huggingface.attention import exclusively
from headscope.models.protocol import OpenModel, Pass
from headscope.models.structure.sites import logits_of
from headscope.names import ModelShape

# Largest difference from the model's own attention, relative to its largest logit.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}


@dataclass(frozen=True)
class Line:
    """One thing that was checked: what, whether it holds, and the numbers."""

    what: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class Report:
    """The whole self-check; ``print`` it to read it."""

    model: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(line.holds for line in self.lines)

    def __str__(self) -> str:
        rows = [f"{'ok  ' if line.holds else 'FAIL'}  {line.what}: {line.detail}" for line in self.lines]
        return "\n".join([self.model, *rows, *(f"note  {note}" for note in self.notes)])


def check(opened: OpenModel, inputs: Mapping[str, Tensor], own: Tensor | None) -> Report:
    """Try everything; a failure refuses the model and says what differed. ``own`` is the model's own answer."""
    with torch.no_grad():
        reached: set[str] = set()

        def see(site: str, call: Call) -> Tensor:
            reached.add(site)
            return plain(call)

        splittable = [site for site in opened.shape.sites if _splits(opened, site)]
        with same_dice():
            seen = opened.run(inputs, see, outputs=splittable)
        lines = [
            _all_reached(opened.shape, reached),
            *([] if own is None else [_equal_logits(own, seen.logits)]),
            _parts_add_up(opened, seen),
            _edit_moves(opened, inputs, seen.logits),
        ]
    report = Report(opened.shape.name, tuple(lines), tuple(opened.notes))
    if not report.passed:
        wrong = "; ".join(f"{line.what}: {line.detail}" for line in report.lines if not line.holds)
        raise ModelError(f"{opened.shape.name} fails its self-check and will not be shown: {wrong}")
    return report


def own_answer(model: nn.Module, inputs: Mapping[str, Tensor], call: dict[str, Any]) -> Tensor | None:
    """The model's answer with its own eager attention, or sdpa where eager gives no numbers; None if others hold it."""
    with exclusively(model) as switch:
        if switch is None:
            return None
        answer = None
        for name in ("eager", "sdpa"):
            switch(name)
            with torch.no_grad(), same_dice():
                answer = logits_of(model(**inputs, **call))
            if bool(torch.isfinite(answer).all()):
                break
        return answer


@contextmanager
def same_dice() -> Iterator[None]:
    """Some models draw while they run (a masked autoencoder hides patches): every pass of a check draws the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def difference(ours: Tensor, own: Tensor) -> float:
    """The largest difference, relative to the largest of the model's own numbers."""
    finite = torch.isfinite(own)
    gap = (ours - own).double()[finite].abs().max() if bool(finite.any()) else torch.zeros(())
    return float(gap) / max(float(own[finite].double().abs().max()) if bool(finite.any()) else 0.0, 1e-30)


def _all_reached(shape: ModelShape, reached: set[str]) -> Line:
    missing = [site for site in shape.sites if site not in reached]
    detail = f"{len(reached)} of {len(shape.sites)}" + (f", not {', '.join(missing[:5])}" if missing else "")
    return Line("sites reached", not missing, detail)


def _equal_logits(own: Tensor, ours: Tensor) -> Line:
    allowed = TOLERANCE.get(own.dtype, 1e-4)
    if own.shape != ours.shape:
        return Line("logits equal the model's own", False, f"shape {tuple(ours.shape)} instead of {tuple(own.shape)}")
    found = difference(ours, own)
    return Line(
        "logits equal the model's own",
        found <= allowed,
        f"largest difference {found:.1e}, at most {allowed:.0e} for {own.dtype}",
    )


def _splits(opened: OpenModel, site: str) -> bool:
    try:
        opened.output_weight(site)
    except ModelError:
        return False
    return True


def _parts_add_up(opened: OpenModel, seen: Pass) -> Line:
    worst, where = 0.0, ""
    dtype = seen.logits.dtype
    for site, out in seen.outputs.items():
        weight = opened.output_weight(site)
        parts = torch.einsum("bqhd,hdm->bqhm", out.x.double(), weight.weight.double()).sum(2)
        total = parts if weight.bias is None else parts + weight.bias.double()
        gap = difference(total, out.output.double())
        if gap >= worst or math.isnan(gap):
            worst, where, dtype = gap, site, out.output.dtype
    allowed = TOLERANCE.get(dtype, 1e-4)
    detail = f"largest difference {worst:.1e} at {where or 'no site'}, at most {allowed:.0e}; {len(seen.outputs)} sites"
    return Line("head parts + bias = attention output", worst <= allowed, detail)


def _edit_moves(opened: OpenModel, inputs: Mapping[str, Tensor], before: Tensor) -> Line:
    """Silence the heads one site at a time, from the first, until the answer moves."""
    for target in opened.shape.sites:

        def silence(site: str, call: Call, target: str = target) -> Tensor:
            z = plain(call)
            return torch.zeros_like(z) if site == target else z

        with same_dice():
            moved = difference(opened.run(inputs, silence).logits, before)
        if moved > 0:
            return Line(
                "an edit moves the logits", True, f"silencing {target} moves them by {moved:.1e} of the largest"
            )
    return Line("an edit moves the logits", False, "silencing any one site changes nothing")
