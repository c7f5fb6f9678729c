"""What the kernels of a GPU compute for sites that wait, by their definitions on a CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headscope.attention.backends.fused.intervals import Intervals
from headscope.attention.backends.fused.layers import LayerStatistics
from headscope.attention.backends.fused.segments import Bins, Segments, SegmentSums
from headscope.attention.engine import observe
from headscope.attention.masks import Mask, dense
from headscope.attention.observation import Rows
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.scan import waiting_sites
from headscope.scan.corpus.packing import Piece
from headscope.scan.tally import TRAITS, SiteSums, SiteValues, reduce


def use_kernels_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sites wait on a CPU as they do on a GPU."""
    monkeypatch.setattr(waiting_sites, "refuse", lambda *_: None)
    for kernel in (attend_within, statistics_of, sum_segments):
        monkeypatch.setattr(waiting_sites, kernel.__name__, kernel)


def allowed(visible: Intervals, items: int) -> Mask:
    keys = torch.arange(visible.low.shape[1])
    inside = (visible.low[:, :, None] <= keys) & (keys < visible.high[:, :, None])
    return dense(inside.repeat(items // len(inside), 1, 1))


def attend_within(q: Tensor, k: Tensor, v: Tensor, scores: Scores, visible: Intervals) -> Tensor:
    return observe(q, k, v, scores=replace(scores, mask=allowed(visible, len(q)))).output


def observe_layers(q: Tensor, k: Tensor, scores: Scores, questions: Mapping[str, Question], visible: Intervals) -> Rows:
    times = len(q) // len(next(iter(questions.values())).query)
    each_layer = {
        name: Question(each.query.repeat(times, 1), each.key.repeat(times, 1), each.exclude_self)
        for name, each in questions.items()
    }
    return observe(q, k, k, scores=replace(scores, mask=allowed(visible, len(q))), questions=each_layer).rows


def statistics_of(
    q: Tensor, k: Tensor, scores: Scores, questions: Mapping[str, Question], visible: Intervals
) -> LayerStatistics:
    rows = observe_layers(q, k, scores, questions, visible)
    assert rows.entropy is not None
    assert rows.distance is not None
    assert rows.strongest is not None
    found = (rows.logsumexp, rows.entropy, *rows.distance, rows.strongest.weight, *rows.mass.values())
    return LayerStatistics(torch.stack(found), rows.strongest.key)


def sum_segments(found: LayerStatistics, segments: Segments, bins: Bins) -> SegmentSums:
    """Each segment by itself, as a site whose heads are those of all layers."""
    n_rows, n_questions = len(segments.valid), segments.shares.shape[1]
    values = torch.stack([_beside(each, n_rows) for each in found.values[1:]], dim=1)
    itself = values[:, len(TRAITS) + segments.itself]
    nulls = segments.shares[:, :, None] * (1 - segments.exclude_self[:, None, None] * itself[:, None])
    everything = torch.cat((values, nulls), dim=1).permute(0, 3, 1, 2)
    counts = torch.cat((segments.valid, segments.valid[:, len(TRAITS) :]), dim=1).transpose(1, 2)
    strongest = _beside(found.strongest, n_rows).transpose(1, 2)
    context = round(math.exp(bins.width * bins.entropy))
    parts: list[SiteSums] = []
    for row, start, stop in segments.rows.tolist():
        inside = torch.zeros_like(counts)
        inside[row, start:stop] = counts[row, start:stop]
        site = SiteValues(everything, inside, strongest, [Piece(row, start, stop, 0, 0)])
        parts.append(reduce(site, n_questions, context))
    return SegmentSums(
        torch.cat([part.count for part in parts])[:, : len(TRAITS) + n_questions],
        torch.cat([part.sums for part in parts]),
        *(torch.stack([getattr(part, name) for part in parts]) for name in ("squares", "largest", "smallest")),
        *(torch.stack([getattr(part, name) for part in parts]) for name in ("entropy", "distance")),
        *(torch.cat([getattr(part, name) for part in parts], dim=2) for name in ("top_score", "top_column", "top_key")),
    )


def _beside(values: Tensor, n_rows: int) -> Tensor:
    """From layers above each other to ``[row, layer and head, position]``."""
    return torch.cat(values.split(n_rows), dim=1)
