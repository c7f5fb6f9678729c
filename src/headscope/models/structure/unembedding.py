"""Find the way from the residual stream to the logits: the final norm, the matrix W_U, and what comes after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.modes import hooked
from headscope.models.protocol import Unembedding
from headscope.models.structure.readers import before_norm, probed, value_of
from headscope.models.structure.recorder import RecordedStream, current_recorder
from headscope.models.structure.sites import input_embedding
from headscope.models.structure.tape import PRODUCT, SHAPE, Node, Op, Slot
from headscope.models.structure.trace import is_matrix
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


def find_unembedding(model: Any) -> UnembeddingPath:
    """Follow the logits of the probe back to W_U, and what W_U reads back to the final norm and the residual stream."""
    own, named = _output_matrix(model.model), hasattr(model.model, "get_output_embeddings")
    used: list[tuple[nn.Module, Node | None, Tensor]] = []

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        recorder = current_recorder.get()
        if recorder is not None and args and isinstance(output, Tensor):
            used[:] = [(module, recorder.tape.node_of(args[0]), output)]

    with hooked(
        [each for each in model.model.modules() if each is own or (not named and is_matrix(each))], after=after
    ):
        stream = probed(model)
    assert stream.logits is not None, "the probe is run to its end"
    matrix, node, made = used[0] if used else (None, None, stream.logits)
    if matrix is None and named:
        return UnembeddingPath(None, None, why_not="this model has no unembedding: it does not predict tokens")
    if not named and (matrix is None or not torch.equal(made, stream.logits)):
        matrix, node, made = input_embedding(model.model), _reads_tied(model.model, stream), stream.logits
        if node is None:
            return UnembeddingPath(None, None, why_not="no matrix was found that turns its last states into logits")
    norm, stream.final, before = _back_to_stream(model.model, node)
    if stream.final is None:
        return UnembeddingPath(matrix, None, why_not="other layers lie between the residual stream and W_U")
    scale, note = _after(made, stream.logits)
    held = NO_NORM if norm is None else HELD_NORM
    return UnembeddingPath(matrix, norm, before * scale, f"{held}; {note}" if note else held)


def _reads_tied(model: nn.Module, stream: RecordedStream) -> Node | None:
    """What is multiplied by the embedding, where that gives the logits."""
    table, logits = getattr(input_embedding(model), "weight", None), stream.logits
    node = stream.tape.reads[-1][1] if stream.tape.reads else None
    if node is None or logits is None or table is None or table.shape != (logits.shape[-1], node.shape[-1]):
        return None
    made = (value_of(node) @ table.T).reshape(-1, logits.shape[-1])
    same = made.numel() == logits.numel() and torch.allclose(made, logits.flatten(0, -2), rtol=1e-3, atol=1e-4)
    return node if same else None


def _back_to_stream(model: nn.Module, node: Node | None) -> tuple[nn.Module | None, Node | None, float]:
    """The norm that this comes from, what the norm reads, and a number between them (T5 divides by √d_model)."""
    factor = 1.0
    while isinstance(node, Op):
        before, number = next(node.parents), _number(node)
        if number is None and (node.name not in SHAPE or node.shape.numel() != before.shape.numel()):
            break
        factor, node = factor * (number or 1.0), before
    if not isinstance(node, Op):
        return None, node, factor
    read, module = before_norm(node), model.get_submodule(node.path)
    is_norm = read is not node and next(module.children(), None) is None
    return (module, read, factor) if is_norm else (None, node, factor)


def _number(op: Op) -> float | None:
    """The number that an operation multiplies by."""
    if op.name not in PRODUCT:
        return None
    other = next(arg for arg in op.args[:2] if not (isinstance(arg, Slot) and arg.carried))
    if isinstance(other, Slot):
        dynamic = other.node is not None and other.node.dynamic
        other = None if dynamic or other.value is None or other.value.numel() > 1 else float(other.value)
    return None if other is None else float(other) if op.name == "mul" else 1.0 / float(other)


def _output_matrix(model: nn.Module) -> nn.Module | None:
    getter: Any = getattr(model, "get_output_embeddings", None)
    try:
        found = None if getter is None else getter()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) else None


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


def through_frozen_norm(
    norm: torch.nn.Module | None, at: Float[Tensor, " d_model"], directions: Float[Tensor, "... d_model"]
) -> Float[Tensor, "... d_model"]:
    """Pull directions back through a norm whose scale is frozen."""
    gain, centred = frozen_norm(norm, at)
    reading = gain.to(directions.device) * directions
    return reading - reading.mean(-1, keepdim=True) if centred else reading


def frozen_norm(
    norm: torch.nn.Module | None, residual: Float[Tensor, " d_model"]
) -> tuple[Float[Tensor, " d_model"], bool]:
    """Return what the final norm does at this residual: a gain for each entry, and whether it subtracts the mean.

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
