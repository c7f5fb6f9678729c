"""Read several texts in one padded batch: linear layers run once for all texts, attention per text on real tokens only.

Each text is padded on the right by repeating its last token, and none attends to padding, so every real row is what it
is alone. A model that mixes positions outside of attention could differ, or one whose rotations depend on the length of
its input: a batch of lengths that were not compared before is compared with its short texts read alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headscope.attention.backends.fused.layers import refuse_layer
from headscope.attention.backends.waiting_layers import WaitingLayers, without_padding
from headscope.attention.masks import Causal, Dense, Mask, Window
from headscope.attention.observer import Call, plain
from headscope.attention.scores import Alibi, DenseBias, Relative, Scores
from headscope.heads.look.activation_cache import on_cpu, size_in_bytes

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

TEXT_INPUTS = {"input_ids", "decoder_input_ids"}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # relative to the largest logit; half precision: 5e-2

SEVERAL = 4  # tokens of a text in which a change of the pattern shows


class NotOneBatchError(Exception):
    """These texts, or this model's attention calls, cannot share a padded batch."""


class ComparedLengths:
    """Lengths of texts, from the shortest to the longest, between which padding was seen to change nothing."""

    def __init__(self) -> None:
        self._spans: dict[str, tuple[int, int]] = {}

    def covers(self, lengths: Mapping[str, Sequence[int]]) -> bool:
        """Whether texts of these lengths, for each input, need not be compared again."""
        spans = [(self._spans.get(name, (1, 0)), min(each), max(each)) for name, each in lengths.items()]
        return all(low <= shortest and longest <= high for (low, high), shortest, longest in spans)

    def add(self, lengths: Mapping[str, Sequence[int]]) -> None:
        """Add compared lengths: merged with the earlier ones if they overlap, else in place of them."""
        for name, each in lengths.items():
            low, high = self._spans.get(name, (1, 0))
            apart = max(low, min(each)) > min(high, max(each))
            self._spans[name] = (min(each), max(each)) if apart else (min(low, *each), max(high, *each))


def read_in_one_batch(looks: Sequence[Look], compared: ComparedLengths) -> None:
    """Run one forward pass for all looks; raise NotOneBatchError where they have to be read one by one."""
    inputs = _padded([look.prepared.inputs for look in looks])
    model, batch = looks[0].model, _WaitingBatch(looks)

    def attend(site: str, call: Call) -> Tensor:
        sizes = batch.sizes(site)
        if call.q.shape[0] != len(looks) or (call.q.shape[2], call.k.shape[2]) != tuple(
            map(max, zip(*sizes, strict=True))
        ):
            raise NotOneBatchError
        if batch.takes(call):
            return batch.attend(site, call)
        z = call.v.new_zeros(*call.q.shape[:3], call.v.shape[-1])
        for index, (look, (n_query, n_key)) in enumerate(zip(looks, sizes, strict=True)):
            z[index, :, :n_query] = _attend(look, site, _one_text(call, index, n_query, n_key))[0]
        return z

    with torch.no_grad():
        logits = model.run(inputs, attend).logits
    batch.end()
    for index, look in enumerate(looks):
        own = (slice(index, index + 1), slice(len(look.written)))
        look.edits.refuse_beyond(look.cache.reached)
        look.cache.keep(logits[own])
    lengths = {name: [look.prepared.inputs[name].shape[1] for look in looks] for name in inputs}
    if not compared.covers(lengths):
        for index in dict.fromkeys(index for each in lengths.values() for index in _most_padded(each)):
            _check_equal(looks[index])
        compared.add(lengths)


