"""What turns q·k into attention scores before the softmax: scale, softcap, bias, mask and sinks, in that order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.masks import FULL, Mask
from headscope.checked import checked, named, summary
from headscope.errors import ShapeError

BiasBlock = Float[Tensor, "#batch #head query key"]


@runtime_checkable
class Bias(Protocol):
    """Numbers added to the scores, computed block by block so that a position bias is never stored as T×T."""

    def block(self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int) -> BiasBlock: ...
    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None: ...
    def only(self, head: int) -> Bias: ...


@dataclass(frozen=True)
class DenseBias:
    """Any bias, given as a whole tensor."""

    values: Float[Tensor, "#batch #head query key"]

    __repr__ = summary

    def block(self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int) -> BiasBlock:
        return self.values.to(rows.device)[:, :, rows[:, None], columns[None, :]]

    def only(self, head: int) -> DenseBias:
        return self if self.values.shape[1] == 1 else DenseBias(self.values[:, head : head + 1])

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        shape = tuple(self.values.shape)
        if shape[0] not in (1, batch) or shape[1] not in (1, n_heads) or shape[2:] != (n_query, n_key):
            raise ShapeError(
                f"a bias of shape {shape} does not fit batch {batch}, {n_heads} heads, {n_query} queries and {n_key} "
                "keys; give (query, key), (head, query, key) or (batch, head, query, key)"
            )


@checked
@dataclass(frozen=True)
class Alibi:
    """A penalty that grows with distance, with one slope per head (Press et al. 2022)."""

    slopes: Float[Tensor, " head"]

    __repr__ = summary

    def block(self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int) -> BiasBlock:
        distance = (rows[:, None] + offset - columns[None, :]).abs()
        return -self.slopes.to(rows.device)[None, :, None, None] * distance

    def only(self, head: int) -> Alibi:
        return Alibi(self.slopes[head : head + 1])

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if len(self.slopes) != n_heads:
            raise ShapeError(f"ALiBi has {len(self.slopes)} slopes for {n_heads} heads; give one per head")


@checked
@dataclass(frozen=True)
class Relative:
    """A learned bias per relative position (T5): ``table[:, zero + j − i]`` is added to the score of (i, j)."""

    table: Float[Tensor, "head offset"]
    zero: int

    __repr__ = summary

    def block(self, rows: Int[Tensor, " query"], columns: Int[Tensor, " key"], offset: int) -> BiasBlock:
        return self.table.to(rows.device)[:, columns[None, :] - rows[:, None] - offset + self.zero][None]

    def only(self, head: int) -> Relative:
        return Relative(self.table[head : head + 1], self.zero)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        heads, width = self.table.shape
        if heads != n_heads or self.zero < n_key - 1 or width - self.zero < n_query:
            raise ShapeError(
                f"a relative bias of {heads} heads and offsets {-self.zero}…{width - self.zero - 1} does not cover "
                f"{n_heads} heads, {n_query} queries and {n_key} keys"
            )


NUMBER = (float, int, type(None))
KINDS: dict[str, tuple[type, ...]] = {
    "scale": NUMBER, "mask": (Mask,), "bias": (Tensor, Bias, type(None)), "softcap": NUMBER,
    "sinks": (Tensor, type(None)),
}  # fmt: skip


@named
@dataclass(frozen=True, kw_only=True)
class Scores:
    """How scores follow from q and k. ``scale=None`` means 1/√d_head; sinks are one extra logit per head (gpt-oss)."""

    scale: float | None = None
    mask: Mask = FULL
    bias: Bias | Tensor | None = None
    softcap: float | None = None
    sinks: Float[Tensor, " head"] | None = None

    __repr__ = summary

    def __post_init__(self) -> None:
        for name, kinds in KINDS.items():  # by hand: a pass makes one per layer
            if not isinstance(getattr(self, name), kinds):
                given = f"Scores({name}={getattr(self, name)!r:.60})"
                raise ShapeError(f"{given}: {name} is a {' or '.join(kind.__name__ for kind in kinds)}")
        if self.softcap is not None and not self.softcap > 0:
            raise ShapeError(f"softcap={self.softcap} must be above 0; None means no softcap")
        if isinstance(self.bias, Tensor):
            object.__setattr__(self, "bias", DenseBias(_lift(self.bias)))

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a scale and a mask."""
        return self.bias is None and self.softcap is None and self.sinks is None

    def bind(self, q: Float[Tensor, "batch head query d"], k: Float[Tensor, "batch kv key d"]) -> Scores:
        """Check these scores against the sizes of q and k, and fill in the scale."""
        batch, n_heads, n_query, d_head = q.shape
        n_kv_heads, n_key = k.shape[1], k.shape[2]
        if n_heads % n_kv_heads:
            raise ShapeError(f"{n_heads=} is not a multiple of {n_kv_heads=}; each KV head serves equally many heads")
        if self.bias is not None and not isinstance(self.bias, Tensor):
            self.bias.check(batch, n_heads, n_query, n_key)
        if self.sinks is not None and len(self.sinks) != n_heads:
            raise ShapeError(f"{len(self.sinks)} sinks for {n_heads} heads; give one per head")
        mask = self.mask.bind(batch, n_heads, n_query, n_key)
        if self.scale is not None and mask is self.mask:
            return self
        return replace(self, scale=d_head**-0.5 if self.scale is None else self.scale, mask=mask)

    def sink_weight(self, logsumexp: Float[Tensor, "batch head query"]) -> Float[Tensor, "batch head query"]:
        """The attention that goes to the learned sinks; a sink of −inf gets none, even in a fully masked row."""
        assert self.sinks is not None, "there are sinks to ask about"
        return torch.exp(self.sinks.to(logsumexp)[None, :, None] - logsumexp.masked_fill(logsumexp.isneginf(), 0.0))

    def only(self, head: int) -> Scores:
        """Return the scores of one head: its own mask, bias and sink."""
        assert not isinstance(self.bias, Tensor), "tensors are wrapped when Scores is made"
        mask = Mask(tuple(part.only(head) for part in self.mask.parts))
        bias = None if self.bias is None else self.bias.only(head)
        sinks = None if self.sinks is None else self.sinks[head : head + 1]
        return replace(self, mask=mask, bias=bias, sinks=sinks)

    def block(
        self,
        q: Float[Tensor, "batch head query d"],
        k: Float[Tensor, "batch kv key d"],
        rows: Int[Tensor, " query"],
        columns: Int[Tensor, " key"],
        offset: int,
    ) -> Float[Tensor, "batch head query key"]:
        """Compute the scores of these query rows and key columns in float32 or better; −inf where masked."""
        scores = self.before_mask(q, k, rows, columns, offset)
        if self.mask.is_full:
            return scores
        return scores.masked_fill(~self.mask.block(rows, columns, offset), float("-inf"))

    def before_mask(
        self,
        q: Float[Tensor, "batch head query d"],
        k: Float[Tensor, "batch kv key d"],
        rows: Int[Tensor, " query"],
        columns: Int[Tensor, " key"],
        offset: int,
    ) -> Float[Tensor, "batch head query key"]:
        """Compute the scores without the mask."""
        assert self.scale is not None, "bind() fills in the scale"
        batch, n_heads, n_query, d_head = q.shape
        n_kv_heads, n_key = k.shape[1], k.shape[2]
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        grouped = (q.to(wide) * self.scale).reshape(batch, n_kv_heads, -1, d_head)
        scores = (grouped @ k.to(wide).mT).view(batch, n_heads, n_query, n_key)
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if self.bias is not None:
            assert not isinstance(self.bias, Tensor), "tensors are wrapped when Scores is made"
            scores = scores + self.bias.block(rows, columns, offset).to(scores.dtype)
        return scores


def _lift(bias: Tensor) -> Float[Tensor, "#batch #head query key"]:
    if not bias.is_floating_point() or not 2 <= bias.ndim <= 4:
        raise ShapeError(
            f"a bias is floating-point with 2 to 4 axes, (query, key) last; got {bias.dtype} of shape "
            f"{tuple(bias.shape)}; a mask goes to Scores(mask=dense(…))"
        )
    return bias[(None,) * (4 - bias.ndim)] if bias.ndim < 4 else bias
