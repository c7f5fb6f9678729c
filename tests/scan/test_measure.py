"""Measuring rows: inputs as the model takes them, units of the bootstrap, and a tally that batches do not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.models.loading import open_model
from headscope.models.native import NativeModel
from headscope.scan.corpus.packing import PackedRows, RowFormat, pack
from headscope.scan.labels import question_names
from headscope.scan.measure import (
    Measurer,
    Plan,
    model_inputs,
)
from headscope.scan.options import ScanOptions
from tests.scan.tally.examples import examples_of
from tests.scan.tally.kernels_here import use_kernels_here
from tests.scan.tiny import Bytes, TinyModel, family, open_tiny, texts

MODEL = open_tiny(context=48)


def packed(count: int = 6, context: int = 48) -> PackedRows:
    documents = [(number, MODEL.processor.token_ids(text)) for number, text in enumerate(texts(count, seed=3))]
    (rows,) = pack(documents, RowFormat(context), 999)
    return rows


def plan(**changed: Any) -> Plan:
    options = ScanOptions(batch=2, replicates=4, examples=2)
    return replace(Plan.make(MODEL, options, RowFormat(48), 1, "document"), **changed)


@pytest.mark.parametrize("batch", [1, 99])
def test_the_batch_size_changes_no_sum(batch: int) -> None:
    rows = packed()
    one, two = (Measurer(MODEL, plan(batch=size)).measure(rows) for size in (2, batch))
    torch.testing.assert_close(one.means(), two.means(), equal_nan=True, atol=1e-6, rtol=1e-6)
    assert torch.equal(one.head_counts(), two.head_counts())
    torch.testing.assert_close(one.largest, two.largest, atol=1e-6, rtol=1e-6)
    for question in range(len(question_names(()))):
        first, second = examples_of(one.examples, question, 0), examples_of(two.examples, question, 0)
        assert [each[1:4] for each in first] == [each[1:4] for each in second]


def test_progress_counts_every_token_once() -> None:
    advanced: list[int] = []
    rows = packed()
    Measurer(MODEL, plan(batch=3)).measure(rows, advanced.append)
    assert len(advanced) == -(-len(rows.ids) // 3)
    assert sum(advanced) == rows.n_tokens


def test_two_halves_merged_are_the_whole() -> None:
    rows = packed()
    half = len(rows.ids) // 2 // 2 * 2
    parts = list(rows.batches(half))
    measurer = Measurer(MODEL, plan())
    joined = measurer.measure(parts[0])
    for part in parts[1:]:
        joined = joined.merge(measurer.measure(part))
    whole = measurer.measure(rows)
    torch.testing.assert_close(joined.means(), whole.means(), equal_nan=True)
    torch.testing.assert_close(joined.replicate_means(), whole.replicate_means(), equal_nan=True)
    assert torch.equal(joined.entropy, whole.entropy)


def test_measuring_does_not_change_the_logits() -> None:
    rows = packed()
    measurer = Measurer(MODEL, plan())
    logits: list[Tensor] = []
    hook = MODEL.model.register_forward_hook(lambda module, given, out: logits.append(out.detach()))
    measurer.measure(PackedRows(rows.ids[:2], tuple(piece for piece in rows.pieces if piece.row < 2)))
    hook.remove()
    for piece in rows.pieces:
        if piece.row < 2:
            with torch.no_grad():
                alone = MODEL.model(rows.ids[piece.row : piece.row + 1, piece.start : piece.stop])[0]
            torch.testing.assert_close(logits[0][piece.row, piece.start : piece.stop], alone, atol=5e-3, rtol=5e-3)


def test_positions_start_at_the_first_position_of_the_family() -> None:
    rows = packed()
    model = open_model(family("roberta"), Bytes())
    assert "position_ids" in model.takes
    positions = model_inputs(model, rows, 2)["position_ids"]
    for piece in rows.pieces:
        assert positions[piece.row, piece.start : piece.stop].tolist() == list(range(2, 2 + piece.stop - piece.start))
    assert "position_ids" not in model_inputs(model, rows, None)


def test_a_decoder_gets_the_encoder_s_tokens_and_only_one_position_s_logits_are_requested() -> None:
    rows = packed()
    both = model_inputs(open_model(family("t5"), Bytes()), rows, None)
    assert torch.equal(both["decoder_input_ids"], rows.ids)
    llama = model_inputs(open_model(family("llama"), Bytes()), rows, 0)
    assert llama["logits_to_keep"].tolist() == [0]


def test_calls_of_another_length_are_computed_but_not_measured() -> None:
    """A model that also runs on half of the text: that call is not in the tally."""

    class Twice(TinyModel):
        def forward(self, ids: Tensor) -> Tensor:
            self.halves = super().forward(ids[:, : ids.shape[1] // 2])
            return super().forward(ids)

    twice = Twice(context=48)
    opened = NativeModel(twice, Bytes(), name="tiny")
    rows = packed()
    found = Measurer(opened, plan()).measure(rows)
    expected = Measurer(MODEL, plan()).measure(rows)
    assert twice.halves.shape[1] == 24
    torch.testing.assert_close(found.means(), expected.means(), equal_nan=True)
    assert torch.equal(found.head_counts(), expected.head_counts())


def test_scores_whose_last_digit_decides_are_refused_by_their_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of such a row would be wrong; a census is not made of it."""
    model = open_tiny(context=48)
    model.model.layers[1].q_proj.weight.data.mul_(1e6)
    for waits in (False, True):
        if waits:
            use_kernels_here(monkeypatch)
        with pytest.raises(InputError, match=r"site 1: attention scores reach .* exact to 0.001 up to 8,192"):
            Measurer(model, plan()).measure(packed(3))
