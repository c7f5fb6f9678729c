"""Modules made to mislead: attention that is not what it looks like, in as many ways as we know.

Each has ``pattern(x)``, the weights that its product really uses ``[batch, head, query, key]``, heads in the order of
their z; or None where there is no such thing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, D = 24, 3, 8

Form = Callable[[Tensor, Tensor], Tensor]


def by_matmul(w: Tensor, v: Tensor) -> Tensor:
    return w @ v


def by_einsum(w: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhqk,bhkd->bhqd", w, v)


def by_bmm(w: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(w.flatten(0, 1), v.flatten(0, 1)).view(*w.shape[:3], v.shape[-1])


class Base(nn.Module):
    """Plain multi-head attention; each way to mislead overrides one step of it."""

    def __init__(self, form: Form = by_matmul) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.form = form
        self.make()

    def make(self) -> None:
        """Make further weights."""

    def heads(self, x: Tensor) -> Any:
        return self.qkv(x).view(*x.shape[:2], 3, HEADS, D).permute(2, 0, 3, 1, 4)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * D**-0.5

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return z

    def merge(self, z: Tensor) -> Tensor:
        return z.transpose(1, 2).flatten(2)

    def pattern(self, x: Tensor) -> Tensor | None:
        q, k, _ = self.heads(x)
        return self.weights(self.scores(q, k))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        z = self.form(self.weights(self.scores(q, k)), v)
        return x + self.proj(self.merge(self.between(z, x, q, v)))


class ReshapedHeads(Base):
    def merge(self, z: Tensor) -> Tensor:
        return z.reshape(z.shape[0], z.shape[2], WIDTH)


class NumbersBeforeHeads(Base):
    def merge(self, z: Tensor) -> Tensor:
        return z.permute(0, 2, 3, 1).flatten(2)


class RolledHeads(Base):
    def merge(self, z: Tensor) -> Tensor:
        return super().merge(z.roll(1, 1))


class TalkingAfter(Base):
    def make(self) -> None:
        self.mix = nn.Linear(HEADS, HEADS, bias=False)

    def weights(self, scores: Tensor) -> Tensor:
        return self.mix(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class TalkingAverage(Base):
    """Heads mixed after the softmax by rows that sum to one: a pattern, but of no single head's scores."""

    def weights(self, scores: Tensor) -> Tensor:
        mix = torch.tensor([[0.6, 0.4, 0.0], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
        return torch.einsum("gh,bhqk->bgqk", mix, scores.softmax(-1))


class TalkingBefore(TalkingAfter):
    def weights(self, scores: Tensor) -> Tensor:
        return self.mix(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(-1)


class OverChannels(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.mT for t in self.heads(x))
        z = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        return x + self.proj(self.merge((z.softmax(-1) @ v).mT))

    def pattern(self, x: Tensor) -> None:
        return None


class Gated(Base):
    def make(self) -> None:
        self.gate = nn.Linear(WIDTH, WIDTH)

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return z * self.gate(x).view(*x.shape[:2], HEADS, D).transpose(1, 2).sigmoid()


class GatedByHead(Base):
    def make(self) -> None:
        self.gate = nn.Linear(WIDTH, HEADS)

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return z * self.gate(x).transpose(1, 2)[..., None].sigmoid()


class Changed(Base):
    """A function of every number between z and W_O."""

    change: Callable[[Tensor], Tensor]

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return type(self).change(z)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "Rectified": lambda z: z.relu(),
    "Hardswish": F.hardswish,
    "Negated": lambda z: -z,
    "Doubled": lambda z: 2 * z,
    "Rounded": lambda z: z.half().to(z),
}


class Weighted(Base):
    """Other weights than a softmax of the scores over the keys."""

    made: Callable[[Tensor], Tensor]

    def weights(self, scores: Tensor) -> Tensor:
        return type(self).made(scores)


WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "OverQueries": lambda scores: scores.softmax(-2),
    "OverHeads": lambda scores: scores.softmax(1),
    "Halved": lambda scores: scores.softmax(-1) * 0.5,
    "MaskedAfter": lambda scores: scores.softmax(-1).tril(),
    "Sigmoid": lambda scores: scores.sigmoid(),
    "MeanOfTwo": lambda scores: (scores.softmax(-1) + (-scores).softmax(-1)) / 2,
    "DifferenceOfTwo": lambda scores: scores.softmax(-1) - 0.4 * (2 * scores).softmax(-1),
    "TwiceSoftmaxed": lambda scores: (5 * scores.softmax(-1)).softmax(-1),
}


class QueryAdded(Base):
    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return z + q


class ValueAdded(Base):
    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return z + v


class NormOfAll(Base):
    def make(self) -> None:
        self.norm = nn.LayerNorm(WIDTH)

    def merge(self, z: Tensor) -> Tensor:
        return self.norm(super().merge(z))


class NormByHead(Base):
    def make(self) -> None:
        self.norm = nn.LayerNorm(D)
        nn.init.normal_(self.norm.bias)

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return self.norm(z)


class TwoProducts(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        first, second = self.scores(q, k).softmax(-1), self.scores(k, q).softmax(-1)
        return x + self.proj(self.merge(first @ v - 0.3 * (second @ v)))

    def pattern(self, x: Tensor) -> None:
        return None


class Routing(Base):
    def make(self) -> None:
        self.router, self.experts = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).softmax(-1)
        made = self.experts(x).view(*x.shape[:2], 4, WIDTH)
        return x + self.proj((chosen[..., None, :] @ made).squeeze(-2))

    def pattern(self, x: Tensor) -> None:
        return None


class Pooling(Base):
    def make(self) -> None:
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.score(x).softmax(1).mT @ x)

    def pattern(self, x: Tensor) -> None:
        return None


