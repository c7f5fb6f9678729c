"""Compare a published graph with the model it was made from: predictions, weights and edits, on texts of many kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.app.pages.predictions import logits_under
from headscope.app.publish.graph import INPUTS, Exported, example_inputs
from headscope.app.publish.weights import DType
from headscope.heads.edits.ablate import ablate
from headscope.heads.edits.edit import Edit
from headscope.heads.edits.hidden_keys import knock_out
from headscope.heads.look.look import Look
from headscope.names import Site
from headscope.scope import Scope

TOLERANCE: dict[DType, float] = {"float16": 1e-3, "float32": 1e-4}
"""Of a probability and of an attention weight."""
ASKED_FOR = 1e-2
"""What somebody accepts who asks for float16 by name; the error is said."""
GRAPH = "graph.onnx"
TEXTS = (
    "A",
    "My white horse drank at the river. My white horse drank at the",
    "for i in range(10):\n    print(i, 'naïve café 🙂')  # 東京",
)


@dataclass(frozen=True)
class Verified:
    """The largest differences between the graph and the model: of a probability, a weight, and one under an edit."""

    texts: int
    probability: float
    weight: float
    edited: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return max(self.probability, self.weight, self.edited) <= self.tolerance  # False for NaN as well

    def __str__(self) -> str:
        close = "as in Python" if self.tolerance < ASKED_FOR else "near Python's"
        verdict = close if self.passed else f"not as in Python (at most {self.tolerance:g} is allowed)"
        return (
            f"{verdict}: on {self.texts} texts the largest difference of a probability is {self.probability:.1e}, of "
            f"an attention weight {self.weight:.1e}, and of a probability with heads switched off {self.edited:.1e}"
        )


class GraphSession:
    """A published graph, run here by onnxruntime as the browser runs it."""

    def __init__(self, folder: Path, scope: Scope, exported: Exported) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.names, self.scores = exported.outputs, exported.scores
        self.session = onnxruntime.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])
        self.nothing = dict(zip(INPUTS, (each.numpy() for each in example_inputs(scope.model)), strict=True))

    def run(self, ids: Sequence[int], **edits: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        """All outputs for these tokens, under edits that are given as the graph's inputs."""
        given = {**self.nothing, "ids": np.array([ids], dtype=np.int64), **edits}
        return dict(zip(self.names, self.session.run(None, given), strict=True))

    def pattern(self, outputs: Mapping[str, NDArray[np.float32]], site: Site) -> Float[Tensor, "head query key"]:
        """The pattern that follows from q and k as the page computes it: with a scale, a softcap and a run of keys."""
        q, k = (torch.tensor(outputs[f"{part} {site.name}"]).double() for part in ("q", "k"))
        how = self.scores[site.name]
        scores = (q * how.scale) @ k.repeat_interleave(site.group_size, 0).mT
        if how.softcap is not None:
            scores = torch.tanh(scores / how.softcap) * how.softcap
        rows, columns = torch.arange(q.shape[1])[:, None], torch.arange(k.shape[1])[None]
        hidden = torch.zeros(q.shape[1], k.shape[1], dtype=torch.bool)
        if site.causal:
            hidden = columns > rows
        if site.window is not None:
            hidden = hidden | ((rows - columns).abs() >= site.window)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1)


def verify(
    folder: Path,
    scope: Scope,
    exported: Exported,
    tolerance: float = TOLERANCE["float16"],
    texts: Sequence[str] = TEXTS,
) -> Verified:
    """Run the files in this folder, and compare them with the model."""
    session = GraphSession(folder, scope, exported)
    probability = weight = edited = 0.0
    for text in texts:
        look = scope.look(text)
        ids = [token.id for token in look.tokens]
        outputs = session.run(ids)
        probability = _larger(probability, gap(outputs["logits"], look.logits))
        for site in scope.shape.sites.values():
            theirs = look.patterns(site.name)
            weight = _larger(weight, float((session.pattern(outputs, site) - theirs).abs().max()))
        for edits, inputs in _edits(look, session):
            edited = _larger(edited, gap(session.run(ids, **inputs)["logits"], logits_under(look, edits)))
    return Verified(len(texts), probability, weight, edited, tolerance)


def gap(ours: NDArray[np.float32], theirs: Tensor) -> float:
    """The largest difference of a probability at any position."""
    return float((torch.tensor(ours).double().softmax(-1) - theirs.double().softmax(-1)).abs().max())


def _edits(look: Look, session: GraphSession) -> list[tuple[list[Edit], dict[str, NDArray[Any]]]]:
    """Each kind of edit, as Python's and as the graph's inputs: two heads off by zero and by mean, one arrow cut."""
    sites, last = list(look.shape.sites), len(look.tokens) - 1
    heads = [(0, 0), (len(sites) - 1, look.shape.sites[sites[-1]].n_heads - 1)]
    names = [f"{sites[site]}.{head}" for site, head in heads]
    gates, means = session.nothing["gates"].copy(), session.nothing["means"].copy()
    for site, head in heads:
        gates[site, head], means[site, head] = 0.0, 1.0
    arrow = np.array([[heads[1][0], heads[1][1], last, 0]], dtype=np.int64)
    return [
        ([ablate(*names)], {"gates": gates}),
        ([ablate(*names, how="mean")], {"gates": gates, "means": means}),
        ([knock_out(names[1], last, 0)], {"cuts": arrow}),
    ]


def _larger(one: float, other: float) -> float:
    """The larger of two; NaN, which is larger than anything allowed, stays."""
    return other if not other <= one else one