def _most_padded(lengths: Sequence[int]) -> list[int]:
    """The shortest text, and the shortest of some tokens: the pattern of one token is the same whatever happens."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    padded = [index for index in order if lengths[index] < lengths[order[-1]]]
    several = [index for index in padded if lengths[index] >= SEVERAL]
    return [order[0], *(several or padded[::-1])[:1]]


class _WaitingBatch:
    """The layers of one padded batch that are observed together, after the pass, for all texts."""

    def __init__(self, looks: Sequence[Look]) -> None:
        self.looks = looks
        self._sizes: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._sizes_at: dict[str, list[tuple[int, int]]] = {}  # by site; it outlives this batch with the layers
        asks = [on_cpu(look.questions) for look in looks]
        self._layers = WaitingLayers(asks, self._sizes_at.__getitem__)
        self._z: dict[str, Tensor] = {}

    def sizes(self, site: str) -> list[tuple[int, int]]:
        """Queries and keys of every text at a site; the same at all sites of one stack and kind."""
        stack = (site.rpartition(".")[0].partition(".")[0], self.looks[0].shape.sites[site].kind)
        if stack not in self._sizes:
            self._sizes[stack] = [(len(look.query_tokens(site)), len(look.key_tokens(site))) for look in self.looks]
        return self._sizes[stack]

    def takes(self, call: Call) -> bool:
        """Whether a layer can wait: one that the kernel takes, without edits, within every text's budget."""
        if any(look.edits for look in self.looks):
            return False
        if refuse_layer(call.q, call.k, call.v, call.scores.bind(call.q, call.k)) is not None:
            return False
        size = size_in_bytes(call.q, call.k, call.v, call.q) // len(self.looks)
        counted = [look.cache.fits(size) for look in self.looks]
        return all(counted)

    def attend(self, site: str, call: Call) -> Tensor:
        bound = call.scores.bind(call.q, call.k)
        self._sizes_at[site] = self.sizes(site)
        self._layers.add(site, call.q, call.k, call.v, bound)
        self._z[site] = z = plain(replace(call, scores=without_padding(bound, self.sizes(site), call.q)))
        return z

    def end(self) -> None:
        """Give every look its part of the batch."""
        if not self._z:
            return
        sizes = {site: self.sizes(site) for site in self._z}
        for index, look in enumerate(self.looks):
            own = {site: (sizes[site][index], z[index : index + 1]) for site, z in self._z.items()}
            for site, (size, _) in own.items():
                look.cache.reached[site], look.cache.n_windows[site] = size, 1
            look.cache.wait(self._layers, index, {site: z[:, :, : size[0]] for site, (size, z) in own.items()})


def _attend(look: Look, site: str, call: Call) -> Tensor:
    return look.cache.keep_site(site, call, look.questions)


def _padded(given: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    if any(set(inputs) != set(given[0]) or not set(inputs) <= TEXT_INPUTS for inputs in given):
        raise NotOneBatchError
    longest = {name: max(inputs[name].shape[1] for inputs in given) for name in given[0]}
    return {
        name: torch.stack(
            [torch.cat((row, row[-1:].expand(size - len(row)))) for row in (each[name][0] for each in given)]
        )
        for name, size in longest.items()
    }


def _one_text(call: Call, index: int, n_query: int, n_key: int) -> Call:
    """The attention call of one text of the batch, without padding."""
    scores, bias, parts = call.scores, call.scores.bias, call.scores.mask.parts
    if not all(isinstance(part, Causal | Window | Dense) for part in parts):
        raise NotOneBatchError
    if not (bias is None or isinstance(bias, Alibi | Relative | DenseBias)):
        raise NotOneBatchError

    def corner(values: Tensor) -> Tensor:
        return values[index if len(values) > 1 else 0, :, :n_query, :n_key][None]

    mask = Mask(tuple(Dense(corner(part.allowed)) if isinstance(part, Dense) else part for part in parts))
    bias = DenseBias(corner(bias.values)) if isinstance(bias, DenseBias) else bias
    own = Scores(scale=scores.scale, mask=mask, bias=bias, softcap=scores.softcap, sinks=scores.sinks)
    one = slice(index, index + 1)
    return replace(call, q=call.q[one, :, :n_query], k=call.k[one, :, :n_key], v=call.v[one, :, :n_key], scores=own)


def _check_equal(look: Look) -> None:
    """Compare a text read in the batch with the same text read by itself."""
    with torch.no_grad():
        alone = look.model.run(look.prepared.inputs, look.cache.attend).logits[0].float()
    if (alone - look.logits.float()).abs().max() > TOLERANCE.get(look.logits.dtype, 5e-2) * alone.abs().max():
        raise NotOneBatchError
