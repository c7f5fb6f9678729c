"""The circuit of a task: the smallest set of edges that answers as the whole model does.

Every edge is scored by attribution with integrated gradients; the strongest are then patched for good, one by one; the
circuit grows along the ranking until it is as faithful as wanted, and sheds what it does not need. Its faithfulness is
also measured on pairs that it has not seen, beside random circuits of the same size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.explain.edge_attribution import score_edges
from headscope.heads.explain.edge_patching import (
    LOGITS,
    Edge,
    PassState,
    PatchedModel,
    Reader,
    all_edges,
    record,
    run_circuit,
)
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash

SCHEMA_VERSION = 1
CHECKED = 12  # of the strongest edges, patched for good
RANDOM = 3
SHED = 64  # edges up to which each is tried without


@dataclass(frozen=True)
class Measured:
    """One size on the curve: how faithful the strongest edges of that number are."""

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
        held = "" if self.held_out is None else f", {self.held_out:.0%} on {self.n_held_out} held-out pairs"
        random = ", ".join(f"{each:.0%}" for each in self.random)
        first = (
            f"{len(self.edges)} of {len(self.scores)} edges keep {self.faithfulness:.0%} of the answer{held}; random "
            f"circuits of that size: {random}"
        )
        return "\n".join([first, *(f"  {edge:<28} {score:+.3f}" for edge, score in self.edges.items())])

    __repr__ = __str__


def open_circuit(path: str | Path, model: OpenModel | None = None) -> Circuit:
    """Open a saved circuit; refused if it is of other weights than the model's."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    if content.pop("schema_version", None) != SCHEMA_VERSION:
        raise InputError(f"{path} is no circuit of version {SCHEMA_VERSION}")
    if model is not None and content["weights"] != weight_hash(model.model):
        raise InputError(
            f"{path} is a circuit of {content['model']} with other weights than {model.shape.name} has now"
        )
    content["curve"] = tuple(Measured(**each) for each in content["curve"])
    content["random"] = tuple(content["random"])
    return Circuit(**content)


def _mib(name: str) -> str:
    """A node or reader in the benchmark's names."""
    if name.startswith("mlp "):
        return f"m{name.partition(' ')[2]}"
    if name in (LOGITS, "embedding", "position embedding"):
        return LOGITS if name == LOGITS else "input"
    head, _, into = name.partition("<")
    site, _, number = head.rpartition(".")
    return f"a{site}.h{number}" + (f"<{into}" if into else "")


class _Pairs:
    """Clean and corrupted inputs of one length, recorded once, with the answers."""

    def __init__(self, patched: PatchedModel, clean: Tensor, corrupted: Tensor, answers: Tensor) -> None:
        self.patched, self.inputs, self.answers = patched, {"input_ids": clean}, answers
        self.clean: PassState = record(patched, self.inputs)
        self.corrupted: PassState = record(patched, {"input_ids": corrupted})
        assert self.clean.logits is not None
        assert self.corrupted.logits is not None
        self.best, self.worst = float(self.metric(self.clean.logits)), float(self.metric(self.corrupted.logits))

    def metric(self, logits: Tensor) -> Tensor:
        """The mean logit difference between the right and the wrong answer."""
        last = logits[:, -1]
        return (last.gather(1, self.answers[:, :1]) - last.gather(1, self.answers[:, 1:])).mean()

    def value(self, edges: Sequence[Edge]) -> float:
        return float(self.metric(run_circuit(self.patched, self.inputs, self.corrupted, edges)))

    def faithfulness(self, edges: Sequence[Edge]) -> float:
        return (self.value(edges) - self.worst) / (self.best - self.worst)


def find_circuit(
    model: OpenModel,
    clean: Sequence[Any],
    corrupted: Sequence[Any],
    answers: Sequence[tuple[str | int, str | int]],
    wanted: float = 0.9,
    task: str = "",
) -> Circuit:
    """The smallest circuit found for a task given as pairs of texts with (right, wrong) answers."""
    ids, old, ends = _tensors(model, clean, corrupted, answers)
    if not 0 < wanted <= 1:
        raise InputError(f"wanted={wanted}: faithfulness is between 0 and 1")
    patched = PatchedModel(model)
    seen = slice(0, None, 2) if len(ids) > 3 else slice(None)
    pairs = _Pairs(patched, ids[seen], old[seen], ends[seen])
    if abs(pairs.best - pairs.worst) < 1e-3:
        raise InputError(
            f"the answer is {pairs.best:+.3f} on clean and {pairs.worst:+.3f} on corrupted texts: corrupting changes "
            "nothing, so there is nothing to find; give texts whose answers differ"
        )
    scores = score_edges(patched, pairs.inputs, pairs.clean, pairs.corrupted, pairs.metric)
    ranked = sorted(scores, key=lambda edge: -abs(scores[edge]))
    every = all_edges(patched, pairs.clean)
    effects = _true_effects(pairs, ranked[:CHECKED])
    curve, size = _grow(pairs, ranked, wanted)
    edges = _shed(pairs, connected(ranked[:size]), scores, wanted)
    held = _Pairs(patched, ids[1::2], old[1::2], ends[1::2]) if len(ids) > 3 else None
    random = _random(pairs, every, len(edges))
    return Circuit(
        model.shape.name, weight_hash(model.model), {str(edge): scores[edge] for edge in edges}, effects,
        {str(edge): score for edge, score in scores.items()}, pairs.faithfulness(edges),
        None if held is None else held.faithfulness(edges), random, tuple(curve), pairs.best, pairs.worst,
        len(pairs.answers), 0 if held is None else len(held.answers), wanted, task,
        {site.name: site.n_heads for site in model.shape.sites.values()},
    )  # fmt: skip


