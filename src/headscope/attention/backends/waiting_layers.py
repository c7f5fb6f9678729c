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
from headscope.attention.backends.fused.layers import LayerStatistics
from headscope.attention.masks import Causal, padding
from headscope.attention.observation import Distance, Rows, Strongest
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

Sizes = tuple[int, int]
"""Queries and keys."""
Questions = Mapping[str, Question]
Ask = Callable[[str, Sizes], Questions]
"""Given a site and its sizes, the questions to ask there, with labels on the CPU that fit 32 bits."""

AT_ONCE = 2**25  # bytes of q and k that are stacked, so that their copy stays small beside them


class _Layer(NamedTuple):
    """One layer that waits; all texts of the pass, padded to one length."""

    site: str
    q: Tensor
    k: Tensor
    v: Tensor
    scores: Scores


class _Stacked(NamedTuple):
    """Layers that were observed together: texts one after the other, layer after layer."""

    sites: list[str]
    q: Float[Tensor, "item head query d_head"]
    k: Float[Tensor, "item kv key d_head"]
    norms: Float[Tensor, "item kv key"]
    found: LayerStatistics
    questions: tuple[str, ...]


@dataclass(frozen=True)
class ObservedLayer:
    """One text in one layer. What is rarely read is cut from the joint tensors of all layers when it is asked for."""

    rows: Rows
    scores: Scores
    _stacked: _Stacked
    _items: slice
    _size: Sizes

    @property
    def kept(self) -> tuple[Float[Tensor, "batch head query d_head"], Float[Tensor, "batch kv key d_head"]]:
        """q and k."""
        n_query, n_key = self._size
        return self._stacked.q[self._items, :, :n_query], self._stacked.k[self._items, :, :n_key]

    @property
    def value_norms(self) -> Float[Tensor, "kv key"]:
        """The norms of the values of the first window."""
        return self._stacked.norms[self._items.start, :, : self._size[1]]


class WaitingLayers:
    """The layers of one pass over one text, or over several that are padded on the right."""

    def __init__(self, asks: Sequence[Ask], sizes: Callable[[str], Sequence[Sizes]] | None = None) -> None:
        """One ``ask`` per text."""
        self._asks, self._sizes = asks, sizes
        self._waiting: dict[str, _Layer] = {}
        self._observed: dict[str, tuple[_Stacked, Scores]] = {}
        self.unchecked: list[tuple[list[str], Float[Tensor, "site row"]]] = []
        """Sites and their log-sum-exp that nobody has checked yet; whoever has clears the list."""

    def add(self, site: str, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> None:
        """Keep a layer that ``fused_layers.refuse_layer`` did not refuse. ``scores`` is bound."""
        q, k, v = (each.detach() if each.requires_grad else each for each in (q, k, v))
        self._waiting[site] = _Layer(site, q, k, v, scores)

    def observed(self, site: str, text: int, z: Tensor) -> ObservedLayer:
        """One text in one layer, with the z that the pass computed. The first call computes all layers and texts."""
        if self._waiting:
            with torch.no_grad():
                for sites, asked in self._groups():
                    questions = asked(self._waiting[sites[0]].q.device)
                    for part in self._parts(sites):
                        self._observe(part, questions)
        stacked, scores = self._observed[site]
        size, per_layer = self._sizes_at(site, stacked.q, stacked.k)[text], len(stacked.q) // len(stacked.sites)
        windows = per_layer // len(self._asks)
        first = stacked.sites.index(site) * per_layer + text * windows
        items = slice(first, first + windows)
        return ObservedLayer(_rows(stacked, items, size[0], z), scores, stacked, items, size)

    def _groups(self) -> list[tuple[list[str], Callable[[torch.device], Questions]]]:
        """Sites that can share a launch, and what is asked there of all texts."""
        groups: dict[object, tuple[list[str], Callable[[torch.device], Questions]]] = {}
        for layer in self._waiting.values():
            sizes = self._sizes_at(layer.site, layer.q, layer.k)
            asked = [ask(layer.site, size) for ask, size in zip(self._asks, sizes, strict=True)]
            same = (layer.q.shape, layer.k.shape, layer.q.dtype, layer.scores.scale, layer.scores.softcap)
            labels = tuple(id(each) if each else 0 for each in asked)
            key = (same, layer.q.device, layer.scores.mask, sizes, labels)
            padded = partial(_padded, asked, layer.q.shape[2], layer.k.shape[2])
            groups.setdefault(key, ([], padded))[0].append(layer.site)
        return list(groups.values())

    def _parts(self, sites: list[str]) -> Iterator[list[str]]:
        """Some sites at a time: q, k and v are let go when a part has been observed, so no other is stored twice."""
        layer = self._waiting[sites[0]]
        size = sum(tensor.numel() * tensor.element_size() for tensor in (layer.q, layer.k))
        count = max(1, AT_ONCE // max(size, 1))
        for first in range(0, len(sites), count):
            yield sites[first : first + count]

    def _observe(self, sites: list[str], questions: Questions) -> None:
        group = [self._waiting[site] for site in sites]
        q, k = (torch.cat([getattr(layer, side) for layer in group]) for side in ("q", "k"))
        # Layer by layer: values are not needed in one tensor, and their copy would be as large as that of the keys.
        norms = torch.cat([torch.linalg.vector_norm(layer.v, dim=-1, dtype=torch.float32) for layer in group])
        found = fused_layers.statistics_of(q, k, self._masked(group[0]), questions)
        stacked = _Stacked(sites, q, k, norms, found, tuple(questions))
        self.unchecked.append((sites, found.values[0].view(len(group), -1)))
        for layer in group:
            self._observed[layer.site] = stacked, layer.scores
            del self._waiting[layer.site]

    def _sizes_at(self, site: str, q: Tensor, k: Tensor) -> tuple[Sizes, ...]:
        return ((q.shape[2], k.shape[2]),) if self._sizes is None else tuple(self._sizes(site))

    def _masked(self, layer: _Layer) -> Scores:
        if self._sizes is None:
            return layer.scores
        return without_padding(layer.scores, self._sizes_at(layer.site, layer.q, layer.k), layer.q)


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


def _row(question: Question | None, side: str) -> Tensor:
    return torch.empty(0, dtype=torch.long) if question is None else getattr(question, side)[0]


def _rows(stacked: _Stacked, items: slice, n_query: int, z: Tensor) -> Rows:
    """The rows of some items, without padding: one view of all statistics, taken apart."""
    lse, entropy, mean, std, weight, *masses = stacked.found.values[:, items, :, :n_query].unbind()
    strongest = Strongest(stacked.found.strongest[items, :, :n_query], weight)
    mass = dict(zip(stacked.questions, masses, strict=True))
    return Rows(z, lse, entropy, Distance(mean, std), strongest, mass)
