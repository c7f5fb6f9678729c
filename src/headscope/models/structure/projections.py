"""Find W_Q, W_K and W_V by head, by following q, k and v back to the matrix that computed them.

Gradients of one head's query with respect to a matrix's output say which of its rows feed that head, so fused and
interleaved projections need no table of layouts. Rows are in the order in which the matrix has them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.huggingface.attention import AttentionCall
from headscope.models.modes import own_precision
from headscope.models.structure.trace import hooked, is_matrix, tracing
from headscope.models.structure.weights import weight_and_bias

Which = Literal["q", "k", "v"]
_NAMES: dict[Which, str] = {"q": "W_Q", "k": "W_K", "v": "W_V"}


class _ReachedError(Exception):
    """The site has been reached: the rest of the pass is not needed."""


@own_precision()
def projection_weight(model: nn.Module, path: str, which: Which, run: Callable[[], Any], site: str) -> Tensor:
    """W_Q, W_K or W_V ``[head, d_in, d_head]`` of one site; refused with a reason where there is none."""
    matrix, rows = _projection(model, path, which, _run_to_site(model, path, run), site)
    whole, _ = weight_and_bias(matrix, site)
    return torch.stack([whole[:, row] for row in rows])


@own_precision()
def projection_rows(
    model: nn.Module, path: str, run: Callable[[], Any], site: str
) -> dict[Which, tuple[str, list[Tensor]]]:
    """For q, k and v of one site: the path of the matrix that computes it, and the rows of it that feed each head."""
    reached = _run_to_site(model, path, run)
    paths = {id(module): name for name, module in model.named_modules()}
    found = {which: _projection(model, path, which, reached, site) for which in _NAMES}
    return {which: (paths[id(matrix)], rows) for which, (matrix, rows) in found.items()}


_Reached = tuple[Any, list[tuple[nn.Module, Tensor]]]


@torch.enable_grad()
def _projection(
    model: nn.Module, path: str, which: Which, reached: _Reached, site: str
) -> tuple[nn.Module, list[Tensor]]:
    call, outputs = reached
    states = {"q": call.q, "k": call.k, "v": call.v}[which]
    for matrix, made in reversed(outputs):
        rows = _rows(states, made)
        if rows is None:
            continue
        if any(len(row) != states.shape[-1] for row in rows):
            raise ModelError(
                f"{site}: {_NAMES[which]} cannot be found: a head takes {len(rows[0])} outputs of its projection for "
                f"{states.shape[-1]} numbers, so more than a rotation or norm lies between them"
            )
        if _is_second_stage(set(model.get_submodule(path).modules()), outputs, made):
            raise ModelError(f"{site}: {_NAMES[which]} cannot be found: two matrices compute it, through a latent")
        return matrix, rows
    raise ModelError(f"{site}: {_NAMES[which]} cannot be found: no matrix computes it")


def _run_to_site(model: nn.Module, path: str, run: Callable[[], Any]) -> _Reached:
    """The site's attention call, with gradients back to the outputs of the matrices before it."""
    wanted = model.get_submodule(path)
    outputs: list[tuple[nn.Module, Tensor]] = []
    reached: list[Any] = []

    def on_call(attention: AttentionCall) -> Tensor:
        if attention.call.site is wanted:
            reached.append(attention.call)
            raise _ReachedError
        outputs.clear()
        return attention.z.detach()

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return None
        leaf = output.detach().requires_grad_() if not output.requires_grad else output
        outputs.append((module, leaf))
        return leaf

    matrices = [part for part in model.modules() if is_matrix(part)]
    with suppress(_ReachedError), hooked(matrices, after=after), tracing(on_call), torch.enable_grad():
        run()
    if not reached:
        raise ModelError(f"{path} is not reached by the inputs this model was traced with")
    return reached[0], outputs


def _rows(states: Tensor, made: Tensor) -> list[Tensor] | None:
    """Which outputs of the matrix feed each head; None if it does not feed them at all."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for head in range(states.shape[1]):
        direction = torch.randn(states[:, head].shape, generator=generator).to(states)
        score = (states[:, head] * direction).sum()
        (gradient,) = torch.autograd.grad(score, made, retain_graph=True, allow_unused=True)
        if gradient is None or not gradient.any():
            return None
        rows.append(gradient.flatten(0, -2).abs().sum(0).nonzero()[:, 0])
    return rows


def _is_second_stage(own: set[nn.Module], outputs: list[tuple[nn.Module, Tensor]], made: Tensor) -> bool:
    """Whether the projection reads another projection of the same attention instead of the residual stream."""
    for matrix, earlier in takewhile(lambda output: output[1] is not made, outputs):
        if matrix in own and earlier.requires_grad:
            (gradient,) = torch.autograd.grad(made.sum(), earlier, retain_graph=True, allow_unused=True)
            if gradient is not None and bool(gradient.any()):
                return True
    return False