class AlwaysDropping(Base):
    def weights(self, scores: Tensor) -> Tensor:
        return F.dropout(scores.softmax(-1), 0.3, training=True)


class AlwaysDroppingSdpa(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.proj(self.merge(F.scaled_dot_product_attention(*self.heads(x), dropout_p=0.3)))


class OverBatch(Base):
    def heads(self, x: Tensor) -> Any:
        return super().heads(x.transpose(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.proj(self.merge(self.form(self.weights(self.scores(q, k)), v))).transpose(0, 1)


class SinkCutOff(Base):
    def weights(self, scores: Tensor) -> Tensor:
        return torch.cat((scores, torch.zeros_like(scores[..., :1])), -1).softmax(-1)[..., :-1]


class Renormalised(Base):
    def weights(self, scores: Tensor) -> Tensor:
        kept = scores.softmax(-1).tril()
        return kept / kept.sum(-1, keepdim=True)


class InPlace(Base):
    def weights(self, scores: Tensor) -> Tensor:
        made = scores.softmax(-1)
        made *= 0.7
        return made


class UsedTwice(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        z = self.merge(self.form(self.weights(self.scores(q, k)), v))
        return x + self.proj(z) + 0.5 * z


class TwoMatrices(Base):
    def make(self) -> None:
        self.other = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        z = self.merge(self.form(self.weights(self.scores(q, k)), v))
        return x + self.proj(z) * self.other(z).tanh()


class NoMatrix(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.merge(self.form(self.weights(self.scores(q, k)), v))


class Convolved(Base):
    def make(self) -> None:
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.conv(self.merge(self.form(self.weights(self.scores(q, k)), v)).mT).mT


class MeanOfHeads(Base):
    def make(self) -> None:
        self.out = nn.Linear(D, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.out(self.form(self.weights(self.scores(q, k)), v).mean(1))


class OneMatrixForEachHead(Base):
    def make(self) -> None:
        self.out = nn.Linear(D, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.out(self.form(self.weights(self.scores(q, k)), v)).sum(1)


class MeanOfQueries(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return self.proj(self.merge(self.form(self.weights(self.scores(q, k)), v)).mean(1, keepdim=True))


class OtherRows(Base):
    """The rows of W_O's input are queries in reverse."""

    def merge(self, z: Tensor) -> Tensor:
        return super().merge(z).flip(1)


class Linear(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return x + self.proj(self.merge(q.softmax(-1) @ (k.softmax(-2).mT @ v)))

    def pattern(self, x: Tensor) -> None:
        return None


class Hard(Base):
    def weights(self, scores: Tensor) -> Tensor:
        return F.one_hot(scores.softmax(-1).argmax(-1), scores.shape[-1]).to(scores)


class Capped(Base):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return 2 * (super().scores(q, k) / 2).tanh()


class MatrixByHead(Base):
    def make(self) -> None:
        self.inner = nn.Parameter(torch.randn(HEADS, D, D) * 0.5)

    def between(self, z: Tensor, x: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("bhqd,hde->bhqe", z, self.inner)


class SharedValues(Base):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        z = torch.einsum("bhqk,bkd->bhqd", self.weights(self.scores(q, k)), v[:, 0])
        return x + self.proj(self.merge(z))


class HeadByHead(Base):
    """A loop over heads, each its own call."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        each = [F.scaled_dot_product_attention(q[:, h], k[:, h], v[:, h]) for h in range(HEADS)]
        return x + self.proj(torch.cat(each, -1))

    def pattern(self, x: Tensor) -> None:
        return None


FORMED = [
    Base, ReshapedHeads, NumbersBeforeHeads, RolledHeads, TalkingAfter, Gated, QueryAdded, SinkCutOff, UsedTwice,
    OverBatch,
]  # fmt: skip
ALONE = [
    TalkingAverage, TalkingBefore, OverChannels, GatedByHead, ValueAdded, NormOfAll, NormByHead, TwoProducts, Routing,
    Pooling, AlwaysDropping, AlwaysDroppingSdpa, Renormalised, InPlace, TwoMatrices, NoMatrix, Convolved, MeanOfHeads,
    OneMatrixForEachHead, MeanOfQueries, OtherRows, Linear, Hard, Capped, MatrixByHead, SharedValues, HeadByHead,
]  # fmt: skip
FORMS = {"matmul": by_matmul, "einsum": by_einsum, "bmm": by_bmm}
MISLEADING: dict[str, Callable[[], Base]] = {
    **{f"{kind.__name__} by {name}": partial(kind, form) for kind in FORMED for name, form in FORMS.items()},
    **{kind.__name__: kind for kind in ALONE},
    **{name: type(name, (Changed,), {"change": staticmethod(change)}) for name, change in CHANGES.items()},
    **{name: type(name, (Weighted,), {"made": staticmethod(made)}) for name, made in WEIGHTS.items()},
}
