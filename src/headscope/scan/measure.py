"""Measure the rows of a shard: run the model, observe every site, and add the sums to a tally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observation import Observation
from headscope.attention.observer import Call, plain
from headscope.attention.questions import Question
from headscope.heads.bootstrap import hash64
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import VisibleKeys
from headscope.models.finite import PassCheck, deferred_checks
from headscope.models.modes import device_of, threads
from headscope.models.protocol import KEEP
from headscope.models.recording import OpenModel, note_logsumexp
from headscope.scan.corpus.packing import DocumentBlock, DocumentSplit, PackedRows, RowFormat
from headscope.scan.labels import Asked, label_batch, null_name, question_names
from headscope.scan.options import ScanOptions
from headscope.scan.tally import TRAITS, SiteValues, Tally, TallyLayout, reduce
from headscope.scan.waiting_sites import SummedSites, WaitingSites

Advance = Callable[[int], None]
"""Called with the number of tokens that were just processed."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured, and how: sent to every worker."""

    row_format: RowFormat
    layout: TallyLayout
    rules: tuple[LabelRule, ...]
    batch: int
    threads: int
    unit: str

    @classmethod
    def make(cls, model: OpenModel, options: ScanOptions, row_format: RowFormat, threads: int, unit: str) -> Plan:
        """The plan for a model. ``unit`` is what the bootstrap draws: a "document" or a "piece"."""
        names = question_names(options.rules)
        layout = TallyLayout(
            sites=tuple((site.name, site.n_heads) for site in model.shape.sites.values()),
            questions=names,
            nulls=tuple(null_name(name) for name in names),
            context=row_format.context,
            replicates=options.replicates,
            examples=options.examples,
            seed=options.seed,
        )
        batch = options.batch_for(row_format.context, device_of(model.model))
        return cls(row_format=row_format, layout=layout, rules=options.rules, batch=batch, threads=threads, unit=unit)


