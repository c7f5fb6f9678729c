"""Packing changes no statistic, in families with different positions, masks and scores."""

from __future__ import annotations

import pytest
from tests.scan.tiny import Bytes, family, texts

from headscope.models.loading import open_model
from headscope.scan import run
from headscope.scan.census import Census
from headscope.scan.corpus.packing import RowFormat
from headscope.scan.corpus.packing_check import choose_row_format
from headscope.scan.options import ScanOptions

OPTIONS = ScanOptions(context=64, batch=4, shard_tokens=512, threads=1, replicates=5, examples=1)


@pytest.mark.parametrize(
    ("name", "first_position", "n_heads"),
    [("gpt2", 0, 8), ("llama", 0, 8), ("gemma2", 0, 8), ("roberta", 2, 8), ("t5", None, 24)],
)
def test_packed_documents_have_the_statistics_of_documents_alone(
    name: str, first_position: int | None, n_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(family(name), Bytes())
    assert choose_row_format(model, 64) == RowFormat(64, first_position=first_position)
    documents = [text[:40] for text in texts(12, seed=4)]
    packed = run.scan(model, documents, options=OPTIONS)
    assert packed.recipe.data["result"]["rows"] < packed.recipe.data["result"]["pieces"]
    monkeypatch.setattr(run, "choose_row_format", lambda *_: RowFormat(64, share_rows=False))
    alone = run.scan(model, documents, options=OPTIONS)
    assert alone.recipe.data["result"]["rows"] == alone.recipe.data["result"]["pieces"]
    assert_same(packed, alone, n_heads)


def assert_same(packed: Census, alone: Census, n_heads: int) -> None:
    assert len(packed.rows) == len(alone.rows) == n_heads * 9
    for one, two in zip(packed.rows, alone.rows, strict=True):
        assert (one.head, one.question, one.count) == (two.head, two.question, two.count)
        assert one.mean == pytest.approx(two.mean, abs=2e-5, rel=2e-5)
        assert one.maximum == pytest.approx(two.maximum, abs=2e-4, rel=2e-4)
        assert one.null_mean == (None if two.null_mean is None else pytest.approx(two.null_mean, abs=2e-5))
