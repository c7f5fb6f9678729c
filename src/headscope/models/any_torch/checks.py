"""Check every site that was learned, against the module itself; what fails is not observed, with the reason.

Outputs equal the module's own; head parts, with the bias, are W_O's output; statistics equal those of the dense
pattern; and one head set to zero is the same as its rows of W_O set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.models.any_torch.function_mode import MatrixUse
from headscope.models.any_torch.learning import LearnedSite, MatrixTake
from headscope.models.any_torch.matrices import as_matrix
from headscope.models.selfcheck import TOLERANCE, Check, fixed_seed, relative_difference

if TYPE_CHECKING:
    from headscope.models.any_torch.model import AnyTorchModel

STATISTICS = 1e-3
"""Largest difference of entropy and log-sum-exp between the streaming and the dense backend, relative to 1 + size."""


@dataclass
class _Findings:
    """The largest error of each check over all sites that passed."""

    own: Tensor
    errors: dict[str, float] = field(default_factory=dict)
    moved: float = 0.0

    @property
    def allowed(self) -> float:
        return TOLERANCE.get(self.own.dtype, 1e-4)

    def checks(self, learned: Mapping[str, LearnedSite]) -> tuple[Check, ...]:
        """The findings as checks to print."""
        good = sum(not site.why for site in learned.values())
        rows = [
            Check(what, error <= allowed, f"largest difference {error:.1e}, at most {allowed:.0e}")
            for what, (error, allowed) in {
                "outputs equal the module's own": (self.errors["outputs"], self.allowed),
                "head parts + bias = W_O's output": (self.errors["parts"], self.allowed),
                "statistics equal those of the dense pattern": (self.errors["statistics"], STATISTICS),
                "one head off = its rows of W_O at zero": (self.errors["ablation"], self.allowed),
            }.items()
        ]
        moves = Check("an edit moves the output", self.moved > 0, f"by {self.moved:.1e} of its largest number")
        return (Check("sites observed", good > 0, f"{good} of {len(learned)}"), *rows, moves)


def check_sites(opened: AnyTorchModel, own: Tensor) -> _Findings:
    """Check all sites together; if a check fails, check them one by one and drop those that fail."""
    found = _Findings(own)
    _parts_and_statistics(opened, found)
    found.errors["outputs"] = _with_culprits_out(
        opened, found.allowed, "its outputs are not the module's own", lambda sites: _gap(_only(opened, sites), own)
    )
    found.errors["ablation"] = _with_culprits_out(
        opened, found.allowed, ELSEWHERE, lambda sites: _ablation(opened, sites, found)
    )
    return found


ELSEWHERE = "a head set to zero is not its rows of W_O at zero: z goes elsewhere too, or something is added to it"


def _good(opened: AnyTorchModel) -> list[str]:
    return [name for name, site in opened.learned.items() if not site.why]


def _with_culprits_out(
    opened: AnyTorchModel, allowed: float, why: str, error_of: Callable[[list[str]], float]
) -> float:
    """The error of all sites together; if it is too large, sites that fail alone are given up first."""
    sites = _good(opened)
    error = error_of(sites) if sites else 0.0
    if error <= allowed:
        return error
    for name in sites:
        alone = error_of([name])
        if not alone <= allowed:
            opened.learned[name].why = f"{why} (difference {alone:.1e})"
    rest = _good(opened)
    error = error_of(rest) if rest else 0.0
    if not error <= allowed:  # each is right alone and all are wrong together: nothing can be said of any
        for name in rest:
            opened.learned[name].why = f"{why} (difference {error:.1e} with all sites together)"
        return 0.0
    return error


def _gap(ours: Tensor, own: Tensor) -> float:
    return relative_difference(ours, own) if ours.shape == own.shape else math.inf


def _only(opened: AnyTorchModel, sites: list[str]) -> Tensor:
    """Return the output when only these sites go through headscope."""
    kept = {name: site.why for name, site in opened.learned.items()}
    for name, site in opened.learned.items():
        site.why = site.why or ("" if name in sites else "-")
    try:
        return opened.outputs(lambda _, call: plain(call), None)
    finally:
        for name, site in opened.learned.items():
            site.why = kept[name]


def _parts_and_statistics(opened: AnyTorchModel, found: _Findings) -> None:
    """Compare z through W_O with what the matrix gave, and streaming statistics with dense ones, at every site."""
    z_of: dict[str, Tensor] = {}
    parts: dict[str, float] = {}
    statistics: dict[str, float] = {}
    takes = _takes_by_use(opened, [name for name in _good(opened) if opened.learned[name].kind == "exact"])

    def visit(name: str, call: Call) -> Tensor:
        z = plain(call)
        learned = opened.learned[name]
        assert learned.layout is not None
        z_of[name] = learned.layout.from_heads(z, learned.shape[:-2]).detach()
        statistics[name] = _statistics_gap(call)
        return z

    def on_matrix(use: MatrixUse) -> Tensor | None:
        for name, take in takes.get(use.index, ()):
            if name in z_of:
                parts[name] = max(parts.get(name, 0.0), _parts_gap(use, take, z_of[name]))
        return None

    opened.outputs(visit, on_matrix)
    for name in _good(opened):
        if opened.learned[name].kind == "exact" and not parts.get(name, math.inf) <= found.allowed:
            opened.learned[name].why = f"its head parts do not add up to W_O's output ({parts.get(name, math.inf):.1e})"
        elif not statistics.get(name, math.inf) <= STATISTICS:
            gap = statistics.get(name, math.inf)
            opened.learned[name].why = f"its statistics differ from the dense pattern by {gap:.1e}"
    good = _good(opened)
    found.errors["parts"] = max((parts.get(name, 0.0) for name in good), default=0.0)
    found.errors["statistics"] = max((statistics[name] for name in good), default=0.0)


def _takes_by_use(opened: AnyTorchModel, sites: list[str]) -> dict[int, list[tuple[str, MatrixTake]]]:
    """How matrices take the z of these sites, by the use of a matrix in the pass."""
    takes: dict[int, list[tuple[str, MatrixTake]]] = {}
    for name in sites:
        for take in opened.learned[name].takes:
            takes.setdefault(take.index, []).append((name, take))
    return takes


def _statistics_gap(call: Call) -> float:
    ways = [observe(call.q, call.k, call.v, scores=call.scores, backend=name) for name in ("blockwise", "dense")]
    pairs = [(getattr(ways[0], name), getattr(ways[1], name)) for name in ("entropy", "logsumexp", "output")]
    pairs.append((ways[0].distance.mean, ways[1].distance.mean))
    gaps = [
        float((one - other).nan_to_num(neginf=0.0).abs().max()) / (1 + float(other.nan_to_num(neginf=0.0).abs().max()))
        for one, other in pairs
        if one.numel()
    ]
    return max(gaps, default=0.0)


def _parts_gap(use: MatrixUse, take: MatrixTake, z: Tensor) -> float:
    """Σ over heads of z_h W_O[h], what other channels of the matrix add, and the bias, against the matrix's output."""
    matrix = as_matrix(use)
    if matrix is None:
        return math.inf
    rows = matrix.rows(matrix.x).double()[take.rows]
    weight = matrix.weight.double()
    rows[:, take.channels] = z.flatten().double()[take.cells]
    total = rows @ weight if matrix.bias is None else rows @ weight + matrix.bias.double()
    actual = matrix.rows(matrix.with_input(matrix.x)).double()[take.rows]
    return relative_difference(total, actual)


