"""One recorded pass over a batch: who read which stream, and what every writer had written there.

Nodes are heads and MLPs (and the embedding); edges go into the q, k or v of a head, into an MLP, and into the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.models.structure.carry import Route, source_parts
from headscope.models.structure.recorder import RecordedStream, Writer
from headscope.models.structure.tape import Node, SourceNode

LOGITS = "logits"
NODES = ("head", "mlp", "embedding", "position", "attention")

Place = tuple[str, str]
"""A site with q, k or v; an MLP or the logits, with an empty second word."""


class Reader(NamedTuple):
    """A place that reads the stream: a head's q, k or v (``into``), an MLP, or the logits."""

    name: str
    into: str = ""

    @property
    def place(self) -> Place:
        """The place of a head is its site's."""
        return (self.name.rpartition(".")[0], self.into) if self.into else (self.name, "")

    def __str__(self) -> str:
        return f"{self.name}<{self.into}>" if self.into else self.name


class Edge(NamedTuple):
    """From a writer to a reader."""

    writer: str
    reader: Reader

    def __str__(self) -> str:
        return f"{self.writer}->{self.reader}"


@dataclass
class ReaderState:
    """What a reader read in one pass: the stream before its norm, its writers, and its input."""

    node: Node
    stream: Node
    writers: dict[str, Writer]
    value: Tensor | None = None
    """The stream itself, where it was kept."""


@dataclass
class PassState:
    """One recorded pass over a batch: the readers by site or MLP, the values at calls, and MLP outputs."""

    stream: RecordedStream = field(default_factory=RecordedStream)
    keeps: bool = False
    """Whether the stream before each reader is kept."""
    readers: dict[Place, ReaderState] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    z: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None
    _written: dict[SourceNode, Tensor] = field(default_factory=dict)
    _routes: dict[Node, Route] = field(default_factory=dict)
    _carried: dict[tuple[Node, SourceNode], Tensor | None] = field(default_factory=dict)

    def route(self, node: Node) -> Route:
        """The operations that lead to a node; found once."""
        if node not in self._routes:
            self._routes[node] = Route(node)
        return self._routes[node]

    def parts(self, stream: Node, source: SourceNode) -> Float[Tensor, "part ..."] | None:
        """The parts of a source (its heads, or all of it) at a stream. One memory for all streams that only add."""
        if (stream, source) not in self._carried:
            if source not in self._written:
                self._written[source] = source_parts(source)
            self._carried[stream, source] = self.route(stream).carry_all(source, self._written[source])
        return self._carried[stream, source]

    def forget_carried(self) -> None:
        """Drop what was carried to streams; what was written is kept."""
        self._carried.clear()

    def sums(self, place: Place, chosen: Sequence[Sequence[str]]) -> Float[Tensor, "choice ..."]:
        """For each choice of writers, the sum of their parts at a reader's stream."""
        reader = self.readers[place]
        masks: dict[SourceNode, list[list[float]]] = {}
        for row, names in enumerate(chosen):
            for writer in (reader.writers[name] for name in names if name in reader.writers):
                for source, part in writer.sources:
                    empty = [0.0] * (1 if source.heads is None else source.heads.n_heads)
                    masks.setdefault(source, [list(empty) for _ in chosen])[row][part or 0] += 1.0
        total: Tensor | float = 0.0
        for source, mask in masks.items():
            parts = self.parts(reader.stream, source)
            if parts is not None:
                total = total + torch.tensor(mask).to(parts) @ parts.flatten(1)
        shape = (len(chosen), *reader.stream.shape)
        return total.reshape(shape) if isinstance(total, Tensor) else torch.zeros(shape)

    def along(self, place: Place, gradients: Float[Tensor, "gradient ..."]) -> dict[str, Float[Tensor, " gradient"]]:
        """Each node's part at a reader's stream, times some gradients there."""
        reader, flat = self.readers[place], gradients.flatten(1)
        products: dict[SourceNode, Tensor] = {}
        found: dict[str, Tensor] = {}
        for writer in reader.writers.values():
            for source, part in writer.sources if writer.kind in NODES else ():
                parts = self.parts(reader.stream, source)
                if parts is None:
                    continue
                if source not in products:
                    products[source] = parts.flatten(1) @ flat.to(parts).T
                own = products[source][part or 0]
                found[writer.name] = found[writer.name] + own if writer.name in found else own
        return found
