"""Find the way from the residual stream to the logits: the final norm, the matrix W_U, and what comes after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.protocol import Unembedding
from headscope.models.structure.trace import LeafCall, TracedPass, is_matrix
from headscope.models.structure.weights import weight_and_bias

NO_NORM = "no norm stands before W_U"
HELD_NORM = "the final norm is held at this text's own statistics"
EXACTNESS, HALF_EXACTNESS = 1e-6, 1e-2
CAPPED = "the model caps its logits after W_U; attribution is of the logits before the cap"


@dataclass(frozen=True)
class UnembeddingPath:
    """The modules between the residual stream and the logits, and one factor; or why there are none."""

    matrix: nn.Module | None
    norm: nn.Module | None
    scale: float = 1.0
    note: str = ""
    why_not: str = ""

    @property
    def first(self) -> nn.Module | None:
        """The module whose input is the residual stream."""
        return None if self.why_not else self.norm or self.matrix

    def weights(self, name: str) -> Unembedding:
        """The norm and W_U, with the factor multiplied into W_U."""
        if self.why_not or self.matrix is None:
            raise ModelError(f"{name}: {self.why_not}; a logit cannot be split over its heads")
        weight, bias = weight_and_bias(self.matrix, name)
        scaled = weight.T if self.scale == 1.0 else weight.T * self.scale
        return Unembedding(self.norm, scaled, bias, self.note, caps=CAPPED in self.note)


def find_unembedding(model: nn.Module, traced: TracedPass, logits: Tensor | None) -> UnembeddingPath:
    """Follow W_U's input back to the final norm, and the norm's input back to the residual stream."""
    matrix = _output_matrix(model)
    used = next((leaf for leaf in reversed(traced.leaves) if leaf.module is matrix), None)
    if matrix is None or used is None or logits is None:
        return UnembeddingPath(None, None, why_not="this model has no unembedding: it does not predict tokens")
    after, note = _after(used.output, logits)
    norm, before = _norm_before(used, traced)
    if norm is None and _is_residual(used.input, traced):
        return UnembeddingPath(matrix, None, after, note or NO_NORM)
    if norm is None or not _is_residual(norm.input, traced):
        return UnembeddingPath(matrix, None, why_not="other layers lie between the residual stream and W_U")
    return UnembeddingPath(matrix, norm.module, before * after, f"{HELD_NORM}; {note}" if note else HELD_NORM)


def find_last_matrix(traced: TracedPass, logits: Tensor, table: Any) -> UnembeddingPath:
    """The last norm, and W_U: a Linear whose output is the logits, or the embedding ``table`` used again."""
    leaves = [(leaf.module, leaf.output) for leaf in traced.leaves]
    if not leaves:
        return UnembeddingPath(None, None, why_not="no matrix was found that turns its last states into logits")
    last, made = leaves[-1]
    matrix = last if isinstance(last, nn.Linear) and torch.equal(made, logits) else None
    before, state = leaves[-2] if matrix is not None and len(leaves) > 1 else (last, made)
    norm = before if "norm" in type(before).__name__.lower() else None
    if matrix is not None:
        return UnembeddingPath(matrix, norm, note=NO_NORM if norm is None else HELD_NORM)
    shape = (getattr(table, "embedding_dim", None), getattr(table, "num_embeddings", None))
    tied = norm is not None and shape == (state.shape[-1], logits.shape[-1])
    if tied and torch.allclose(state @ table.weight.T, logits, rtol=1e-3, atol=1e-4):
        return UnembeddingPath(table, norm, note=HELD_NORM)
    return UnembeddingPath(None, None, why_not="no matrix was found that turns its last states into logits")


def _output_matrix(model: nn.Module) -> nn.Module | None:
    getter: Any = getattr(model, "get_output_embeddings", None)
    try:
        found = None if getter is None else getter()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) else None


def _norm_before(used: LeafCall, traced: TracedPass) -> tuple[LeafCall | None, float]:
    """The leaf whose output is W_U's input, itself or multiplied by one number (T5 divides by √d_model)."""
    for leaf in reversed(traced.leaves):
        unchanged = leaf.output.data_ptr() == leaf.input.data_ptr()
        if leaf.module is used.module or unchanged or leaf.output.shape != used.input.shape or is_matrix(leaf.module):
            continue
        if leaf.output.data_ptr() == used.input.data_ptr():
            return leaf, 1.0
        ratio = _ratio(leaf.output, used.input)
        if ratio is not None:
            return leaf, ratio
    return None, 1.0