def _tensors(
    model: OpenModel, clean: Sequence[Any], corrupted: Sequence[Any], answers: Sequence[tuple[str | int, str | int]]
) -> tuple[Tensor, Tensor, Tensor]:
    if not clean or not len(clean) == len(corrupted) == len(answers):
        raise InputError(
            f"{len(clean)} clean texts, {len(corrupted)} corrupted ones, {len(answers)} answers: give as many of each"
        )
    if model.shape.vocabulary is None:
        raise InputError(f"{model.shape.name} predicts no tokens: a task needs an unembedding")
    rows = [[model.prepare(text).inputs["input_ids"][0] for text in texts] for texts in (clean, corrupted)]
    lengths = {len(row) for side in rows for row in side}
    if len(lengths) > 1:
        raise InputError(
            f"texts of {sorted(lengths)} tokens: a circuit is found on texts of one length; choose such pairs"
        )
    tokens = [[_token(model, each) for each in pair] for pair in answers]
    device = next(model.model.parameters()).device
    return torch.stack(rows[0]).to(device), torch.stack(rows[1]).to(device), torch.tensor(tokens, device=device)


def _token(model: OpenModel, token: str | int) -> int:
    if isinstance(token, int):
        return token
    ids = model.processor.token_ids(token)
    if len(ids) != 1:
        raise InputError(
            f"the answer {token!r} is {len(ids)} tokens of this model, not one; give a single token or an id"
        )
    return int(ids[0])


def connected(edges: Sequence[Edge]) -> list[Edge]:
    """Edges that lie on a way from the embedding to the logits."""
    kept = list(edges)
    while True:
        readers = {edge.reader.name for edge in kept}
        writers = {edge.writer for edge in kept}
        start = ("embedding", "position embedding")
        new = [
            edge
            for edge in kept
            if (edge.reader.name == LOGITS or edge.reader.name in writers)
            and (edge.writer in readers or edge.writer.startswith(start))
        ]
        if len(new) == len(kept):
            return new
        kept = new


def _true_effects(pairs: _Pairs, strongest: Sequence[Edge]) -> dict[str, float]:
    """What the answer loses when one edge is corrupted and all others are clean."""
    found = {}
    for done, edge in enumerate(strongest):
        report_progress("patching the strongest edges", done, len(strongest))
        cut = run_circuit(pairs.patched, pairs.inputs, pairs.corrupted, [edge], cut=True)
        found[str(edge)] = float(pairs.metric(cut)) - pairs.best
    return found


def _grow(pairs: _Pairs, ranked: Sequence[Edge], wanted: float) -> tuple[list[Measured], int]:
    """Double the number of edges until they are faithful enough, then halve the gap."""
    curve: dict[int, float] = {}

    def at(size: int) -> float:
        if size not in curve:
            report_progress("growing the circuit", len(curve), len(curve) + 1)
            curve[size] = pairs.faithfulness(connected(ranked[:size]))
        return curve[size]

    size = 8
    while size < len(ranked) and at(size) < wanted:
        size *= 2
    size = min(size, len(ranked))
    low = size // 2
    while size - low > max(1, size // 16):
        middle = (low + size) // 2
        low, size = (low, middle) if at(middle) >= wanted else (middle, size)
    at(size)
    return [Measured(edges, curve[edges]) for edges in sorted(curve)], size


def _shed(pairs: _Pairs, edges: list[Edge], scores: Mapping[Edge, float], wanted: float) -> list[Edge]:
    """Leave out edges, weakest first, that a faithful circuit does not need."""
    kept = list(edges)
    for done, edge in enumerate(sorted(edges, key=lambda each: abs(scores[each]))):
        if len(edges) > SHED:
            break
        report_progress("leaving out edges", done, len(edges))
        fewer = connected([each for each in kept if each != edge])
        if edge in kept and pairs.faithfulness(fewer) >= wanted:
            kept = fewer
    return kept


def _random(pairs: _Pairs, every: Sequence[Edge], size: int) -> tuple[float, ...]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randperm(len(every), generator=generator)[:size].tolist() for _ in range(RANDOM)]
    return tuple(pairs.faithfulness([every[index] for index in chosen]) for chosen in drawn)


__all__ = ["Circuit", "Measured", "Reader", "connected", "find_circuit", "open_circuit"]
