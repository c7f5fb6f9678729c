"""Sites of one batch that wait on a GPU, to be observed and summed together: few launches for all layers.

z is computed at once, each query over the keys of its piece. Statistics are computed from q and k when the pass is
over, or when so many layers wait that their values would take more than ``AT_ONCE`` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from headscope.attention.backends.fused.host import refuse
from headscope.attention.backends.fused.intervals import Intervals, intervals
from headscope.attention.backends.fused.layers import (
    LONGEST,
    MOST_QUESTIONS,
    attend_within,
    statistics_of,
)  # fmt: skip
from headscope.attention.backends.fused.segments import Bins, Segments, sum_segments
from headscope.attention.masks import Causal, Documents, Mask, Window, documents
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.heads.questions.standard_questions import VisibleKeys
from headscope.models.finite import PassCheck, finish
from headscope.scan.corpus.packing import PackedRows, without_waiting
from headscope.scan.labels import Asked
from headscope.scan.tally import (
    DISTANCE_BINS,
    ENTROPY_BINS,
    TRAITS,
    SiteSums,
    entropy_width,
)  # fmt: skip

AT_ONCE = 2**29


class _Group(NamedTuple):
    """Sites that wait with the same shapes and scores."""

    sites: list[str]
    q: list[Tensor]
    k: list[Tensor]
    scores: Scores
    visible: Intervals
    keys: VisibleKeys


@dataclass
class SummedSites:
    """The sums of ``n_sites`` consecutive sites, of which ``first`` is the first."""

    first: str
    n_sites: int
    sums: SiteSums


class WaitingSites:
    """The sites of one batch that wait, in the order of the tally. ``done`` takes their sums."""

    def __init__(
        self, rows: PackedRows, asked: Asked, sites: Mapping[str, bool], done: Callable[[SummedSites], None]
    ) -> None:
        self._rows, self._asked, self._causal, self._done = rows, asked, sites, done
        self._order = list(sites)
        self._group: _Group | None = None
        self._visible: dict[tuple[Mask, torch.device], Intervals] = {}
        self._pieces: dict[tuple[VisibleKeys, torch.device], Segments] = {}

    def takes(self, call: Call) -> bool:
        """Whether a call can wait: on a GPU, with scores that the kernels have, few questions, and short rows."""
        if len(self._asked.questions) > MOST_QUESTIONS:
            return False
        parts = call.scores.mask.parts
        plain = Scores(scale=call.scores.scale, softcap=call.scores.softcap)
        known = all(isinstance(part, Causal | Window | Documents) for part in parts) and call.q.shape[2] <= LONGEST
        given = replace(plain, bias=call.scores.bias, sinks=call.scores.sinks)
        return known and refuse(call.q, call.k, call.v, given.bind(call.q, call.k)) is None

    def attend(self, site: str, call: Call) -> Tensor:
        """Compute z within pieces, and keep q and k for the statistics."""
        kept = Mask(tuple(part for part in call.scores.mask.parts if not isinstance(part, Documents)))
        scores = replace(call.scores, mask=kept).bind(call.q, call.k)
        visible = self._intervals(kept, call.q)
        self._join(site, call, scores, visible)
        return attend_within(call.q, call.k, call.v, scores, visible)

    def flush(self) -> None:
        """Observe and sum up the sites that wait."""
        group, self._group = self._group, None
        if group is None:
            return
        sums, logsumexp = self._in_one_launch(group)
        check = PassCheck("the model")
        check.see_logsumexp(group.sites, logsumexp.view(len(group.sites), -1))
        finish(check)
        self._done(SummedSites(group.sites[0], len(group.sites), sums.to_host()))

    def _in_one_launch(self, group: _Group) -> tuple[SiteSums, Tensor]:
        asked = self._asked
        q, k = torch.cat(group.q), torch.cat(group.k)
        found = statistics_of(q, k, group.scores, asked.questions, group.visible)
        bins = Bins(entropy_width(asked.context), ENTROPY_BINS, DISTANCE_BINS)
        by_piece = sum_segments(found, self._segments(group.keys, q.device), bins)
        n_questions = len(asked.questions)
        sums = SiteSums(
            count=torch.cat((by_piece.count, by_piece.count[:, -n_questions:]), dim=1),
            sums=by_piece.sums,
            squares=by_piece.squares.sum(0),
            largest=by_piece.largest.amax(0),
            smallest=by_piece.smallest.amin(0),
            entropy=by_piece.entropy.sum(0),
            distance=by_piece.distance.sum(0),
            top_score=by_piece.top_score,
            top_column=by_piece.top_column,
            top_key=by_piece.top_key,
        )
        return sums, found.values[0]

    def _segments(self, keys: VisibleKeys, device: torch.device) -> Segments:
        """The pieces, and which of their queries count; made once for all groups on a device."""
        if (keys, device) not in self._pieces:
            asked = self._asked
            rows = torch.tensor([piece[:3] for piece in self._rows.pieces], dtype=torch.int32)
            valid = asked.valid(keys, device).transpose(1, 2)
            self._pieces[keys, device] = Segments(
                without_waiting(rows, device),
                valid[:, : len(TRAITS) + len(asked.questions)].contiguous(),
                asked.shares(keys, device).contiguous(),
                asked.exclude_self(device).flatten(),
                list(asked.questions).index("itself"),
            )
        return self._pieces[keys, device]

    def _intervals(self, mask: Mask, q: Tensor) -> Intervals:
        """Each row's keys: those of its piece that the mask allows. Computed once for all layers."""
        if (mask, q.device) not in self._visible:
            inside = mask & documents(self._rows.on(q.device).piece_ids)
            self._visible[mask, q.device] = intervals(inside, q.shape[2], q.shape[2], q.device)
        return self._visible[mask, q.device]

    def _join(self, site: str, call: Call, scores: Scores, visible: Intervals) -> None:
        """Join the group that waits, or begin another one if this site is not the next, not alike or one too many."""
        group, keys = self._group, VisibleKeys.of(self._causal[site], scores.mask, call.k.shape[2])
        batch, n_heads, length, _ = call.q.shape
        size = batch * n_heads * length * 4 * (len(TRAITS) + 3 + len(self._asked.questions))
        if group is not None:
            follows = self._order.index(site) == self._order.index(group.sites[-1]) + 1
            alike = (call.q.shape, call.k.shape, scores.scale, scores.softcap, keys) == (
                group.q[0].shape, group.k[0].shape, group.scores.scale, group.scores.softcap, group.keys,
            )  # fmt: skip
            if not (follows and alike and visible is group.visible) or (len(group.sites) + 1) * size > AT_ONCE:
                self.flush()
        if self._group is None:
            self._group = _Group([], [], [], scores, visible, keys)
        self._group.sites.append(site)
        self._group.q.append(call.q)
        self._group.k.append(call.k)
