"""Importance of heads: the change of the loss, and the KL divergence of the predictions, when a head is ablated.

Exactly, by ablating every head in turn: the layers below it are computed once and shared, and all heads of a site
go through the layers above in one batch. Or to first order, all heads at once, from one backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import CheckpointError

from headscope.attention.observer import Call, plain
from headscope.attention.progress import counting
from headscope.errors import InputError, ModelError
from headscope.heads.bootstrap import bootstrap
from headscope.heads.edits.ablate import ablate
from headscope.heads.edits.edit import BoundEdit, Edits
from headscope.heads.head_table import HeadTable, of_head
from headscope.heads.look.chunked_loss import chunked_loss
from headscope.heads.look.layer_cache import LayerCache
from headscope.models.modes import ordinary, own_precision
from headscope.models.protocol import ForwardPass, SiteObserver
from headscope.models.recording import OpenModel
from headscope.names import Head

Target = Callable[[Tensor], Tensor]
"""One number from a model's output: a class's logit, the norm of a vector."""


@dataclass(frozen=True)
class Effect:
    """A mean over texts and its 95 % bootstrap interval, which one text does not have."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Importance:
    """One head: the change of the loss (nats per token) without it, and how far the predictions move (KL, nats).

    With a target of one's own, ``loss`` is the change of that target, and there is no ``kl``.
    """

    head: Head
    loss: Effect
    kl: Effect | None


class Importances(list[Importance], HeadTable):
    """Every head's importance, most important first."""

    _column = "loss"
    _signed = True
    what = "Change of the loss without each head (nats per token)"

    def _rows(self) -> list[dict[str, Any]]:
        """A row per head: the change of the loss (or of the target) and the KL divergence, with their intervals."""
        return [{**of_head(each.head), **_columns("loss", each.loss), **_columns("kl", each.kl)} for each in self]

    def _title(self) -> str:
        return self.what

    __repr__ = HeadTable.__repr__


def _columns(name: str, effect: Effect | None) -> dict[str, float | None]:
    mean, low, high = (None, None, None) if effect is None else (effect.mean, effect.low, effect.high)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def importance(
    model: OpenModel,
    texts: Sequence[Any],
    how: Literal["exact", "gradient"] = "exact",
    seed: int = 0,
    edits: Sequence[BoundEdit] = (),
    target: Target | None = None,
) -> Importances:
    """Every head's importance over these texts under these edits, most important first."""
    under = Edits(model, edits)
    if how == "gradient" and under.follows:
        raise InputError("gradients are not taken through ablated paths and patched components; use how='exact'")
    if not texts:
        raise InputError("importance is measured on texts; give at least one")
    advance = counting("leaving out heads", len(texts) * len(model.shape.sites))
    if target is not None:
        measured = []
        for text in texts:
            measured.append(_on_target(under, model.prepare(text).inputs, target, how))
            advance(len(model.shape.sites))
        return _ranked(model, torch.stack(measured), None, seed, how, "Change of the target without each head")
    if model.shape.vocabulary is None:
        raise InputError(
            f"{model.shape.name} predicts no tokens, so a head's effect on its loss cannot be measured; say what is to "
            "be measured, as in target=lambda output: output[..., 3] for the fourth class"
        )
    losses, divergences = [], []
    for text in texts:
        inputs = model.prepare(text).inputs
        if "input_ids" not in inputs or "decoder_input_ids" in inputs:
            raise InputError(f"importance is measured on a decoder's own text; {model.shape.name} reads another kind")
        if inputs["input_ids"].shape[1] < 2:
            raise InputError(f"{text!r} is one token long; the loss needs a next token")
        effects = _exact(under, inputs, advance) if how == "exact" else (_gradient(under, inputs), None)
        losses.append(effects[0])
        divergences.append(effects[1])
        advance(0 if how == "exact" else len(model.shape.sites))
    moved = torch.stack([d for d in divergences if d is not None]) if how == "exact" else None
    return _ranked(model, torch.stack(losses), moved, seed, how)


