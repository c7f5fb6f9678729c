"""Refuse numbers that are NaN or infinite: in weights when a model is opened, in activations at the end of each pass.

During a pass one maximum per site is kept on the model's device; all of them are read at once when it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.pattern import refuse_large_scores
from headscope.attention.progress import setting
from headscope.errors import ModelError

LISTED = 3


@torch.no_grad()
def refuse_non_finite_weights(model: nn.Module) -> None:
    """Refuse a model with weights that are NaN or infinite, by name."""
    extremes = Extremes()
    for name, weight in model.named_parameters():
        with suppress(NotImplementedError):  # quantised: its bytes are integers, and its scales are checked in passes
            extremes.add(name, weight)
    bad = [name for name, value in extremes.read().items() if not math.isfinite(value)]
    if bad:
        more = f" and {len(bad) - LISTED} more" if len(bad) > LISTED else ""
        raise ModelError(
            f"{type(model).__name__} has weights that are NaN or infinite: {', '.join(bad[:LISTED])}{more}. "
            "Nothing it computes would be a number; fetch or train it again"
        )


@dataclass
class Extremes:
    """The largest absolute value of tensors by name, kept where the tensors are until they are read."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    """The smallest and the largest value of each tensor."""

    def add(self, name: str, tensor: Tensor) -> None:
        """Keep what the largest absolute value is read from, by one kernel on a GPU."""
        if tensor.numel() and tensor.is_floating_point() and tensor.device.type != "meta":
            low, high = torch.aminmax(tensor.detach())  # before the name is known: some quantised tensors have none
            self.values.setdefault(name, []).extend((low, high))

    def fetch(self) -> set[torch.device]:
        """Begin to copy all values from their GPUs without waiting for them: ``read`` would wait for all that is begun.

        They may be read after the streams of these GPUs, which are returned, have reached this point.
        """
        there: dict[tuple[torch.device, torch.dtype], list[tuple[list[Tensor], int]]] = {}
        for values in self.values.values():
            for at, value in enumerate(values):
                if value.device.type == "cuda":
                    there.setdefault((value.device, value.dtype), []).append((values, at))
        for places in there.values():
            copied = torch.stack([values[at] for values, at in places]).to("cpu", non_blocking=True)
            for (values, at), value in zip(places, copied.unbind(), strict=True):
                values[at] = value
        return {device for device, _ in there}

    def read(self) -> dict[str, float]:
        """Read all values, which waits for the device once unless they were fetched; NaN if there is one."""
        kept = [value for values in self.values.values() for value in values]
        if not kept:
            return {}
        if any(value.device != kept[0].device or value.dtype != kept[0].dtype for value in kept):
            kept = [value.to(kept[0].device, torch.float64) for value in kept]
        numbers = iter(torch.stack(kept).tolist())
        return {name: _largest([next(numbers) for _ in values]) for name, values in self.values.items()}


@dataclass
class PassCheck:
    """What one pass has to satisfy: finite z and scores at every site, and logits that are numbers."""

    model: str
    z: Extremes = field(default_factory=Extremes)
    logsumexp: Extremes = field(default_factory=Extremes)
    logits: Tensor | None = None
    dtype: torch.dtype = torch.float32

    def see_logits(self, logits: Tensor) -> None:
        """Keep the largest logit: −∞ for some tokens is a model's way to rule them out, +∞ and NaN are not."""
        if logits.numel() and logits.is_floating_point() and logits.device.type != "meta":
            self.logits = logits.detach().amax()

    def see_logsumexp(self, sites: Sequence[str], logsumexp: Float[Tensor, "site *rows"]) -> None:
        """Keep how large the scores of several sites are, from those of their rows that attend to a key."""
        largest = logsumexp.masked_fill(logsumexp.isneginf(), 0.0).abs().flatten(1).amax(1)
        for site, value in zip(sites, largest.unbind(), strict=True):
            self.logsumexp.values.setdefault(site, []).append(value)

    def fetch(self) -> set[torch.device]:
        """Begin to copy what is verified from its GPUs, and return these; see ``Extremes.fetch``."""
        devices = self.z.fetch() | self.logsumexp.fetch()
        if self.logits is not None and self.logits.device.type == "cuda":
            devices.add(self.logits.device)
            self.logits = self.logits.to("cpu", non_blocking=True)
        return devices

    def verify(self) -> None:
        """Raise an error that names the first site whose numbers are not finite."""
        for site, value in self.z.read().items():
            if not math.isfinite(value):
                raise ModelError(
                    f"{self.model}: the attention output of site {site} is {_word(value)} for this input, so nothing "
                    "after it is a number; try another dtype (float32), or look at what goes into that layer"
                )
        for site, value in self.logsumexp.read().items():
            refuse_large_scores(value, self.dtype, f"{self.model}, site {site}")
        if self.logits is not None and not math.isfinite(value := float(self.logits)):
            raise ModelError(
                f"{self.model}: its logits are {_word(value)} for this input, although every attention output is "
                "finite; try another dtype (float32)"
            )


_deferred: ContextVar[list[PassCheck] | None] = ContextVar("headscope_deferred_checks", default=None)


@contextmanager
def deferred_checks() -> Iterator[list[PassCheck]]:
    """Collect the checks of passes inside the block, for a caller that reads them when it waits for the device."""
    pending: list[PassCheck] = []
    with setting(_deferred, pending):
        yield pending


def finish(check: PassCheck) -> None:
    """Verify a pass now, or leave it to the caller if checks are deferred."""
    pending = _deferred.get()
    if pending is None:
        check.verify()
    else:
        pending.append(check)


def _largest(numbers: list[float]) -> float:
    return math.nan if any(map(math.isnan, numbers)) else max(map(abs, numbers))


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"
