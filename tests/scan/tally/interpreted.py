"""A scan whose sites wait to be observed together, by the kernels in Triton's interpreter, beside one whose do not.

Collected by ``test_waiting_sites.py`` in a process of its own, since Triton decides at import whether to interpret.
"""

from __future__ import annotations

import pytest
import torch
from tests.runs.interpreter import allow_one_element_bounds
from tests.scan.tiny import Bytes, family, open_tiny

from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.models.loading import open_model
from headscope.models.recording import OpenModel
from headscope.scan import waiting_sites
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.measure import Measurer, Plan
from headscope.scan.options import ScanOptions
from headscope.scan.tally import Tally

allow_one_element_bounds()

ROWS = PackedRows(
    torch.randint(65, 70, (3, 24), generator=torch.Generator().manual_seed(0)),
    (Piece(0, 0, 9, 0, 0), Piece(0, 9, 20, 1, 0), Piece(1, 0, 24, 2, 0), Piece(2, 0, 2, 3, 0), Piece(2, 2, 23, 4, 0)),
)


RULES = (token_class("class A", "A"),)


def measured(model: OpenModel, rules: tuple[LabelRule, ...]) -> Tally:
    plan = Plan.make(model, ScanOptions(replicates=5, batch=3, rules=rules), RowFormat(24), 1, "document")
    return Measurer(model, plan).measure(ROWS)


@pytest.mark.parametrize("at_once", [waiting_sites.AT_ONCE, 1])
def test_sites_together_are_summed_as_sites_one_by_one(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    assert_summed_alike(open_tiny(), monkeypatch, at_once, ())


def test_sites_with_a_window_are_summed_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that sees six keys, and one that sees all."""
    model = open_model(family("gemma2"), Bytes())
    assert_summed_alike(model, monkeypatch, waiting_sites.AT_ONCE, RULES)


def assert_summed_alike(
    model: OpenModel, monkeypatch: pytest.MonkeyPatch, at_once: int, rules: tuple[LabelRule, ...]
) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TRITON_INTERPRET", "0")  # no kernel: every site by itself, on the CPU
        alone = measured(model, rules)
    monkeypatch.setattr(waiting_sites, "AT_ONCE", at_once)
    together = measured(model, rules)
    assert torch.equal(together.count, alone.count)
    for name in ("squares", "largest", "smallest", "drawn_count"):
        torch.testing.assert_close(getattr(together, name), getattr(alone, name), atol=1e-3, rtol=1e-4)
    # A standard deviation is a root, inexact near zero: its squares are compared, not itself.
    others = [number for number, name in enumerate(alone.layout.quantities) if name != "spread"]
    torch.testing.assert_close(together.sums[others], alone.sums[others], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(together.drawn_sums[:, others], alone.drawn_sums[:, others], atol=1e-4, rtol=1e-4)
    for name in ("score", "document", "position", "key", "tokens"):
        torch.testing.assert_close(
            getattr(together.examples, name), getattr(alone.examples, name), atol=1e-5, rtol=1e-4
        )  # fmt: skip
    for ours, theirs in ((together.entropy, alone.entropy), (together.distance, alone.distance)):
        assert torch.equal(ours.sum(1), theirs.sum(1))
        assert (ours - theirs).abs().sum() <= 8, "a value at a bin's edge may fall on either side"
