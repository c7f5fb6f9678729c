"""One shard's rows through the model, every head seen: the work that workers do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observation import Observation
from headscope.attention.observer import Call, plain
from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LabelRule
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.document_split import Block, Separation
from headscope.scan.corpus.packing import Frame, PackedRows
from headscope.scan.labels import Labels, label
from headscope.scan.tally.poisson_bootstrap import hashed
from headscope.scan.tally.reduction import TRAITS, Reduced, Seen, reduce
from headscope.scan.tally.tally import Layout, Source, Tally

Tick = Callable[[int], None]
"""Told how many tokens were just read."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How rows become numbers; travels to workers."""

    frame: Frame
    layout: Layout
    rules: tuple[LabelRule, ...]
    batch: int
    threads: int
    unit: str
    first_position: int | None
    """The position number of a piece's first token, or None where positions simply run on."""


class Measurer:
    """A model, and what is asked of it."""

    def __init__(self, model: OpenModel, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self.device = next(model.model.parameters()).device

    def measure(self, rows: PackedRows, tick: Tick | None = None) -> Tally:
        """The tally of these rows. While a GPU reads one batch, the CPU counts the one before."""
        tally = Tally.zero(self.plan.layout)
        waiting: _Watcher | None = None
        with torch.no_grad(), threads(self.plan.threads):
            for batch in rows.batches(self.plan.batch):
                labels = label(batch, self.plan.frame, self.plan.rules, self.model)
                watcher = _Watcher(batch, labels, self)
                self.model.run(inputs_for(self.model, batch, self.plan.first_position), watcher.see)
                watcher.finish()
                if waiting is not None:
                    waiting.count(tally)
                waiting = watcher
                if tick is not None:
                    tick(batch.n_tokens)
            if waiting is not None:
                waiting.count(tally)
        return tally

    def is_causal(self, site: str) -> bool:
        return self.model.shape.sites[site].causal


class _Watcher:
    """Sees every site of one batch, and keeps the sums of what it saw until they are counted."""

    def __init__(self, rows: PackedRows, labels: Labels, measurer: Measurer) -> None:
        self.rows, self.labels, self.measurer, self.plan = rows, labels, measurer, measurer.plan
        self.separation = Separation.of(rows)
        self.questions = {name: asked.question for name, asked in labels.asked.items()}
        self.known = {name for name, _ in self.plan.layout.sites}
        self.seen: list[tuple[str, Reduced]] = []
        self._ready: torch.cuda.Event | None = None
        self._inside: dict[tuple[Block, torch.device], dict[str, Question]] = {}
        self._valid: dict[bool, Tensor] = {}
        self._chance: dict[bool, Tensor] = {}
        alone = [[[float(asked.exclude_self)]] for asked in self.questions.values()]
        self._alone = torch.tensor(alone, device=measurer.device)

    def see(self, site: str, call: Call) -> Tensor:
        sizes = (call.q.shape[0], call.q.shape[2], call.k.shape[2])
        if site not in self.known or sizes != (*self.rows.ids.shape, self.rows.ids.shape[1]):
            return plain(call)
        seen = _Gathered(call, len(TRAITS) + len(self.questions), len(self.questions))
        for block, part in self.separation.parts(call):
            asked = self.inside(block, call.q.device)
            seen.take(block, observe(part.q, part.k, part.v, scores=part.scores, questions=asked))
        causal = self.measurer.is_causal(site)
        self._nulls(seen, causal)
        whole = Seen(seen.everything, self.valid(causal).to(call.q.device), seen.strongest, self.rows.pieces)
        self.seen.append((site, reduce(whole, len(self.questions), self.plan.layout.context).to_host()))
        return seen.z

    def finish(self) -> None:
        """The pass is over, as far as the CPU can tell."""
        if self.measurer.device.type == "cuda":
            self._ready = torch.cuda.current_stream(self.measurer.device).record_event()

    def count(self, tally: Tally) -> None:
        if self._ready is not None:
            self._ready.synchronize()
        source = Source(self.rows.ids, self.rows.pieces, units(self.rows, self.plan.unit))
        for site, seen in self.seen:
            tally.add(site, seen, source)

    def inside(self, block: Block, device: torch.device) -> dict[str, Question]:
        """The questions of one block, made once for all sites: a question remembers how it is best answered."""
        if (block, device) not in self._inside:
            at = (block.at, slice(block.start, block.stop))
            self._inside[block, device] = {
                name: Question(asked.query[at].to(device), asked.key[at].to(device), asked.exclude_self)
                for name, asked in self.questions.items()
            }
        return self._inside[block, device]

    def _nulls(self, seen: _Gathered, causal: bool) -> None:
        """What shuffled labels would give: chance, times what of the row lands on the keys that may match."""
        itself = seen.quantity(len(TRAITS) + list(self.questions).index("itself"))
        on_others = seen.on_keys[:, None] - self._alone.to(itself.device) * itself[:, None]
        torch.mul(self.chance(causal).to(itself.device)[:, :, None], on_others, out=seen.nulls)

    def valid(self, causal: bool) -> Bool[Tensor, "row position quantity"]:
        """Which rows count for which quantity: those with an answer, the same ones for a question and its null."""
        if causal not in self._valid:
            counted = [self.labels.counted] * len(TRAITS)
            asked = [self.labels.answerable(name, causal) for name in self.questions]
            self._valid[causal] = torch.stack([*counted, *asked, *asked], dim=-1).to(self.measurer.device)
        return self._valid[causal]

    def chance(self, causal: bool) -> Float[Tensor, "row question position"]:
        if causal not in self._chance:
            stacked = torch.stack([self.labels.chance(name, causal) for name in self.questions], dim=1)
            self._chance[causal] = stacked.to(self.measurer.device)
        return self._chance[causal]


class _Gathered:
    """The numbers of one call, put together from its blocks. In memory positions lie side by side, as they are made
    and as they will be summed; the axes are named in the order of ``Seen``."""

    def __init__(self, call: Call, n_quantities: int, n_nulls: int) -> None:
        batch, n_heads, length, _ = call.q.shape
        device = call.q.device
        self._found = torch.zeros(batch, n_quantities + n_nulls, n_heads, length, device=device)
        self.everything = self._found.permute(0, 3, 1, 2)
        self.nulls = self._found[:, n_quantities:]
        self.strongest = torch.full((batch, n_heads, length), -1, dtype=torch.long, device=device).transpose(1, 2)
        self.on_keys = torch.ones(batch, n_heads, length, device=device)
        self._like, self._shape = call.v, (batch, n_heads, length, call.v.shape[-1])
        self._z: Tensor | None = None

    def take(self, block: Block, seen: Observation) -> None:
        rows, columns = block.at, slice(block.start, block.stop)
        traits = [seen.entropy, seen.distance.mean, seen.distance.std, seen.strongest.weight]
        found = torch.stack([*traits, *seen.mass.values()], dim=1)
        self._found[rows, : found.shape[1], :, columns] = found.float()
        self.strongest[rows, columns] = seen.strongest.key.transpose(1, 2) + block.start
        if seen.scores.sinks is not None:
            self.on_keys[rows, :, columns] = 1 - seen.sink.float()
        if seen.output.shape == self._shape:
            self._z = seen.output
        else:
            self.z[rows, :, columns] = seen.output

    def quantity(self, number: int) -> Float[Tensor, "row head position"]:
        return self._found[:, number]

    @property
    def z(self) -> Float[Tensor, "batch head query d_value"]:
        """Zeros where no block has been."""
        if self._z is None:
            self._z = self._like.new_zeros(self._shape)
        return self._z


def units(rows: PackedRows, unit: str) -> list[int]:
    """What the bootstrap draws together: all pieces of a document, or each piece."""
    if unit == "document":
        return [piece.document for piece in rows.pieces]
    documents = np.array([piece.document for piece in rows.pieces], dtype=np.uint64)
    offsets = np.array([piece.offset for piece in rows.pieces], dtype=np.uint64)
    return [int(number) for number in hashed(hashed(documents) ^ offsets)]


def takes(model: OpenModel) -> frozenset[str]:
    """What the model may be called with."""
    return frozenset(inspect.signature(model.model.forward).parameters)


def inputs_for(model: OpenModel, rows: PackedRows, first_position: int | None) -> dict[str, Tensor]:
    """What the model is called with. Logits are not needed, so only one position's are asked for where that works."""
    names = takes(model)
    device = next(model.model.parameters()).device
    inputs = {"input_ids": rows.ids.to(device)}
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    if first_position is not None:
        inputs["position_ids"] = rows.places().to(device) + first_position
    if "logits_to_keep" in names:
        inputs["logits_to_keep"] = torch.zeros(1, dtype=torch.long, device=device)
    return inputs


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside the block: the last digits of a matrix product depend on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
