"""Choose how to pack documents into rows for a model: the tokens its tokenizer adds, and whether documents share rows.

Sharing is tested, not assumed: a text packed behind another must give the logits that it gives alone, in a full row as
in a short one. Absolute positions, chunks of the row, recurrent layers or convolutions that carry information across
fail the test, and then every piece gets a row of its own. Padding is tested as well: where a convolution reads it, or
rotations depend on the length of the whole row, rows are cut to their pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, cycle, islice

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.inputs.dummy_inputs import tokens
from headscope.models.modes import device_of
from headscope.models.protocol import KEEP
from headscope.models.recording import OpenModel
from headscope.scan.corpus.packing import MIN_TOKENS, DocumentSplit, PackedRows, Piece, RowFormat, is_whole_call
from headscope.scan.measure import model_inputs

SAMPLES = ("The rain had stopped before they came", "and nobody asked the old man where he had been.")
FIRST_POSITIONS = (0, 1, 2)
"""Most families number positions from 0, some from the one after a padding index."""

MIN_DISTINCT = 6
"""Distinct tokens that the sample texts need."""

COMPARED = 64
"""At most so many tokens of a text are compared."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


def choose_row_format(model: OpenModel, context: int) -> RowFormat:
    """Find the row format that packs most densely without changing the logits, with a few forward passes."""
    before, after = _added_tokens(model)
    alone = RowFormat(context, before, after, share_rows=False)
    if alone.document_tokens < MIN_TOKENS:
        added = len(before) + len(after)
        raise InputError(
            f"context={context} leaves fewer than {MIN_TOKENS} tokens for text on top of the {added} tokens that the "
            f"tokenizer adds; give at least {added + MIN_TOKENS}"
        )
    restarts = FIRST_POSITIONS if "position_ids" in model.takes else ()
    shared = (replace(alone, share_rows=True, first_position=first) for first in (*restarts, None))
    formats = (*shared, alone)
    return next((each for each in formats if _keeps_logits(model, each)), replace(alone, pads_rows=False))


def _added_tokens(model: OpenModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer adds before and after a text."""
    if model.processor.tokenizer is None:
        return (), ()
    whole = [token.id for token in model.prepare(SAMPLES[0]).tokens]
    bare = model.processor.token_ids(SAMPLES[0])
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    return (), ()


def _keeps_logits(model: OpenModel, row_format: RowFormat) -> bool:
    """Whether a text has the logits that it has alone: behind another, in a full row, and before padding."""
    return all(_like_alone(model, row_format, *trial) for trial in _trials(model, row_format))


def _trials(model: OpenModel, row_format: RowFormat) -> Iterator[tuple[list[list[list[int]]], int]]:
    """Rows of texts, and their length. The last text is the one that is compared."""
    context, (one, two) = row_format.context, _sample_ids(model)
    half = context // 2
    if row_format.share_rows:
        short = [_framed(row_format, ids)[:half] for ids in (one, two)]
        yield [short], sum(map(len, short))
        first = half + 1 if context >= 8 else half  # no multiple of what a row may be cut into
        yield [[_framed(row_format, one, first), _framed(row_format, two, context - first)]], context
    short_one = _framed(row_format, two)[: max(context // 8, MIN_TOKENS)]
    yield [[_framed(row_format, one, context)], [short_one]], context


def _sample_ids(model: OpenModel) -> list[list[int]]:
    """Tokens of the sample texts; where the tokenizer knows few of their words, others, all different.

    Equal tokens have equal values, whatever attends to them: nothing could be told from their logits.
    """
    found = [] if model.processor.tokenizer is None else [model.processor.token_ids(text) for text in SAMPLES]
    if len({token for ids in found for token in ids}) >= MIN_DISTINCT:
        return found
    ids = tokens(getattr(model.model, "config", None), len(SAMPLES[0])) % (model.shape.vocabulary or 100)
    return [each.tolist() for each in ids]


def _framed(row_format: RowFormat, ids: list[int], length: int | None = None) -> list[int]:
    """A text with the tokens that the tokenizer adds; repeated up to a length."""
    text = ids if length is None else list(islice(cycle(ids), length))
    return [*row_format.tokens_before, *text, *row_format.tokens_after][:length]


def _like_alone(model: OpenModel, row_format: RowFormat, rows: list[list[list[int]]], length: int) -> bool:
    """Whether the last text of the last row has the same logits in these rows as alone."""
    pieces: list[Piece] = []
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    for row, texts in enumerate(rows):
        for text, stop in zip(texts, accumulate(map(len, texts)), strict=True):
            pieces.append(Piece(row, stop - len(text), stop, len(pieces), 0))
            ids[row, stop - len(text) : stop] = torch.tensor(text)
    last, only = rows[-1][-1], (Piece(0, 0, len(rows[-1][-1]), 0, 0),)
    # Some of its tokens, the first and the last among them: logits of all would take too much memory.
    places = torch.linspace(0, len(last) - 1, min(COMPARED, len(last))).round().long()
    together = _logits(model, PackedRows(ids, tuple(pieces)), row_format.first_position, places + pieces[-1].start)
    alone = _logits(model, PackedRows(torch.tensor([last]), only), None, places)
    tolerance = TOLERANCE.get(next(model.model.parameters()).dtype, 1e-3) * alone.abs().max().clamp(min=1e-6)
    return bool((together - alone).abs().max() <= tolerance)


def _logits(model: OpenModel, rows: PackedRows, first_position: int | None, places: Tensor) -> Tensor:
    """The logits at some places of the last row."""
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
    places = places.to(device_of(model.model))
    if KEEP in inputs:
        inputs[KEEP] = places
    with torch.no_grad():
        logits = model.run(inputs, attend).logits
    kept = logits if KEEP in inputs else logits[:, places.to(logits.device)]
    return kept[-1].float()
