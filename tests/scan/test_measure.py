"""What workers do: inputs as the model takes them, units of the bootstrap, and a tally that batches do not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.models.huggingface.model import open_model
from headscope.models.native import NativeModel
from headscope.scan.corpus.packing import Frame, PackedRows, pack
from headscope.scan.labels import null_name, question_names
from headscope.scan.measure import Measurer, Plan, inputs_for, takes, threads, units
from headscope.scan.tally.tally import Layout
from tests.scan.test_families import family
from tests.scan.tiny import Bytes, TinyModel, open_tiny, texts

MODEL = open_tiny(context=48)


def packed(count: int = 6, context: int = 48) -> PackedRows:
    documents = [(number, MODEL.token_ids(text)) for number, text in enumerate(texts(count, seed=3))]
    (rows,) = pack(documents, Frame(context), 999)
    return rows


def plan(**changed: Any) -> Plan:
    names = question_names(())
    layout = Layout(
        sites=tuple((site.name, site.n_heads) for site in MODEL.shape.sites.values()),
        questions=names,
        nulls=tuple(null_name(name) for name in names),
        context=48,
        replicates=4,
        examples=2,
        seed=0,
    )
    words: dict[str, Any] = {
        "frame": Frame(48), "layout": layout, "rules": (), "batch": 2, "threads": 1, "unit": "document",
        "first_position": None,
    }  # fmt: skip
    return Plan(**(words | changed))


@pytest.mark.parametrize("batch", [1, 99])
def test_how_many_rows_go_at_once_changes_no_sum(batch: int) -> None:
    rows = packed()
    one, two = (Measurer(MODEL, plan(batch=size)).measure(rows) for size in (2, batch))
    torch.testing.assert_close(one.means(), two.means(), equal_nan=True, atol=1e-6, rtol=1e-6)
    assert torch.equal(one.head_counts(), two.head_counts())
    torch.testing.assert_close(one.largest, two.largest, atol=1e-6, rtol=1e-6)
    for question in range(len(question_names(()))):
        first, second = one.best.at(question, 0), two.best.at(question, 0)
        assert [each[1:4] for each in first] == [each[1:4] for each in second]


def test_every_token_is_told_once() -> None:
    told: list[int] = []
    rows = packed()
    Measurer(MODEL, plan(batch=3)).measure(rows, told.append)
    assert len(told) == -(-len(rows.ids) // 3)
    assert sum(told) == rows.n_tokens


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
    torch.testing.assert_close(joined.drawn_means(), whole.drawn_means(), equal_nan=True)
    assert torch.equal(joined.entropy, whole.entropy)


def test_measuring_does_not_change_what_the_model_says() -> None:
    rows = packed()
    measurer = Measurer(MODEL, plan())
    said: list[Tensor] = []
    hook = MODEL.model.register_forward_hook(lambda module, given, out: said.append(out.detach()))
    measurer.measure(PackedRows(rows.ids[:2], tuple(piece for piece in rows.pieces if piece.row < 2)))
    hook.remove()
    for piece in rows.pieces:
        if piece.row < 2:
            with torch.no_grad():
                alone = MODEL.model(rows.ids[piece.row : piece.row + 1, piece.start : piece.stop])[0]
            torch.testing.assert_close(said[0][piece.row, piece.start : piece.stop], alone, atol=5e-3, rtol=5e-3)


def test_a_site_that_is_not_in_the_layout_is_left_alone() -> None:
    full = plan()
    smaller = Layout(**{**vars(full.layout), "sites": full.layout.sites[:1]})
    found = Measurer(MODEL, plan(layout=smaller)).measure(packed())
    whole = Measurer(MODEL, full).measure(packed())
    torch.testing.assert_close(found.means(), whole.means()[:, :2], equal_nan=True)


def test_units_are_documents_or_pieces_that_no_two_documents_share() -> None:
    (rows,) = pack([(number, list(range(40))) for number in range(30)], Frame(16), 999)
    assert units(rows, "document") == [piece.document for piece in rows.pieces]
    drawn = units(rows, "piece")
    assert len(set(drawn)) == len(rows.pieces) == 90
    assert units(PackedRows(rows.ids, rows.pieces[::-1]), "piece") == drawn[::-1], "a piece's number is its own"


def test_threads_are_put_back_even_after_an_error() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(ZeroDivisionError), threads(before + 2):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_a_plain_model_gets_its_tokens_and_nothing_else() -> None:
    rows = packed()
    given = inputs_for(MODEL, rows, None)
    assert set(given) == {"input_ids"}
    assert torch.equal(given["input_ids"], rows.ids)


def test_positions_begin_where_the_family_counts_from() -> None:
    rows = packed()
    model = open_model(family("roberta"), Bytes())
    assert "position_ids" in takes(model)
    places = inputs_for(model, rows, 2)["position_ids"]
    for piece in rows.pieces:
        assert places[piece.row, piece.start : piece.stop].tolist() == list(range(2, 2 + piece.stop - piece.start))
    assert "position_ids" not in inputs_for(model, rows, None)


def test_a_decoder_reads_what_its_encoder_reads_and_one_place_of_logits_is_enough() -> None:
    rows = packed()
    both = inputs_for(open_model(family("t5"), Bytes()), rows, None)
    assert torch.equal(both["decoder_input_ids"], rows.ids)
    llama = inputs_for(open_model(family("llama"), Bytes()), rows, 0)
    assert llama["logits_to_keep"].tolist() == [0]


def test_causality_is_the_sites_own() -> None:
    measurer = Measurer(open_model(family("t5"), Bytes()), plan())
    sites = measurer.model.shape.sites
    assert {name: measurer.is_causal(name) for name in sites} == {
        name: name.startswith("decoder") and not name.endswith("cross") for name in sites
    }


def test_calls_of_another_length_are_attended_to_as_they_are() -> None:
    """A model that also looks at half of the text: that call has no place in the tally."""

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
