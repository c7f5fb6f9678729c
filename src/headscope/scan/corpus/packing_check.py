"""What a model needs to be scanned: which tokens its tokenizer adds, and how documents may share a row.

Sharing is tried, not assumed: a text behind another one in a row must give the logits that it gives alone. Absolute
positions, recurrent layers or convolutions that leak would show, and then every document gets a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.document_split import Separation, covers
from headscope.scan.corpus.packing import Frame, PackedRows
from headscope.scan.measure import inputs_for, takes
from headscope.scan.tally.examples import Span

SAMPLES = ("The rain had stopped before they came", "and nobody asked the old man where he had been.")
FIRST_POSITIONS = (0, 1, 2)
"""Families count positions from 0, some from after a padding index."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@dataclass(frozen=True)
class Fitting:
    """How rows are made for this model."""

    frame: Frame
    first_position: int | None

    def words(self) -> dict[str, object]:
        """For the recipe."""
        starts = self.first_position is not None
        sharing = "positions begin again with each piece" if starts else "positions run on through a row"
        return {
            "context": self.frame.context,
            "tokens_before_each_piece": list(self.frame.before),
            "tokens_after_each_piece": list(self.frame.after),
            "rows": sharing if self.frame.share_rows else "one piece a row",
        }


def fit(model: OpenModel, context: int) -> Fitting:
    """Find out, with a few short passes."""
    before, after = added_tokens(model)
    frame = Frame(context, before, after)
    if frame.room < 2:
        raise InputError(
            f"context={context} leaves no room beside the {len(before) + len(after)} tokens the tokenizer adds"
        )
    restarts = "position_ids" in takes(model)
    for first in (*(FIRST_POSITIONS if restarts else ()), None):
        if _shares(model, frame, first):
            return Fitting(frame, first)
    return Fitting(Frame(context, before, after, share_rows=False), None)


def added_tokens(model: OpenModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the tokenizer puts before and after a text of its own accord."""
    whole = [token.id for token in model.prepare(SAMPLES[0]).tokens]
    bare = model.token_ids(SAMPLES[0])
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    return (), ()


def _shares(model: OpenModel, frame: Frame, first_position: int | None) -> bool:
    """Whether the second of two texts in a row comes out as it does alone."""
    texts = [[*frame.before, *model.token_ids(text), *frame.after] for text in SAMPLES]
    one, two = (text[: frame.context // 2] for text in texts)
    together = PackedRows(
        torch.tensor([one + two]), (Span(0, 0, len(one), 0, 0), Span(0, len(one), len(one) + len(two), 1, 0))
    )
    alone = PackedRows(torch.tensor([two]), (Span(0, 0, len(two), 0, 0),))
    expected = _logits(model, alone, None)[0]
    found = _logits(model, together, first_position)[0, len(one) :]
    scale = expected.abs().max().clamp(min=1e-6)
    return bool((found - expected).abs().max() <= TOLERANCE.get(next(model.model.parameters()).dtype, 1e-3) * scale)


def _logits(model: OpenModel, rows: PackedRows, first_position: int | None) -> Tensor:
    separation = Separation.of(rows)

    def attend(_: str, call: Call) -> Tensor:
        if call.q.shape[2] != rows.ids.shape[1] or call.k.shape[2] != rows.ids.shape[1]:
            return plain(call)
        z = call.v.new_zeros(*call.q.shape[:3], call.v.shape[-1])
        for block, part in separation.parts(call):
            if covers(block, call):
                return plain(part)
            z[list(block.rows), :, block.start : block.stop] = plain(part)
        return z

    inputs = dict(inputs_for(model, rows, first_position))
    inputs.pop("logits_to_keep", None)
    with torch.no_grad():
        return model.run(inputs, attend).logits.float()
