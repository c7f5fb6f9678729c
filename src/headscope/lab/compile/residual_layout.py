"""The residual stream of a compiled model before it is rotated: named parts, each with dimensions of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.lab.compile.words import CLASSES, VOCABULARY

N_WORDS = len(VOCABULARY)
N_NOTES = 2


@dataclass(frozen=True)
class ResidualLayout:
    """Slices of the residual stream.

    One-hot token and position, a constant 1, classes computed by an MLP, notes of the first layer, the answer.
    """

    context: int = 128
    mlp: bool = False
    """Whether an MLP computes classes of tokens, for later heads to read."""

    @property
    def token(self) -> slice:
        return slice(0, N_WORDS)

    @property
    def position(self) -> slice:
        return slice(N_WORDS, N_WORDS + self.context)

    @property
    def one(self) -> slice:
        return slice(self.position.stop, self.position.stop + 1)

    @property
    def classes(self) -> slice:
        return slice(self.one.stop, self.one.stop + len(CLASSES))

    def class_mark(self, name: str) -> slice:
        """The dimension that an MLP sets to 1 for tokens of a class."""
        start = self.classes.start + list(CLASSES).index(name)
        return slice(start, start + 1)

    def note(self, number: int) -> slice:
        """What heads of the first layer write for later ones to read: a token."""
        start = self.classes.stop + number * N_WORDS
        return slice(start, start + N_WORDS)

    @property
    def answer(self) -> slice:
        start = self.note(N_NOTES).start
        return slice(start, start + N_WORDS)

    @property
    def d_model(self) -> int:
        return int(self.answer.stop)

    @property
    def d_head(self) -> int:
        """Room for a token, a second token, a position and a few numbers."""
        return 2 * N_WORDS + self.context + 4

    def read(self, part: slice, columns: Float[Tensor, "feature column"] | None = None, at: int = 0) -> Tensor:
        """A matrix ``[d_model, d_head]`` that reads a part of the stream, or columns of it, into those from ``at``."""
        columns = torch.eye(part.stop - part.start) if columns is None else columns
        matrix = torch.zeros(self.d_model, self.d_head)
        matrix[part, at : at + columns.shape[1]] = columns
        return matrix

    def write(self, part: slice) -> Tensor:
        """A matrix ``[d_head, d_model]`` that writes the token in z's first dimensions into a part of the stream."""
        matrix = torch.zeros(self.d_head, self.d_model)
        matrix[:N_WORDS, part] = torch.eye(N_WORDS)
        return matrix