class Measurer:
    """An open model and the plan to measure it by."""

    def __init__(self, model: OpenModel, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self.device = device_of(model.model)
        self.causal = {site: model.shape.sites[site].causal for site, _ in plan.layout.sites}

    def measure(self, rows: PackedRows, advance: Advance | None = None) -> Tally:
        """The tally of these rows."""
        found: list[Tally] = []
        self.measure_all([rows], found.append, advance)
        return found[0]

    def measure_all(
        self, shards: Iterable[PackedRows], done: Callable[[Tally], None], advance: Advance | None = None
    ) -> None:
        """Pass on the tally of each shard. While a GPU runs one batch, the CPU adds the sums of the one before."""
        waiting: Callable[[], None] | None = None
        with torch.no_grad(), threads(self.plan.threads):
            for rows in shards:
                tally = Tally.zero(self.plan.layout)
                batches = list(self._batches(rows))
                for batch in batches:
                    observer = self._run(batch)
                    if waiting is not None:
                        waiting()
                    waiting = partial(_add, observer, tally, done if batch is batches[-1] else None)
                    if advance is not None:
                        advance(batch.n_tokens)
            if waiting is not None:
                waiting()

    def _batches(self, rows: PackedRows) -> Iterator[PackedRows]:
        parts = [rows] if self.plan.row_format.pads_rows else rows.without_padding()
        return (batch for part in parts for batch in part.batches(self.plan.batch))

    def _run(self, batch: PackedRows) -> _BatchObserver:
        observer = _BatchObserver(batch, self)
        with deferred_checks() as observer.checks:
            self.model.run(model_inputs(self.model, batch, self.plan.row_format.first_position), observer.attend)
            observer.finish()
        return observer


def _add(observer: _BatchObserver, tally: Tally, done: Callable[[Tally], None] | None) -> None:
    """Add a batch to its tally, which is passed on after the last one."""
    observer.add_to(tally)
    if done is not None:
        done(tally)


class _BatchObserver:
    """Observes every site of one batch, and keeps the sums until they are added to a tally."""

    def __init__(self, rows: PackedRows, measurer: Measurer) -> None:
        self.rows, self.plan = rows, measurer.plan
        self.device, self.causal = measurer.device, measurer.causal
        labels = label_batch(rows, self.plan.row_format, self.plan.rules, measurer.model, self.device)
        self.split = DocumentSplit.of(rows)
        self.questions = labels.questions
        self.asked = Asked(labels, self.plan.layout.context)
        self.sums: list[SummedSites] = []
        self.checks: list[PassCheck] = []
        self._ends: list[torch.cuda.Event] = []
        self._block_questions: dict[tuple[DocumentBlock, torch.device], dict[str, Question]] = {}
        self._waiting = WaitingSites(rows, self.asked, self.causal, self.sums.append)

    def attend(self, site: str, call: Call) -> Tensor:
        """Compute a site's attention output and sum up what its heads do. Sites of other sizes pass unobserved."""
        sizes = (call.q.shape[0], call.q.shape[2], call.k.shape[2])
        if site not in self.causal or sizes != (*self.rows.ids.shape, self.rows.ids.shape[1]):
            return plain(call)
        if self._waiting.takes(call):
            return self._waiting.attend(site, call)
        buffers = _SiteBuffers(call, len(self.questions))
        for block, part in self.split.calls(call):
            questions = self._questions_in(block, call.q.device)
            seen = observe(part.q, part.k, part.v, scores=part.scores, questions=questions)
            note_logsumexp(site, seen.logsumexp)
            buffers.fill(block, seen)
        keys, device = VisibleKeys.of(self.causal[site], call.scores.mask, call.k.shape[2]), call.q.device
        self._fill_nulls(buffers, self.asked.shares(keys, device))
        valid = self.asked.valid(keys, device)
        values = SiteValues(buffers.values.permute(0, 3, 1, 2), valid, buffers.strongest, self.rows.pieces)
        sums = reduce(values, len(self.questions), self.plan.layout.context).to_host()
        self.sums.append(SummedSites(site, 1, sums))
        return buffers.z

    def finish(self) -> None:
        """Observe the sites that wait, and mark the end of the batch in the stream of every GPU that worked on it."""
        self._waiting.flush()
        # Now: read after the next batch has been started, the checks would wait for that one's end.
        devices = {device for check in self.checks for device in check.fetch()}
        self._ends = [torch.cuda.current_stream(device).record_event() for device in devices]

    def add_to(self, tally: Tally) -> None:
        for end in self._ends:
            end.synchronize()
        for check in self.checks:
            check.verify()
        units = _bootstrap_units(self.rows, self.plan.unit)
        for each in self.sums:
            tally.add(each.first, each.sums, self.rows, units, each.n_sites)

    def _questions_in(self, block: DocumentBlock, device: torch.device) -> dict[str, Question]:
        """The questions of one block, made once for all sites: a question caches how it is best answered."""
        if (block, device) not in self._block_questions:
            at = (block.row_index, slice(block.start, block.stop))
            self._block_questions[block, device] = {
                name: Question(question.query[at].to(device), question.key[at].to(device), question.exclude_self)
                for name, question in self.questions.items()
            }
        return self._block_questions[block, device]

    def _fill_nulls(self, buffers: _SiteBuffers, shares: Float[Tensor, "row question position"]) -> None:
        """The mass under shuffled labels: the share of keys that match, times the mass on keys that may match."""
        itself = buffers.values[:, len(TRAITS) + list(self.questions).index("itself")]
        on_others = buffers.on_keys[:, None] - self.asked.exclude_self(itself.device) * itself[:, None]
        torch.mul(shares[:, :, None], on_others, out=buffers.nulls)


class _SiteBuffers:
    """One call's values, filled block by block. Positions are contiguous in memory, as observations produce them."""

    def __init__(self, call: Call, n_questions: int) -> None:
        batch, n_heads, length, _ = call.q.shape
        device = call.q.device
        self.values = torch.zeros(batch, len(TRAITS) + 2 * n_questions, n_heads, length, device=device)
        self.nulls = self.values[:, len(TRAITS) + n_questions :]
        self.strongest = torch.full((batch, n_heads, length), -1, dtype=torch.long, device=device).transpose(1, 2)
        self.on_keys = torch.ones(batch, n_heads, length, device=device)
        self._like, self._shape = call.v, (batch, n_heads, length, call.v.shape[-1])
        self._z: Tensor | None = None

    def fill(self, block: DocumentBlock, observed: Observation) -> None:
        rows, columns = block.row_index, slice(block.start, block.stop)
        traits = [observed.entropy, observed.distance.mean, observed.distance.std, observed.strongest.weight]
        found = torch.stack([*traits, *observed.mass.values()], dim=1)
        self.values[rows, : found.shape[1], :, columns] = found.float()
        self.strongest[rows, columns] = observed.strongest.key.transpose(1, 2) + block.start
        if observed.scores.sinks is not None:
            self.on_keys[rows, :, columns] = 1 - observed.sink.float()
        if observed.output.shape == self._shape:
            self._z = observed.output
        else:
            self.z[rows, :, columns] = observed.output

    @property
    def z(self) -> Float[Tensor, "batch head query d_value"]:
        """The attention output; zeros outside all blocks."""
        if self._z is None:
            self._z = self._like.new_zeros(self._shape)
        return self._z


def _bootstrap_units(rows: PackedRows, unit: str) -> list[int]:
    """A number per piece; pieces with equal numbers are drawn together: those of a document, or each on its own."""
    documents = [piece.document for piece in rows.pieces]
    if unit == "document":
        return documents
    offsets = np.array([piece.offset for piece in rows.pieces], dtype=np.uint64)
    return [int(number) for number in hash64(hash64(np.array(documents, dtype=np.uint64)) ^ offsets)]


def model_inputs(model: OpenModel, rows: PackedRows, first_position: int | None) -> dict[str, Tensor]:
    """The arguments of a forward pass. Only one position's logits are requested where the model can do that."""
    device = device_of(model.model)
    placed = rows.on(device)
    inputs = {"input_ids": placed.ids}
    if "decoder_input_ids" in model.takes:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    if first_position is not None:
        inputs["position_ids"] = placed.positions + first_position
    if KEEP in model.takes:
        inputs[KEEP] = torch.zeros(1, dtype=torch.long, device=device)
    return inputs
