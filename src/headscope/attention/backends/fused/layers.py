"""Statistics of several layers at once, for short texts: few launches after a forward pass instead of many during it.

A layer of a short text is too little work for a GPU: the time goes into starting kernels. So q and k of all layers,
which are O(T), are kept, stacked, and given to one kernel. It computes the scores a second time and sums each question
over all keys, where the long path sorts labels and visits matching keys only; past ``LONGEST`` that costs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.backends.fused.flash import attend, has_much_shared_memory, interpreted, on_gpu_of
from headscope.attention.backends.fused.host import KernelInputs, refuse
from headscope.attention.backends.fused.intervals import Intervals
from headscope.attention.masks import Causal, Window
from headscope.attention.observation import Distance, Rows, Strongest
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

LONGEST = 4096
"""Keys up to which layers together are faster than one by one, as measured by ``bench/look.py`` on an H200."""
MOST_QUESTIONS = 16
TRAITS = 5
"""Values before the masses: log-sum-exp, entropy, mean and standard deviation of the distance, strongest weight."""


class LayerStatistics(NamedTuple):
    """What the kernel writes: numbers in one tensor, so that they can be summed by one kernel as well."""

    values: Float[Tensor, "quantity item head query"]
    """``TRAITS``, then the mass of each question."""
    strongest: Int[Tensor, "item head query"]


def refuse_layer(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> str | None:
    """Return why a layer cannot wait to be observed with others, or None. ``scores`` is bound."""
    reason = refuse(q, k, v, scores)  # first, since it is quickest to refuse a CPU
    if reason is not None:
        return reason
    if max(q.shape[2], k.shape[2]) > LONGEST:
        return f"layers together take up to {LONGEST} keys, got {k.shape[2]}"
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return "gradients are wanted"
    if not all(isinstance(part, Causal | Window) for part in scores.mask.parts):
        return "layers together take causal masks and windows"
    return None


def attend_within(q: Tensor, k: Tensor, v: Tensor, scores: Scores, visible: Intervals) -> Tensor:
    """Compute only z, each row over its interval of keys. ``scores`` is bound; its mask is not read."""
    with on_gpu_of(q):
        return attend(KernelInputs.prepare(q, k, v, scores, visible), frozenset()).output


def observe_layers(
    q: Float[Tensor, "item head query d_head"],
    k: Float[Tensor, "item kv key d_head"],
    scores: Scores,
    questions: Mapping[str, Question],
    visible: Intervals | None = None,
) -> Rows:
    """Compute every statistic of every item: one text in one layer. ``scores`` is bound; ``output`` is left empty.

    Masks and labels may be of fewer items: those of the texts of one layer, which repeat from layer to layer.
    ``visible`` is the mask as intervals, where they are known already.
    """
    found = statistics_of(q, k, scores, questions, visible)
    lse, entropy, mean, std, weight, *masses = found.values.unbind()
    mass = dict(zip(questions, masses, strict=True))
    output = q.new_empty(*q.shape[:3], 0)
    return Rows(output, lse, entropy, Distance(mean, std), Strongest(found.strongest, weight), mass)


def statistics_of(
    q: Float[Tensor, "item head query d_head"],
    k: Float[Tensor, "item kv key d_head"],
    scores: Scores,
    questions: Mapping[str, Question],
    visible: Intervals | None = None,
) -> LayerStatistics:
    """Launch the kernel, as often as ``MOST_QUESTIONS`` questions at a time need. See ``observe_layers``."""
    from headscope.attention.backends.fused import layer_kernel

    if len(questions) > MOST_QUESTIONS:
        return _in_parts(q, k, scores, questions, visible)
    inputs = KernelInputs.prepare(q, k, k, scores, visible)
    asks, labels = (_stacked([getattr(each, side) for each in questions.values()], q) for side in ("query", "key"))
    n_items, n_heads, n_query, d_head = q.shape
    values = torch.empty(TRAITS + len(questions), *q.shape[:3], dtype=torch.float32, device=q.device)
    key = inputs.empty(torch.int64)
    tile = _tile(q.dtype, d_head, has_much_shared_memory(q.device))
    with on_gpu_of(q):
        layer_kernel.layers[(-(-n_query // tile) * n_items * n_heads,)](
            inputs.q, inputs.k, *values[:TRAITS].unbind(), key, values[TRAITS:],
            inputs.visible.low, inputs.visible.high, asks, labels, n_query, k.shape[2], k.shape[1],
            len(inputs.visible.low), len(asks), inputs.scale,
            inputs.softcap or 0.0, *inputs.q.stride()[:3], *inputs.k.stride()[:3], BM=tile, BN=tile,
            PRECISION=_precision(q), N=len(questions), NP=max(2, 1 << (len(questions) - 1).bit_length()),
            EXCLUDE_SELF=sum(each.exclude_self << n for n, each in enumerate(questions.values())),
            num_warps=4, **inputs.common,
        )  # fmt: skip
    return LayerStatistics(values, key)


def _in_parts(
    q: Tensor, k: Tensor, scores: Scores, questions: Mapping[str, Question], visible: Intervals | None
) -> LayerStatistics:
    """Ask some questions at a time: each one takes registers."""
    names = list(questions)
    parts = [names[first : first + MOST_QUESTIONS] for first in range(0, len(names), MOST_QUESTIONS)]
    found = [statistics_of(q, k, scores, {name: questions[name] for name in part}, visible) for part in parts]
    values = torch.cat((found[0].values, *(other.values[TRAITS:] for other in found[1:])))
    return LayerStatistics(values, found[0].strongest)


def _stacked(labels: Sequence[Tensor], q: Tensor) -> Int[Tensor, "text question position"]:
    """The labels of all questions, where q is."""
    if not labels:
        return torch.zeros(1, 1, 1, dtype=torch.int32, device=q.device)
    texts = max(len(each) for each in labels)
    together = torch.stack([each.expand(texts, -1) for each in labels], 1)
    return together.to(q.device, non_blocking=True)


def _tile(dtype: torch.dtype, d_head: int, much_memory: bool) -> int:
    """Rows and keys at once; in float32, more would not fit the registers."""
    if interpreted():
        return 64
    if dtype == torch.float32 and d_head > 128 and not much_memory:
        return 16
    return 32 if d_head > 128 or (dtype == torch.float32 and d_head > 64) else 64


def _precision(q: Tensor) -> str:
    """How float32 is multiplied: on tensor cores as three products of 10-bit parts, which is as exact to 1e-6."""
    if q.dtype != torch.float32:
        return "tf32"
    return "ieee" if interpreted() or torch.version.hip is not None else "tf32x3"
