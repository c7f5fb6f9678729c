"""Find W_Q, W_K and W_V by head: the matrix that q, k or v comes from in the recorded pass of the probe.

Gradients of one head's query with respect to that matrix's output say which of its rows feed that head, so fused and
interleaved projections need no table of layouts. Rows are in the order in which the matrix has them. Norms are held
where q, k or v is a sum of what was written into the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import ModelError
from headscope.models.modes import own_precision
from headscope.models.structure.carry import Route, recompute
from headscope.models.structure.readers import probed
from headscope.models.structure.tape import MATRIX, Node, Op, walk
from headscope.models.structure.trace import is_matrix
from headscope.models.structure.weights import weight_and_bias

Which = Literal["q", "k", "v"]
SIDES: tuple[Which, ...] = ("q", "k", "v")


SEVERAL = "several matrices compute it, or one is chosen for each token"


class _Projection(NamedTuple):
    """A matrix as ``x @ weight``, the path of its module where it is one, and which outputs feed each head."""

    path: str | None
    weight: Float[Tensor, "in out"]
    rows: list[Tensor]

    def by_head(self) -> Float[Tensor, "head in d_head"]:
        return torch.stack([self.weight[:, row] for row in self.rows])


@own_precision()
def find_projection(model: Any, site: str, which: Which) -> _Projection:
    """Return W_Q, W_K or W_V of one site; raise an error with the reason if there is none."""
    stream = probed(model)
    if site not in stream.sites:
        raise ModelError(f"{site} is not reached by the inputs this model was traced with")
    reads = stream.sites[site]
    target, name = reads.made.get(which), f"{site}: W_{which.upper()} cannot be found"
    if target is None:
        raise ModelError(f"{name}: no matrix computes it from the stream itself")
    held = Route(target) if which in reads.nodes else None
    ops = [op for op in (_made_from(target) if held is None else held.ops) if op.in_site]
    matrices = [op for op in ops if op.name in MATRIX and _constant(op) is not None]
    if not matrices:
        raise ModelError(f"{name}: no matrix computes it, or one whose weights are quantised")
    path = _module_of(model, matrices[-1].path)
    own = [op for op in ops if op is matrices[-1] or (path and (op.path + ".").startswith(path + "."))]
    made = max(own, key=lambda op: op.order)
    weight = weight_and_bias(model.model.get_submodule(path), site)[0] if path else _constant(matrices[-1])
    assert weight is not None, "of a product with a constant"
    rows = _rows(target, made, held, weight)
    if not all(map(len, rows)) or made.shape[-1] != weight.shape[-1]:
        raise ModelError(f"{name}: no matrix computes it")
    if any(len(row) != target.shape[-1] for row in rows):
        raise ModelError(
            f"{name}: a head takes {len(rows[0])} outputs of its projection for {target.shape[-1]} numbers, so more "
            "than a rotation or norm lies between them"
        )
    others = set(matrices) - set(own)
    if others:
        latent = others & set(_made_from(made))
        raise ModelError(f"{name}: {'two matrices compute it, through a latent' if latent else SEVERAL}")
    return _Projection(path, weight, rows)


def _made_from(target: Node) -> list[Op]:
    """The operations inside the attention module that a tensor comes from, in order, whatever they carry."""

    def inputs(node: Node) -> list[Node]:
        slots = node.slots if isinstance(node, Op) and node.in_site else ()
        return [slot.node for slot in slots if slot.node is not None]

    found = (node for node in walk([target], inputs) if isinstance(node, Op) and node.in_site)
    return sorted(found, key=lambda op: op.order)


def _constant(op: Op) -> Float[Tensor, "in out"] | None:
    """The matrix of weights of a product; None for a product of two activations."""
    right = op.args[2] if op.name in ("addmm", "baddbmm") else op.args[1]
    if right.value is None or (right.node is not None and right.node.dynamic):
        return None
    value: Tensor = right.value[0] if right.value.ndim == 3 and len(right.value) == 1 else right.value
    return value if value.ndim == 2 else None


def _module_of(model: Any, path: str) -> str | None:
    """The outermost matrix module that an operation runs in: all of an adapted or quantised one is the matrix."""
    words = path.split(".")
    prefixes: Iterable[str] = (".".join(words[: count + 1]) for count in range(len(words)))
    return next((prefix for prefix in prefixes if is_matrix(model.model.get_submodule(prefix))), None)


@torch.enable_grad()
def _rows(target: Node, made: Op, held: Route | None, weight: Tensor) -> list[Tensor]:
    """Which outputs of the matrix feed each head."""
    generator = torch.Generator().manual_seed(0)
    trial = torch.rand(made.shape, generator=generator).add(1).to(weight)
    trial.requires_grad_()
    states = held.carry(made, trial) if held is not None else recompute(target, {made: trial})
    if states is None:
        return []
    rows = []
    for head in range(states.shape[1]):
        direction = torch.randn(states[:, head].shape, generator=generator).to(states)
        (gradient,) = torch.autograd.grad(
            (states[:, head] * direction).sum(), trial, retain_graph=True, allow_unused=True
        )
        reached = trial.new_zeros(trial.shape) if gradient is None else gradient
        rows.append(reached.flatten(0, -2).abs().sum(0).nonzero()[:, 0])
    return rows
