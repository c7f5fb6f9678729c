"""Layers of a forward pass over short texts, kept to be observed together after the pass, in few kernel launches.

q, k and v of a layer are O(T), so memory stays linear. Layers of one shape, mask and set of questions are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.backends.fused import layers as fused_layers
from headscope.attention.masks import Causal, padding
from headscope.attention.observation import Distance, Rows, Strongest
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

Sizes = tuple[int, int]
"""Queries and keys."""
Questions = Mapping[str, Question]
Ask = Callable[[str, Sizes], Questions]
"""Given a site and its sizes, the questions to ask there, with labels on the CPU that fit 32 bits."""

AT_ONCE = 2**26  # bytes of q and k that are stacked, so that their copy stays small beside them


@dataclass(frozen=True)
class ObservedLayer:
    """One text in one layer: statistics of every row (without z), q and k, and the norms of its values."""

    rows: Rows
    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    scores: Scores
    value_norms: Float[Tensor, "kv key"]


class _Layer(NamedTuple):
    """One layer that waits; all texts of the pass, padded to one length."""

    site: str
    q: Tensor
    k: Tensor
    v: Tensor
    scores: Scores


class WaitingLayers:
    """The layers of one pass over one text, or over several that are padded on the right."""

    def __init__(
        self,
        asks: Sequence[Ask],
        sizes: Callable[[str], Sequence[Sizes]] | None = None,
        together: Callable[[Sequence[Sizes]], Questions | None] = lambda _: None,
    ) -> None:
        """One ``ask`` per text. ``together`` gives the padded questions of all texts of these sizes, if it has some."""
        self._asks, self._sizes, self._together = asks, sizes, together
        self._waiting: dict[str, _Layer] = {}
        self._observed: dict[str, list[ObservedLayer]] = {}
        self._unchecked: list[tuple[list[str], Tensor]] = []
        self._masses: dict[str, tuple[list[str], Tensor]] = {}

    def __contains__(self, site: str) -> bool:
        return site in self._waiting or site in self._observed

    def add(self, site: str, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> None:
        """Keep a layer that ``fused_layers.refuse_layer`` did not refuse. ``scores`` is bound."""
        q, k, v = (each.detach() if each.requires_grad else each for each in (q, k, v))
        self._waiting[site] = _Layer(site, q, k, v, scores)

    def observed(self, site: str, text: int) -> ObservedLayer:
        """One text in one layer. The first call computes all layers and texts."""
        if self._waiting:
            with torch.no_grad():
                for sites, asked in self._groups():
                    for part in self._parts(sites):
                        self._observe(part, asked)
        return self._observed[site][text]

    def masses(self, site: str) -> tuple[list[str], Float[Tensor, "question item head query"]] | None:
        """The masses of all texts at this site and at those that were observed with it, site after site."""
        return self._masses.get(site)

    def _groups(self) -> list[tuple[list[str], Callable[[torch.device], Questions]]]:
        """Sites that can share a launch, and what is asked there of all texts."""
        groups: dict[object, tuple[list[str], Callable[[torch.device], Questions]]] = {}
        for layer in self._waiting.values():
            sizes, asked = self._sizes_at(layer), []
            at_once = self._together(sizes)
            if not at_once:
                asked = [ask(layer.site, size) for ask, size in zip(self._asks, sizes, strict=True)]
            same = (layer.q.shape, layer.k.shape, layer.q.dtype, layer.scores.scale, layer.scores.softcap)
            labels = (id(at_once), *(id(each) if each else 0 for each in asked))
            key = (same, layer.q.device, layer.scores.mask, sizes, labels)
            padded = (
                partial(_moved, at_once) if at_once else partial(_padded, asked, layer.q.shape[2], layer.k.shape[2])
            )
            groups.setdefault(key, ([], padded))[0].append(layer.site)
        return list(groups.values())

    def _parts(self, sites: list[str]) -> Iterator[list[str]]:
        """Some sites at a time: q, k and v are let go when a part has been observed, so no other is stored twice."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in self._waiting[sites[0]][1:4])
        count = max(1, AT_ONCE // max(size, 1))
        for first in range(0, len(sites), count):
            yield sites[first : first + count]

    def _observe(self, sites: list[str], asked: Callable[[torch.device], Questions]) -> None:
        group, n_texts = [self._waiting[site] for site in sites], len(self._asks)
        first = group[0]
        sizes, windows = self._sizes_at(first), len(first.q) // n_texts
        q, k, v = (torch.cat([getattr(layer, side) for layer in group]) for side in ("q", "k", "v"))
        norms = torch.linalg.vector_norm(v, dim=-1, dtype=torch.float32)
        questions = asked(q.device)
        rows = fused_layers.observe_layers(q, k, self._masked(first), questions)
        if questions and windows == 1:
            together = (sites, torch.stack(list(rows.mass.values())))
            self._masses.update(dict.fromkeys(sites, together))
        self._unchecked.append((sites, rows.logsumexp.view(len(group), -1)))
        by_text = zip(*(torch.split(values, windows) for values in _listed(rows, q, k, norms)), strict=True)
        for layer in group:
            self._observed[layer.site] = [
                _one_text(next(by_text), tuple(rows.mass), layer.scores, size) for size in sizes
            ]
            del self._waiting[layer.site]

    def unchecked(self) -> list[tuple[list[str], Float[Tensor, "site row"]]]:
        """Sites and their log-sum-exp that nobody has checked yet; the caller is to."""
        found, self._unchecked = self._unchecked, []
        return found

    def _sizes_at(self, layer: _Layer) -> tuple[Sizes, ...]:
        return ((layer.q.shape[2], layer.k.shape[2]),) if self._sizes is None else tuple(self._sizes(layer.site))

    def _masked(self, layer: _Layer) -> Scores:
        return layer.scores if self._sizes is None else without_padding(layer.scores, self._sizes_at(layer), layer.q)


def without_padding(scores: Scores, sizes: Sequence[Sizes], q: Tensor) -> Scores:
    """Scores of a batch padded on the right, in which no real query sees padding: a causal one sees none anyway."""
    lengths = [n_key for _, n_key in sizes]
    if any(isinstance(part, Causal) for part in scores.mask.parts) or len(set(lengths)) == 1:
        return scores
    mask = (scores.mask & padding(lengths)).bind(len(q), q.shape[1], q.shape[2], max(lengths))
    return Scores(scale=scores.scale, mask=mask, softcap=scores.softcap)


def _padded(asked: list[Questions], n_query: int, n_key: int, device: torch.device) -> dict[str, Question]:
    """The questions of all texts at once: labels are padded with −1, which matches nothing."""
    names = {name: question.exclude_self for questions in asked for name, question in questions.items()}

    def labels(name: str, side: str, length: int) -> Tensor:
        rows = [_row(questions.get(name), side) for questions in asked]
        return torch.stack([F.pad(row, (0, length - len(row)), value=-1) for row in rows])

    if not names:
        return {}
    query = torch.stack([labels(name, "query", n_query) for name in names]).to(device, torch.int32, non_blocking=True)
    key = torch.stack([labels(name, "key", n_key) for name in names]).to(device, torch.int32, non_blocking=True)
    return {name: Question(query[n], key[n], names[name]) for n, name in enumerate(names)}


def _moved(questions: Questions, device: torch.device) -> dict[str, Question]:
    """The padded questions of texts whose queries and keys are the same positions, copied to a device at once."""
    labels = torch.stack([side for each in questions.values() for side in (each.query, each.key)])
    sides = labels.to(torch.int32).to(device, non_blocking=True).unbind()
    pairs = zip(questions.items(), zip(sides[::2], sides[1::2], strict=True), strict=True)
    return {name: Question(query, key, each.exclude_self) for (name, each), (query, key) in pairs}


def _row(question: Question | None, side: str) -> Tensor:
    return torch.empty(0, dtype=torch.long) if question is None else getattr(question, side)[0]


def _listed(rows: Rows, q: Tensor, k: Tensor, norms: Tensor) -> list[Tensor]:
    """Everything that was observed, item by item along the first axis."""
    assert rows.entropy is not None
    assert rows.distance is not None
    assert rows.strongest is not None
    by_row = [rows.output, rows.logsumexp, rows.entropy, *rows.distance, *rows.strongest, *rows.mass.values()]
    return [q, k, norms, *by_row]


def _one_text(values: tuple[Tensor, ...], names: tuple[str, ...], scores: Scores, size: Sizes) -> ObservedLayer:
    """One text of ``_listed``, without padding."""
    q, k, norms, *by_row = values
    n_query, n_key = size
    if q.shape[2] != n_query:
        q, by_row = q[:, :, :n_query], [each[:, :, :n_query] for each in by_row]
    if k.shape[2] != n_key:
        k, norms = k[:, :, :n_key], norms[:, :, :n_key]
    output, logsumexp, entropy, mean, std, key, weight, *masses = by_row
    mass = dict(zip(names, masses, strict=True))
    own = Rows(output, logsumexp, entropy, Distance(mean, std), Strongest(key, weight), mass)
    return ObservedLayer(own, q, k, scores, norms[0])
