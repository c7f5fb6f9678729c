"""From the residual stream to logits: the matrix W_U, the norm before it, and what a family does after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.protocol import Unembedding
from headscope.models.structure.output_weight import weight_and_bias
from headscope.models.structure.trace import Taken, Trace, is_matrix


@dataclass(frozen=True)
class Ending:
    """How the trace ended: which module reads the last residual stream, and how its answer becomes logits."""

    matrix: nn.Module | None
    norm: nn.Module | None
    scale: float = 1.0
    note: str = ""
    refused: str = ""

    @property
    def reader(self) -> nn.Module | None:
        """The module whose input is the residual stream."""
        return None if self.refused else self.norm or self.matrix


def find_ending(model: nn.Module, seen: Trace, logits: Tensor | None) -> Ending:
    """Follow W_U's input back to the final norm, and the norm's input back to the residual stream."""
    matrix = _output_matrix(model)
    used = next((leaf for leaf in reversed(seen.leaves) if leaf.module is matrix), None)
    if matrix is None or used is None or logits is None:
        return Ending(None, None, refused="this model has no unembedding: its last states are not turned into tokens")
    after, note = _after(used.left, logits)
    norm, before = _norm_before(used, seen)
    if norm is None and _is_block_state(used.entered, seen):
        return Ending(matrix, None, after, note or "no norm stands before W_U")
    if norm is None or not _is_block_state(norm.entered, seen):
        return Ending(matrix, None, refused="layers of the head's own stand between the residual stream and W_U")
    words = "the final norm is held at this text's own statistics"
    return Ending(matrix, norm.module, before * after, f"{words}; {note}" if note else words)


def unembedding(ending: Ending, name: str) -> Unembedding:
    """The ending as weights, scales folded in."""
    if ending.refused or ending.matrix is None:
        raise ModelError(f"{name}: {ending.refused}; a logit cannot be split over its heads")
    weight, bias = weight_and_bias(ending.matrix, name)
    scaled = weight.T if ending.scale == 1.0 else weight.T * ending.scale
    return Unembedding(ending.norm, scaled, bias, ending.note)


def _output_matrix(model: nn.Module) -> nn.Module | None:
    getter: Any = getattr(model, "get_output_embeddings", None)
    try:
        found = None if getter is None else getter()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) else None


def _norm_before(used: Taken, seen: Trace) -> tuple[Taken | None, float]:
    """The leaf whose output entered W_U, itself or multiplied by one number (T5 divides by √d_model)."""
    for leaf in reversed(seen.leaves):
        unchanged = leaf.left.data_ptr() == leaf.entered.data_ptr()
        if leaf.module is used.module or unchanged or leaf.left.shape != used.entered.shape or is_matrix(leaf.module):
            continue
        if leaf.left.data_ptr() == used.entered.data_ptr():
            return leaf, 1.0
        ratio = _ratio(leaf.left, used.entered)
        if ratio is not None:
            return leaf, ratio
    return None, 1.0


def _after(made: Tensor, logits: Tensor) -> tuple[float, str]:
    """What the family does with W_U's answer: nothing, one factor, or something that is not linear."""
    if made.shape != logits.shape or torch.equal(made, logits):
        return 1.0, ""
    ratio = _ratio(made, logits)
    if ratio is not None:
        return ratio, f"the model multiplies its logits by {ratio:.6g}, which is folded into W_U"
    return 1.0, "the model caps its logits after W_U; shares are of the logits before the cap"


def _ratio(a: Tensor, b: Tensor) -> float | None:
    """c if b = c · a, else None."""
    exactness = 1e-2 if a.dtype in (torch.float16, torch.bfloat16) else 1e-6
    a, b = a.double().flatten(), b.double().flatten()
    norm = float(a @ a)
    if norm == 0 or not bool(torch.isfinite(b).all()):
        return None
    ratio = float(a @ b) / norm
    return ratio if float((b - ratio * a).abs().max()) <= exactness * float(b.abs().max()) else None


def _is_block_state(state: Tensor, seen: Trace) -> bool:
    return any(
        block.shape == state.shape and (block.data_ptr() == state.data_ptr() or torch.equal(block, state))
        for block in seen.blocks
    )
