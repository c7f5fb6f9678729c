"""QK and OV circuits of heads as factored matrices, and composition scores between heads.

Row vectors throughout: a residual x is read as ``x @ W``. QK scores a query residual against a key residual,
``x_q · QK · x_kᵀ``; OV maps what is read to what is written, ``x · OV`` (Elhage et al. 2021). Positions (RoPE) and
norms stand outside these products, and the numbers say nothing about them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.heads.head_table import Rows
from headscope.models.modes import own_precision
from headscope.models.recording import OpenModel
from headscope.names import Head, HeadName, Site

Through = Literal["q", "k", "v"]


@dataclass(frozen=True, repr=False)
class FactoredMatrix:
    """A large matrix of low rank, kept as ``left @ right``."""

    left: Float[Tensor, "rows rank"]
    right: Float[Tensor, "rank columns"]

    def __repr__(self) -> str:
        rows, rank = self.left.shape
        return f"FactoredMatrix({rows} × {self.right.shape[1]} of rank {rank}, norm {self.norm():.2f})"

    @own_precision()
    def dense(self) -> Float[Tensor, "rows columns"]:
        return self.left @ self.right

    def transposed(self) -> FactoredMatrix:
        return FactoredMatrix(self.right.T, self.left.T)

    @own_precision()
    def then(self, other: FactoredMatrix) -> FactoredMatrix:
        """Multiply this matrix by another one; the product is still of low rank."""
        return FactoredMatrix(self.left @ (self.right @ other.left), other.right)

    @own_precision()
    def norm(self) -> float:
        """Frobenius norm, without building the matrix."""
        inner = (self.left.T @ self.left) * (self.right @ self.right.T)
        return float(inner.sum().clamp(min=0.0).sqrt())

    @own_precision()
    def eigenvalues(self) -> Tensor:
        """The non-zero eigenvalues (complex), by way of the small product."""
        values: Tensor = torch.linalg.eigvals(self.right @ self.left)
        return values

    @own_precision()
    def singular_values(self) -> Float[Tensor, " rank"]:
        left, right = torch.linalg.qr(self.left).R, torch.linalg.qr(self.right.T).R
        values: Tensor = torch.linalg.svdvals(left @ right.T)
        return values


def qk(model: OpenModel, head: HeadName) -> FactoredMatrix:
    """What a head looks for: ``W_Q · W_Kᵀ``, before any rotation or norm of q and k."""
    found, kv = _place(model, head)
    query, key = model.query_weight(found.site)[found.head], model.key_weight(found.site)[kv]
    return FactoredMatrix(query.detach().float(), key.detach().float().T)


def ov(model: OpenModel, head: HeadName) -> FactoredMatrix:
    """What a head writes for what it reads: ``W_V · W_O``."""
    found, kv = _place(model, head)
    value, output = model.value_weight(found.site)[kv], model.output_weight(found.site).weight[found.head]
    return FactoredMatrix(value.detach().float(), output.detach().float())


def composition(model: OpenModel, writer: HeadName, reader: HeadName, through: Through) -> float:
    """How strongly a later head reads what an earlier one writes, through its query, key or value (0 to 1)."""
    written = ov(model, writer)
    read = ov(model, reader) if through == "v" else qk(model, reader)
    read = read.transposed() if through == "k" else read
    return written.then(read).norm() / max(written.norm() * read.norm(), 1e-30)


@dataclass(frozen=True, repr=False)
class Compositions(Rows):
    """Composition scores of all pairs of heads; 0 where what the writer writes does not reach the reader's input."""

    through: Through
    heads: tuple[Head, ...]
    scores: Float[Tensor, "writer reader"]

    def strongest(self, count: int = 10) -> list[tuple[Head, Head, float]]:
        """The pairs with the highest scores: writer, reader, score."""
        top = self.scores.flatten().topk(min(count, self.scores.numel()))
        found = []
        for index, score in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            writer, reader = divmod(index, len(self.heads))
            found += [(self.heads[writer], self.heads[reader], score)] if score > 0 else []
        return found

    def _rows(self) -> list[dict[str, Any]]:
        """All pairs that compose, the strongest first."""
        pairs = self.strongest(self.scores.numel())
        return [{"writer": str(writer), "reader": str(reader), "score": score} for writer, reader, score in pairs]

    def listed(self, count: int = 10) -> str:
        """The ``count`` strongest pairs as lines."""
        pairs = (f"  {w!s:<5} → {r!s:<5} {score:.3f}" for w, r, score in self.strongest(count))
        return "\n".join((f"Composition: what the {self.through} of a later head reads of an earlier one", *pairs))

    def __repr__(self) -> str:
        return self.listed()


def compositions(model: OpenModel, through: Through) -> Compositions:
    """Score all pairs of a writer and a later reader, one product per pair of sites."""
    sites = list(model.shape.sites.values())
    written = {site.name: _unit(_ov_factors(model, site)) for site in sites}
    read = {site.name: _unit(_read_factors(model, site, through)) for site in sites}
    first = dict(zip(written, itertools.accumulate((site.n_heads for site in sites), initial=0), strict=False))
    scores = torch.zeros(model.shape.n_heads, model.shape.n_heads)
    for index, reader in enumerate(sites):
        for writer in sites[:index]:
            if _stack(writer) == ("encoder" if reader.kind == "cross" and through != "q" else _stack(reader)):
                product = torch.einsum("wad,rbd->wrab", written[writer.name], read[reader.name]).flatten(2)
                rows, columns = first[writer.name], first[reader.name]
                scores[rows : rows + writer.n_heads, columns : columns + reader.n_heads] = product.norm(dim=-1)
    return Compositions(through, tuple(model.shape.heads()), scores)


def _stack(site: Site) -> str:
    """The part of the model whose residual stream a site writes to: encoder, decoder, or the only one."""
    name = site.name.partition(".")[0]
    return "" if name.isdigit() else name


def _ov_factors(model: OpenModel, site: Site) -> tuple[Tensor, Tensor]:
    """W_V and W_O per head: ``[head, d_model, d_value]`` and ``[head, d_value, d_model]``."""
    value = model.value_weight(site.name).repeat_interleave(site.group_size, 0)
    return value.detach().float(), model.output_weight(site.name).weight.detach().float()


def _read_factors(model: OpenModel, site: Site, through: Through) -> tuple[Tensor, Tensor]:
    """The circuit through which a head reads, transposed: what it does afterwards, and how it reads the stream."""
    if through == "v":
        value, output = _ov_factors(model, site)
        return output.mT, value.mT
    query = model.query_weight(site.name).detach().float()
    key = model.key_weight(site.name).repeat_interleave(site.group_size, 0).detach().float()
    return (key, query.mT) if through == "q" else (query, key.mT)


def _unit(factors: tuple[Tensor, Tensor]) -> Float[Tensor, "head rank d_model"]:
    """Left times right, scaled to norm 1, in an orthonormal basis of left's columns, where norms are the same."""
    product: Tensor = torch.linalg.qr(factors[0]).R @ factors[1]
    return torch.nn.functional.normalize(product.flatten(1)).view_as(product)


def _place(model: OpenModel, head: HeadName) -> tuple[Head, int]:
    found = model.shape.find(head)
    return found, found.head // model.shape.sites[found.site].group_size
