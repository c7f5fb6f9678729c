"""Choose how to pack documents into rows for a model: the tokens its tokenizer adds, and whether documents share rows.

Sharing is tested, not assumed: a text packed behind another must give the logits that it gives alone. Absolute
positions, recurrent layers or convolutions that carry information across fail the test, and then every piece gets a
row of its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.document_split import DocumentSplit, is_whole_call
from headscope.scan.corpus.packing import MIN_TOKENS, PackedRows, Piece, RowFormat
from headscope.scan.measure import forward_parameters, model_inputs

SAMPLES = ("The rain had stopped before they came", "and nobody asked the old man where he had been.")
FIRST_POSITIONS = (0, 1, 2)
"""Most families number positions from 0, some from the one after a padding index."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


def choose_row_format(model: OpenModel, context: int) -> RowFormat:
    """Find the row format that packs most densely without changing the logits, with a few short forward passes."""
    before, after = added_tokens(model)
    alone = RowFormat(context, before, after, share_rows=False)
    if alone.document_tokens < MIN_TOKENS:
        raise InputError(
            f"context={context} leaves fewer than {MIN_TOKENS} tokens for text beside the {len(before) + len(after)} "
            f"tokens that the tokenizer adds; give at least {len(before) + len(after) + MIN_TOKENS}"
        )
    restarts = FIRST_POSITIONS if "position_ids" in forward_parameters(model) else ()
    shared = (replace(alone, share_rows=True, first_position=first) for first in (*restarts, None))
    return next((row_format for row_format in shared if _keeps_logits(model, row_format)), alone)


def added_tokens(model: OpenModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer adds before and after a text."""
    whole = [token.id for token in model.prepare(SAMPLES[0]).tokens]
    bare = model.processor.token_ids(SAMPLES[0])
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    return (), ()


def _keeps_logits(model: OpenModel, row_format: RowFormat) -> bool:
    """Whether the second of two texts in a row has the logits that it has alone."""
    texts = [
        [*row_format.tokens_before, *model.processor.token_ids(text), *row_format.tokens_after] for text in SAMPLES
    ]
    one, two = (text[: row_format.context // 2] for text in texts)
    pieces = Piece(0, 0, len(one), 0, 0), Piece(0, len(one), len(one) + len(two), 1, 0)
    together = _logits(model, PackedRows(torch.tensor([one + two]), pieces), row_format.first_position)
    alone = _logits(model, PackedRows(torch.tensor([two]), (Piece(0, 0, len(two), 0, 0),)), None)
    tolerance = TOLERANCE.get(next(model.model.parameters()).dtype, 1e-3) * alone.abs().max().clamp(min=1e-6)
    return bool((together[0, len(one) :] - alone[0]).abs().max() <= tolerance)


def _logits(model: OpenModel, rows: PackedRows, first_position: int | None) -> Tensor:
    split = DocumentSplit.of(rows)

    def attend(_: str, call: Call) -> Tensor:
        if call.q.shape[2] != rows.ids.shape[1] or call.k.shape[2] != rows.ids.shape[1]:
            return plain(call)
        z = call.v.new_zeros(*call.q.shape[:3], call.v.shape[-1])
        for block, part in split.calls(call):
            if is_whole_call(block, call):
                return plain(part)
            z[list(block.rows), :, block.start : block.stop] = plain(part)
        return z

    inputs = model_inputs(model, rows, first_position)
    inputs.pop("logits_to_keep", None)
    with torch.no_grad():
        return model.run(inputs, attend).logits.float()
