"""A circuit: the edges that carry a task, how faithful they are, and its forms in files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headscope.files import write_atomic

LOGITS = "logits"
SCHEMA_VERSION = 1
CHANCE = 0.05  # how often guessing may be right as often
LISTED = 20  # edges
Place = tuple[str, str]
"""A site with q, k or v; an MLP or the logits, with an empty second word."""


class Reader(NamedTuple):
    """A place that reads the stream: a head's q, k or v (``into``), an MLP, or the logits."""

    name: str
    into: str = ""

    @property
    def place(self) -> Place:
        """Where it reads: all heads of a site read at one place."""
        return (self.name.rpartition(".")[0], self.into) if self.into else (self.name, "")

    def __str__(self) -> str:
        return f"{self.name}<{self.into}>" if self.into else self.name


class Edge(NamedTuple):
    """From a writer to a reader."""

    writer: str
    reader: Reader

    def __str__(self) -> str:
        return f"{self.writer}->{self.reader}"


@dataclass(frozen=True)
class Measured:
    """One point of the curve: how faithful a circuit of this many strongest edges is."""

    edges: int
    faithfulness: float


@dataclass(frozen=True, repr=False)
class Circuit:
    """Edges with their scores, and how faithful they are: 1 is the whole model, 0 the corrupted text."""

    model: str
    weights: str
    """The hash of the model's weights."""
    edges: Mapping[str, float]
    """The circuit: edges as ``4.3->5.6<k>``, with their scores."""
    effects: Mapping[str, float]
    """The true loss of the answer when one edge alone is cut, for the strongest edges."""
    scores: Mapping[str, float]
    """Every edge's score."""
    faithfulness: float
    held_out: float | None
    random: tuple[float, ...]
    curve: tuple[Measured, ...]
    clean: float
    corrupted: float
    n_pairs: int
    n_held_out: int
    wanted: float
    task: str = ""
    sites: Mapping[str, int] = field(default_factory=dict)
    """Heads of each site."""
    n_right: int | None = None
    """In how many of all pairs the whole model prefers the right answer; None in files that do not have it."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The heads, MLPs and embeddings that the edges connect, and the logits."""
        ends = (end.partition("<")[0] for edge in self.edges for end in edge.split("->"))
        return tuple(dict.fromkeys(ends))

    def save(self, path: str | Path) -> None:
        """Save as JSON, with the hash of the model's weights."""
        write_atomic(Path(path), json.dumps({"schema_version": SCHEMA_VERSION, **self._values()}, indent=1).encode())

    def to_dict(self) -> dict[str, Any]:
        """The circuit as plain values, without the scores of the edges outside it."""
        return {key: value for key, value in self._values().items() if key != "scores"}

    def _values(self) -> dict[str, Any]:
        values = {**vars(self), "curve": [vars(each) for each in self.curve], "random": list(self.random)}
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}

    def to_mib(self) -> dict[str, Any]:
        """The form of the mechanistic interpretability benchmark (MIB): nodes ``a4.h3`` and ``m3``."""
        edges = {
            f"{_mib(edge.partition('->')[0])}->{_mib(edge.partition('->')[2])}": {
                "score": score,
                "in_graph": edge in self.edges,
            }
            for edge, score in self.scores.items()
        }
        used = {_mib(end) for edge in self.edges for end in (edge.partition("->")[0], edge.partition("->")[2])}
        used = {name.partition("<")[0] for name in used}
        names = {name.partition("<")[0] for edge in edges for name in edge.split("->")}
        heads = max(self.sites.values(), default=0)
        return {
            "cfg": {"n_layers": len(self.sites), "n_heads": heads, "parallel_attn_mlp": False},
            "nodes": {name: {"in_graph": name in used} for name in sorted(names)},
            "edges": edges,
        }

    def to_graphviz(self) -> str:
        """The circuit as a GraphViz graph."""
        lines = ["digraph circuit {", "  rankdir=BT;"]
        for edge, score in self.edges.items():
            writer, _, reader = edge.partition("->")
            name, _, into = reader.partition("<")
            label = f"{into.rstrip('>')} {score:+.2f}".strip()
            lines.append(f'  "{writer}" -> "{name}" [label="{label}"];')
        return "\n".join([*lines, "}"])

    def __str__(self) -> str:
        return self.listed()

    def listed(self, count: int = LISTED) -> str:
        """Warn if the model cannot do the task; say how faithful the circuit is; list ``count`` strongest edges."""
        held = "" if self.held_out is None else f", {self.held_out:.0%} on {self.n_held_out} held-out pairs"
        random = ", ".join(f"{round(each, 2) + 0.0:.0%}" for each in self.random)
        lines = [
            *self._warning(),
            f"{len(self.edges)} of {len(self.scores)} edges, between {len(self.nodes)} nodes, keep "
            f"{self.faithfulness:.0%} of the answer{held}; random circuits of that size: {random}",
        ]
        if max(self.faithfulness, self.held_out or 0.0, *self.random) > 1:
            lines.append(
                "Over 100%: the score is farther from that of the corrupted texts than the whole model's, because the "
                "edges that are left out change it in the other direction."
            )
        strongest = sorted(self.edges.items(), key=lambda each: -abs(each[1]))
        lines.append("The strongest edges, with what the answer gains by estimate (3.1<v> is the v of head 3.1):")
        lines += [f"  {edge:<28} {score:+.3f}" for edge, score in strongest[:count]]
        return "\n".join(lines + ([f"  … {len(strongest) - count} more edges"] if len(strongest) > count else []))

    def _warning(self) -> list[str]:
        """Warn unless an exact binomial test rules out that the model guesses."""
        n = self.n_pairs + self.n_held_out
        if self.n_right is None or sum(math.comb(n, k) for k in range(self.n_right, n + 1)) <= CHANCE * 2**n:
            return []
        return [
            f"Warning: the whole model prefers the right answer in {self.n_right} of {n} pairs, which is not clearly "
            "more than guessing (half of them). A circuit of a task that a model cannot do explains no behaviour."
        ]

    __repr__ = __str__


def _mib(name: str) -> str:
    """A node or reader in the benchmark's names."""
    if name.startswith("mlp "):
        return f"m{name.partition(' ')[2]}"
    if name in (LOGITS, "embedding", "position embedding"):
        return LOGITS if name == LOGITS else "input"
    head, _, into = name.partition("<")
    site, _, number = head.rpartition(".")
    return f"a{site}.h{number}" + (f"<{into}" if into else "")
