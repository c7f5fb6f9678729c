"""A probe's task: run its batches, score the model on it, and score it again with a head mean-ablated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.look.layer_cache import LayerCache
from headscope.heads.roles.probes.probe import Batch, Probe, is_causal
from headscope.models.protocol import KEEP, ForwardPass, SiteObserver
from headscope.models.recording import OpenModel
from headscope.names import Head

Positions = Int[Tensor, " position"] | None

MOST_CACHED = 8  # layers whose outputs are kept while heads are ablated


def run_batch(model: OpenModel, batch: Batch, observer: SiteObserver) -> tuple[ForwardPass, Positions]:
    """Run a batch; return also the positions of its logits: only those that the task needs, where a model can do that.

    The product with W_U is a large part of a small model's cost, and most rows of it are never looked at.
    """
    inputs, at = batch.inputs(model), None
    if KEEP in model.takes and is_causal(model):
        inputs[KEEP] = at = batch.task_positions()
    return model.run(inputs, observer), at


def task_scores(
    batch: Batch, logits: Float[Tensor, "input position vocabulary"], at: Positions = None
) -> Float[Tensor, " input"] | None:
    """The logit difference, or the mean log-probability of the next tokens of ``task_rows``; None without a task.

    ``at`` are the positions of the logits, all of them unless given.
    """
    at = torch.arange(batch.ids.shape[1]) if at is None else at
    target = batch.logit_difference
    if target is not None:
        each = torch.arange(len(batch))
        at_position = logits[each, torch.searchsorted(at, target.position).to(logits.device)].float().cpu()
        return at_position[each, target.right] - at_position[each, target.wrong]
    if batch.task_rows is None or logits.shape[1] != len(at):
        return None
    at = at[at < batch.ids.shape[1] - 1]
    rows = batch.task_rows[:, at].float()
    chances = logits[:, : len(at)].float().log_softmax(-1)
    said = chances.gather(-1, batch.ids[:, at + 1, None].to(logits.device))[..., 0].cpu()
    return (said * rows).sum(1) / rows.sum(1)


class TaskAblation:
    """A probe's task with heads mean-ablated in turn. The layers below a head are computed once, for all heads."""

    @torch.no_grad()
    def __init__(self, model: OpenModel, probe: Probe) -> None:
        self.model, self.batches = model, [(batch, LayerCache(model)) for batch in probe.batches]
        for batch, layers in self.batches:
            every = max(1, len(layers.stack) // MOST_CACHED)
            with layers.recording(every):
                whole = self._logits(batch, _plain)
            layers.forget_unless_equal(partial(self._logits, batch, _plain), whole)

    @torch.no_grad()
    def scores(self, head: Head) -> Float[Tensor, " input"]:
        """Score the model on the task without this head."""
        runs = self.runs(head, lambda _: mean_ablation(head))
        found = [task_scores(batch, done.logits, at) for batch, done, at in runs]
        return torch.cat([scores for scores in found if scores is not None])

    def runs(
        self, head: Head, observer: Callable[[Batch], SiteObserver]
    ) -> Iterator[tuple[Batch, ForwardPass, Positions]]:
        """Run each batch under an observer that changes nothing below this head."""
        for batch, layers in self.batches:
            with layers.skipping_below(head.site):
                yield batch, *run_batch(self.model, batch, observer(batch))

    def _logits(self, batch: Batch, observer: SiteObserver) -> Tensor:
        return run_batch(self.model, batch, observer)[0].logits


def _plain(site: str, call: Call) -> Tensor:
    return plain(call)


def mean_ablation(head: Head, positions: Tensor | None = None) -> SiteObserver:
    """An observer that replaces a head's z by its mean over the batch (at one position of each input, if given)."""

    def attend(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site != head.site:
            return z
        z = z.clone()
        mean = z[:, head.head].mean((0, 1))
        if positions is None:
            z[:, head.head] = mean
        else:
            z[torch.arange(len(z)), head.head, positions.to(z.device)] = mean
        return z

    return attend