def _ranked(
    model: OpenModel, losses: Float[Tensor, "text head"], divergences: Float[Tensor, "text head"] | None, seed: int,
    how: str, what: str = Importances.what,
) -> Importances:  # fmt: skip
    heads = model.shape.heads()
    kl = [None] * len(heads) if divergences is None else _effects(divergences, seed)
    found = [Importance(head, a, b) for head, a, b in zip(heads, _effects(losses, seed), kl, strict=True)]
    ranked = Importances(sorted(found, key=lambda entry: -abs(entry.loss.mean)))
    ranked.what = what if how == "exact" else f"{what}, estimated from one gradient"
    return ranked


@own_precision()
def _on_target(edits: Edits, inputs: Mapping[str, Tensor], target: Target, how: str) -> Float[Tensor, " head"]:
    """The change of a target without each head: one head at a time, or to first order from one backward pass."""
    if how == "gradient":
        return _gradient(edits, inputs, lambda output: _one_number(target, output))
    with torch.no_grad():
        base = _one_number(target, edits.run(inputs).logits)
        without = (ablate(head).bind(edits.model) for head in edits.model.shape.heads())
        ablated = (Edits(edits.model, [*edits.bound, edit]).run(inputs).logits for edit in without)
        return torch.stack([_one_number(target, logits) - base for logits in ablated]).float().cpu()


def _one_number(target: Target, output: Tensor) -> Tensor:
    """The target of an output, which has to be one number."""
    found = target(output)
    if not isinstance(found, Tensor) or found.numel() != 1:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"target= gave {shape} for an output of the shape {tuple(output.shape)}; give one number, as in "
            "lambda output: output[..., 3]"
        )
    return found.reshape(())


def text_loss(model: OpenModel, texts: Sequence[Any]) -> float:
    """Mean loss over these texts in nats per token."""
    total, count = 0.0, 0
    for text in texts:
        inputs = model.prepare(text).inputs
        ids = inputs["input_ids"]
        if ids.shape[1] < 2:
            raise InputError(f"{text!r} is one token long; the loss needs a next token")
        with torch.no_grad():
            total += float(_loss(model.run(inputs).logits, ids)) * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return total / count


@torch.no_grad()
def output_change(model: OpenModel, texts: Sequence[Any]) -> dict[Head, float]:
    """For a model without logits: how far its output moves when each head is ablated, relative to its norm."""
    moved = dict.fromkeys(model.shape.heads(), 0.0)
    for text in texts:
        inputs = model.prepare(text).inputs
        whole = model.run(inputs).logits.float()
        for site in model.shape.sites.values():
            copies = {name: value.expand(site.n_heads, *value.shape[1:]) for name, value in inputs.items()}
            changed = model.run(copies, _ablate_one_head_per_copy(site.name)).logits.float() - whole
            sizes = changed.flatten(1).norm(dim=1) / whole.norm()
            for head, size in zip(site.heads(), sizes.tolist(), strict=True):
                moved[head] += size / len(texts)
    return moved


@own_precision()
def _exact(edits: Edits, inputs: Mapping[str, Tensor], advance: Callable[[int], None]) -> tuple[Tensor, Tensor]:
    """Δloss and KL of every head on one text."""
    ids, model = inputs["input_ids"], edits.model
    layers = LayerCache(model)
    with torch.no_grad():
        with nullcontext() if edits.follows else layers.recording():  # layers that are skipped cannot be followed
            whole = edits.run(inputs, residual=True)
        layers.forget_unless_equal(lambda: edits.run(inputs).logits, whole.logits)
        base = _loss(whole.logits, ids)
        judge = chunked_loss(model, whole, ids) or _Whole(whole.logits[0], ids)
        loss, kl = [], []
        for site in model.shape.sites.values():
            copies = {name: value.expand(site.n_heads, *value.shape[1:]) for name, value in inputs.items()}
            with layers.skipping_below(site.name):
                ablated = _ablate_one_head_per_copy(site.name, edits.attend)
                done = edits.run({**copies, **judge.also}, ablated, residual=True)
            changed, divergence = judge.effects(done)
            loss.append(changed - base)
            kl.append(divergence)
            advance(1)
    return torch.cat(loss), torch.cat(kl)


