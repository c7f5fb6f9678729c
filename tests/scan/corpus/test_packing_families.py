"""Packing changes no statistic, in families with different positions, masks and scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.scan.tiny import Bytes, family, texts
from torch import Tensor

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


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # by DeBERTa's module
@pytest.mark.parametrize(
    ("name", "pads_rows"),
    [
        ("llama4, in chunks of 24", True),
        ("phi3, rotations changed after 20", False),
        ("deberta, with a convolution", False),
    ],
)
def test_documents_share_no_row_and_no_padding_where_that_would_change_their_patterns(
    name: str, pads_rows: bool
) -> None:
    own, documents = family(name), [text[: 3 + 5 * at] for at, text in enumerate(texts(12, seed=4))]
    own.set_attn_implementation("eager")
    model = open_model(family(name), Bytes())
    assert choose_row_format(model, 64) == RowFormat(64, share_rows=False, pads_rows=pads_rows)
    census = run.scan(model, documents, options=OPTIONS)
    for layer, weights in enumerate(zip(*(_patterns(own, text) for text in documents), strict=True)):
        entropies = torch.cat([-(each * each.clamp(min=1e-30).log()).sum(-1)[:, 1:] for each in weights], dim=1)
        rows = [row for row in census.rows if row.question == "entropy"][4 * layer : 4 * layer + 4]
        assert [row.count for row in rows] == [entropies.shape[1]] * 4
        torch.testing.assert_close(torch.tensor([row.mean for row in rows]), entropies.mean(1), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(torch.tensor([row.maximum for row in rows]), entropies.amax(1), atol=1e-3, rtol=1e-3)


def test_layers_with_a_window_count_the_rows_that_see_an_answer_there() -> None:
    """Layer 0 of this Gemma 2 sees six keys, layer 1 all; against pairs counted in the model's own patterns."""
    documents = [text[:40] for text in texts(4, seed=4)]
    own = family("gemma2")
    own.set_attn_implementation("eager")
    census = run.scan(open_model(family("gemma2"), Bytes()), documents, options=OPTIONS)
    for layer, weights in enumerate(zip(*(_patterns(own, text) for text in documents), strict=True)):
        for name in ("previous", "first", "duplicate", "induction"):
            masses, nulls = [], []
            for text, pattern in zip(documents, weights, strict=True):
                for row in range(1, len(text)):
                    seen = range(max(0, row - 5) if layer == 0 else 0, row + 1)
                    keys = [key for key in seen if _matches(name, text, row, key)]
                    excluded = name in ("duplicate", "induction")
                    if keys:
                        masses.append(pattern[:, row, keys].sum(-1))
                        share = len(keys) / (len(seen) - excluded)
                        nulls.append(share * (1 - excluded * pattern[:, row, row]))
            rows = [row for row in census.rows if row.question == name and row.head.site == str(layer)]
            assert [row.count for row in rows] == [len(masses)] * 4, (layer, name)
            for found, expected in (("mean", masses), ("null_mean", nulls)):
                given = torch.tensor([getattr(row, found) for row in rows])
                torch.testing.assert_close(given, torch.stack(expected).mean(0), atol=1e-5, rtol=1e-4)


def _matches(name: str, text: str, row: int, key: int) -> bool:
    """Whether a key is what a standard question asks a row for."""
    return {
        "previous": key == row - 1,
        "first": key == 0,
        "duplicate": key != row and text[key] == text[row],
        "induction": key not in (0, row) and text[key - 1] == text[row],
    }[name]


@torch.no_grad()
def _patterns(model: Any, text: str) -> list[Tensor]:
    """The patterns that the model itself gives out for a text alone."""
    made = model(torch.tensor([list(text.encode())]), output_attentions=True)
    return [layer[0] for layer in made.attentions]


def assert_same(packed: Census, alone: Census, n_heads: int) -> None:
    assert len(packed.rows) == len(alone.rows) == n_heads * 9
    for one, two in zip(packed.rows, alone.rows, strict=True):
        assert (one.head, one.question, one.count) == (two.head, two.question, two.count)
        assert one.mean == pytest.approx(two.mean, abs=2e-5, rel=2e-5)
        assert one.maximum == pytest.approx(two.maximum, abs=2e-4, rel=2e-4)
        assert one.null_mean == (None if two.null_mean is None else pytest.approx(two.null_mean, abs=2e-5))