def _after(made: Tensor, logits: Tensor) -> tuple[float, str]:
    """What the model does with W_U's output: nothing, one factor, or something that is not linear."""
    if made.shape != logits.shape or torch.equal(made, logits):
        return 1.0, ""
    ratio = _ratio(made, logits)
    if ratio is not None:
        return ratio, f"the model multiplies its logits by {ratio:.6g}, which is folded into W_U"
    return 1.0, CAPPED


def _ratio(a: Tensor, b: Tensor) -> float | None:
    """c if b = c · a, else None."""
    half, eps = a.dtype in (torch.float16, torch.bfloat16), torch.finfo(a.dtype).eps
    a, b = a.double().flatten(), b.double().flatten()
    if not bool(a.any()) or not bool(torch.isfinite(b).all()):
        return None
    ratio = float(a @ b) / float(a @ a)
    near = float((b - ratio * a).abs().max()) <= (HALF_EXACTNESS if half else EXACTNESS) * float(b.abs().max())
    return ratio if near and not (half and _bends(a, b, eps)) else None


def _bends(a: Tensor, b: Tensor, eps: float) -> bool:
    """Whether b / a is smaller for large entries than for small ones, by more than rounding can make it: a cap."""
    large = a.abs() > a.abs().median()
    if not bool(large.any()) or not bool(a[~large].any()):
        return False
    above, below = (float(a[part] @ b[part]) / float(a[part] @ a[part]) for part in (large, ~large))
    return abs(above) < (1 - eps) * abs(below)


def _is_residual(state: Tensor, traced: TracedPass) -> bool:
    return any(
        block.shape == state.shape and (block.data_ptr() == state.data_ptr() or torch.equal(block, state))
        for block in traced.blocks
    )


def through_frozen_norm(
    norm: torch.nn.Module | None, at: Float[Tensor, " d_model"], directions: Float[Tensor, "... d_model"]
) -> Float[Tensor, "... d_model"]:
    """Pull directions back through a norm whose scale is held."""
    gain, centred = frozen_norm(norm, at)
    reading = gain.to(directions.device) * directions
    return reading - reading.mean(-1, keepdim=True) if centred else reading


def frozen_norm(
    norm: torch.nn.Module | None, residual: Float[Tensor, " d_model"]
) -> tuple[Float[Tensor, " d_model"], bool]:
    """The final norm as what it is at this residual: a gain for each entry, and whether it takes the mean away.

    Found by trying it, so that it holds for RMSNorm and LayerNorm under any name and however the gain is stored.
    """
    residual = residual.float()
    if norm is None:
        return torch.ones_like(residual), False
    parameter = next(norm.parameters(), residual)

    def apply(x: Tensor) -> Tensor:
        with torch.no_grad():
            normed: Tensor = norm(x.to(parameter)[None, None])
        return normed[0, 0].float()

    at_zero = apply(torch.zeros_like(residual))
    shift = residual.std().clamp(min=1e-6) * 10
    centred = bool(torch.allclose(apply(residual + shift), apply(residual), rtol=1e-2, atol=1e-2))
    signs = torch.ones_like(residual)
    signs[1::2] = -1
    gain = (apply(signs) - at_zero) / (signs - signs.mean() if centred else signs)
    inner = residual - residual.mean() if centred else residual
    scaled = inner * gain
    size = ((apply(residual) - at_zero) @ scaled) / (scaled @ scaled).clamp(min=1e-12)
    return gain * size, centred
