"""Check an opened model on a short input: sites, logits, head parts and edits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.huggingface.attention import install_count, using_implementation
from headscope.models.structure.sites import logits_of
from headscope.names import ModelShape

if TYPE_CHECKING:
    from headscope.models.recording import OpenModel

# Largest difference, relative to the largest number.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}


@dataclass(frozen=True)
class Check:
    """One thing that was checked: what, whether it holds, and the numbers."""

    what: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class SelfCheck:
    """All checks of one model; ``print`` it to read them."""

    model: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(check.holds for check in self.checks)

    def refuse_failed(self) -> None:
        """Refuse a model that fails a check, with what differed."""
        if not self.passed:
            wrong = "; ".join(f"{check.what}: {check.detail}" for check in self.checks if not check.holds)
            raise ModelError(f"{self.model} fails its self-check and is not opened: {wrong}")

    def __str__(self) -> str:
        rows = [f"{'ok  ' if check.holds else 'FAIL'}  {check.what}: {check.detail}" for check in self.checks]
        return "\n".join([self.model, *rows, *(f"note  {note}" for note in self.notes)])


def run_self_check(opened: OpenModel, inputs: Mapping[str, Tensor], own: Tensor | None) -> SelfCheck:
    """Check everything; refuse the model with what differed if a check fails. ``own``: see ``own_logits``."""
    seen: dict[str, Tensor] = {}

    def observe(site: str, call: Call) -> Tensor:
        seen[site] = plain(call)
        return seen[site]

    with torch.no_grad():
        with fixed_seed():
            logits = opened.run(inputs, observe).logits
        checks = (
            _all_reached(opened.shape, seen),
            *([] if own is None else [_equal_logits(own, logits)]),
            _parts_add_up(opened, seen),
            _edit_moves(opened, inputs, logits),
        )
    found = SelfCheck(opened.shape.name, checks, tuple(opened.notes))
    found.refuse_failed()
    return found


def own_logits(model: nn.Module, inputs: Mapping[str, Tensor], arguments: dict[str, Any]) -> Tensor | None:
    """Logits of the model's own eager attention, or sdpa where eager gives NaN; None if several scopes have it open."""
    if install_count(model) > 1:
        return None
    for name in ("eager", "sdpa"):
        with using_implementation(model, name), torch.no_grad(), fixed_seed():
            logits = logits_of(model(**inputs, **arguments))
        if bool(torch.isfinite(logits).all()):
            break
    return logits


def own_tolerance(dtype: torch.dtype) -> float:
    """Largest difference from the model's own logits; many round their weights to float32 in a float64 model too."""
    return 1e-6 if dtype == torch.float64 else TOLERANCE.get(dtype, 1e-4)


@contextmanager
def fixed_seed(seed: int = 0) -> Iterator[None]:
    """Seed torch inside the block: some models draw while they run (a masked autoencoder hides patches)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def relative_difference(ours: Tensor, own: Tensor) -> float:
    """The largest difference, relative to the largest finite number of ``own``; infinite if it has none."""
    finite = torch.isfinite(own)
    if not bool(finite.any()):
        return math.inf
    gap = (ours - own).double()[finite].abs().max()
    return float(gap) / max(float(own[finite].double().abs().max()), 1e-30)


def _all_reached(shape: ModelShape, reached: Collection[str]) -> Check:
    missing = [site for site in shape.sites if site not in reached]
    detail = f"{len(reached)} of {len(shape.sites)}" + (f", not {', '.join(missing[:5])}" if missing else "")
    return Check("sites reached", not missing, detail)


def _equal_logits(own: Tensor, ours: Tensor) -> Check:
    allowed = own_tolerance(own.dtype)
    if own.shape != ours.shape:
        return Check("logits equal the model's own", False, f"shape {tuple(ours.shape)} instead of {tuple(own.shape)}")
    found = relative_difference(ours, own)
    return Check(
        "logits equal the model's own",
        found <= allowed,
        f"largest difference {found:.1e}, at most {allowed:.0e} for {own.dtype}",
    )


def _parts_add_up(opened: OpenModel, seen: Mapping[str, Tensor]) -> Check:
    """Compare what W_O makes of z with the sum of what its rows make of each head's."""
    worst, where, count, dtype = 0.0, "", 0, torch.float32
    for site, z in seen.items():
        try:
            weight = opened.output_weight(site)
        except ModelError:
            continue
        x = z.transpose(1, 2)
        output, count = opened.apply_output_weight(site, x), count + 1
        parts = torch.einsum("bqhd,hdm->bqhm", x.double(), weight.weight.double()).sum(2)
        total = parts if weight.bias is None else parts + weight.bias.double()
        gap = relative_difference(total, output.double())
        if gap >= worst or math.isnan(gap):
            worst, where, dtype = gap, site, output.dtype
    allowed = TOLERANCE.get(dtype, 1e-4)
    detail = f"largest difference {worst:.1e} at {where or 'no site'}, at most {allowed:.0e}; {count} sites"
    return Check("head parts + bias = attention output", worst <= allowed, detail)


def _edit_moves(opened: OpenModel, inputs: Mapping[str, Tensor], before: Tensor) -> Check:
    """Zero-ablate one site at a time, from the first, until the logits move."""
    for target in opened.shape.sites:

        def ablate(site: str, call: Call, target: str = target) -> Tensor:
            z = plain(call)
            return torch.zeros_like(z) if site == target else z

        with fixed_seed():
            moved = relative_difference(opened.run(inputs, ablate).logits, before)
        if moved > 0:
            return Check(
                "an edit moves the logits", True, f"ablating {target} moves them by {moved:.1e} of the largest"
            )
    return Check("an edit moves the logits", False, "ablating any one site changes nothing")