@own_precision()
def _gradient(edits: Edits, inputs: Mapping[str, Tensor], target: Target | None = None) -> Tensor:
    """First-order Δloss of every head: minus the derivative of the loss, or of a target, along the head's own z."""
    shape, reached = edits.model.shape, set[str]()
    gates = {name: torch.ones(site.n_heads, requires_grad=True) for name, site in shape.sites.items()}

    def gated(site: str, call: Call) -> Tensor:
        z = edits.attend(site, call)
        reached.add(site)
        return z * gates[site].to(z)[None, :, None, None]

    with torch.enable_grad():
        output = edits.run(inputs, gated).logits
        loss = target(output) if target is not None else _loss(output, ordinary(inputs)["input_ids"]).sum()
        slopes: Sequence[Tensor | None] = ()
        if loss.requires_grad:
            with suppress(CheckpointError):  # layers that are computed again are not observed then
                slopes = torch.autograd.grad(loss, list(gates.values()), allow_unused=True)
    found = dict(zip(gates, slopes or [None] * len(gates), strict=True))
    cut_off = [site for site in found if site in reached and found[site] is None]
    if cut_off:
        raise ModelError(
            f"{shape.name}: no gradient reaches the heads of {', '.join(cut_off[:3])} ({len(cut_off)} of "
            f"{len(reached)} sites), for example because they are quantised or checkpointed; use "
            'importance(…, how="exact")'
        )
    return -torch.cat([torch.zeros_like(gates[site]) if slope is None else slope for site, slope in found.items()])


def _ablate_one_head_per_copy(site: str, base: SiteObserver | None = None) -> Any:
    """An observer that ablates head c of one site in copy c of the batch."""

    def attend(name: str, call: Call) -> Tensor:
        z = plain(call) if base is None else base(name, call)
        if name == site:
            each = torch.arange(z.shape[1])
            z = z.clone()
            z[each, each] = 0.0
        return z

    return attend


def _loss(logits: Float[Tensor, "batch query vocabulary"], ids: Tensor) -> Float[Tensor, " batch"]:
    """Nats per token, from each position's logits and the token that follows it."""
    logits = logits.float()
    target = logits[:, :-1].gather(2, ids[:, 1:, None].to(logits.device))[..., 0]
    return (logits[:, :-1].logsumexp(-1) - target).mean(-1)


class _Whole:
    """The unablated prediction, in the form that KL from it needs: KL = Σ p·(l − l′) + lse′ − lse."""

    also: Mapping[str, Tensor] = {}

    def __init__(self, logits: Float[Tensor, "query vocabulary"], ids: Tensor) -> None:
        logits, self.ids = logits.float(), ids.to(logits.device)
        self.shares = logits.softmax(-1)
        self.expected = (self.shares * logits).sum(-1) - logits.logsumexp(-1)

    def effects(self, done: ForwardPass) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """Loss and KL of the ablated predictions."""
        changed = done.logits.float()
        total = changed.logsumexp(-1)
        target = changed[:, :-1].gather(2, self.ids[:, 1:, None].expand(len(changed), -1, 1))[..., 0]
        expected = torch.einsum("qv,bqv->bq", self.shares, changed)
        return (total[:, :-1] - target).mean(-1), (self.expected - expected + total).mean(-1)


def _effects(values: Float[Tensor, "text head"], seed: int) -> list[Effect]:
    """Mean over texts with a bootstrap interval, per head."""
    ends = [[None if math.isnan(end) else end for end in side.tolist()] for side in bootstrap(values, seed)]
    return [Effect(*each) for each in zip(values.mean(0).tolist(), *ends, strict=True)]