def _ablation(opened: AnyTorchModel, sites: list[str], found: _Findings) -> float:
    """One head of each of these sites off: through the observer, and by zeros in W_O. Mixed heads are not compared."""
    sites = [name for name in sites if opened.learned[name].kind != "mixed"]
    if not sites:
        found.moved = max(found.moved, _gap(opened.outputs(lambda _, call: 0 * plain(call), None), found.own))
        return 0.0
    heads = {name: 1 % opened.learned[name].n_heads for name in sites}
    takes = _takes_by_use(opened, sites)

    def ablate(name: str, call: Call) -> Tensor:
        z = plain(call)
        if name in heads:
            z = z.clone()
            z[:, heads[name]] = 0.0
        return z

    def zeroed(use: MatrixUse) -> Tensor | None:
        here = takes.get(use.index)
        matrix = as_matrix(use) if here else None
        if here is None or matrix is None:
            return None
        sizes = {name: opened.learned[name].shape[-1] for name, _ in here}
        return matrix.without(torch.cat([take.order.view(-1, sizes[name])[heads[name]] for name, take in here]))

    ours = opened.outputs(ablate, None)
    found.moved = max(found.moved, _gap(ours, found.own))
    return _gap(ours, opened.outputs(None, zeroed))


def seeded(run: Callable[[], Tensor], seed: int = 0) -> Tensor:
    """Run without gradients, with a fixed seed: some modules draw while they run."""
    with torch.no_grad(), fixed_seed(seed):
        return run()
