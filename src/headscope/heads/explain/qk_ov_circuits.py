"""What the weights alone say: each head's QK and OV circuit as a factored matrix, and how heads feed each other.

Row vectors throughout: a residual x is read as ``x @ W``. QK scores a query residual against a key residual,
``x_q · QK · x_kᵀ``; OV maps what is read to what is written, ``x · OV`` (Elhage et al. 2021). Positions (RoPE) and
norms stand outside these products, and the numbers say nothing about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.models.protocol import OpenModel
from headscope.names import Head

Input = Literal["Q", "K", "V"]


@dataclass(frozen=True)
class Factored:
    """A large matrix of low rank, kept as ``left @ right``."""

    left: Float[Tensor, "rows rank"]
    right: Float[Tensor, "rank columns"]

    def dense(self) -> Float[Tensor, "rows columns"]:
        return self.left @ self.right

    def transposed(self) -> Factored:
        return Factored(self.right.T, self.left.T)

    def then(self, other: Factored) -> Factored:
        """This matrix, then another: their product, still of low rank."""
        return Factored(self.left @ (self.right @ other.left), other.right)

    def norm(self) -> float:
        """Frobenius norm, without building the matrix."""
        inner = (self.left.T @ self.left) * (self.right @ self.right.T)
        return float(inner.sum().clamp(min=0.0).sqrt())

    def eigenvalues(self) -> Tensor:
        """The non-zero eigenvalues (complex), by way of the small product."""
        values: Tensor = torch.linalg.eigvals(self.right @ self.left)
        return values

    def singular_values(self) -> Float[Tensor, " rank"]:
        left, right = torch.linalg.qr(self.left).R, torch.linalg.qr(self.right.T).R
        values: Tensor = torch.linalg.svdvals(left @ right.T)
        return values


def qk(model: OpenModel, head: str | Head) -> Factored:
    """What a head looks for: ``W_Q · W_Kᵀ``, before any rotation or norm of q and k."""
    found, kv = _place(model, head)
    query, key = model.query_weight(found.site)[found.head], model.key_weight(found.site)[kv]
    return Factored(query.detach().float(), key.detach().float().T)


def ov(model: OpenModel, head: str | Head) -> Factored:
    """What a head writes for what it reads: ``W_V · W_O``."""
    found, kv = _place(model, head)
    value, output = model.value_weight(found.site)[kv], model.output_weight(found.site).weight[found.head]
    return Factored(value.detach().float(), output.detach().float())


def composition(model: OpenModel, writer: str | Head, reader: str | Head, through: Input) -> float:
    """How strongly a later head reads what an earlier one writes, through its query, key or value (0 to 1)."""
    written = ov(model, writer)
    circuit = {
        "Q": lambda: qk(model, reader),
        "K": lambda: qk(model, reader).transposed(),
        "V": lambda: ov(model, reader),
    }
    read = circuit[through]()
    return written.then(read).norm() / max(written.norm() * read.norm(), 1e-30)


def copying(model: OpenModel, head: str | Head) -> float:
    """From −1 to 1: does the OV circuit raise the token it reads? The eigenvalues' sum over the sum of their sizes.

    Over the whole vocabulary, ``W_E · OV · W_U``; the final norm is left out.
    """
    circuit = ov(model, head)
    embed, unembed = model.embedding().detach().float(), model.unembedding().weight.detach().float()
    around = unembed.T @ embed
    eigenvalues = Factored(circuit.left, circuit.right @ around).eigenvalues()
    return float(eigenvalues.real.sum() / eigenvalues.abs().sum().clamp(min=1e-30))


def _place(model: OpenModel, head: str | Head) -> tuple[Head, int]:
    found = model.shape.find(head)
    return found, found.head // model.shape.sites[found.site].group_size
