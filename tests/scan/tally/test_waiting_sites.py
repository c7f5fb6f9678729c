"""A scan whose sites are observed together after each pass, without a GPU: in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.runs.interpreter import run_interpreted
from tests.scan.tiny import open_tiny

from headscope.attention.masks import causal
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.models.finite import deferred_checks
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.labels import Asked, label_batch
from headscope.scan.waiting_sites import WaitingSites

SITES = {"0": True, "1": True, "2": True, "3": False}
IDS = torch.zeros(1, 4, dtype=torch.long)
ROWS = PackedRows(IDS, (Piece(0, 0, 4, 0, 0),))
ASKED = Asked(label_batch(ROWS, RowFormat(4), (), open_tiny()), 4)
N_QUESTIONS = len(STANDARD)


@pytest.mark.slow
def test_sites_together_give_the_sums_of_sites_one_by_one_in_the_interpreter() -> None:
    run_interpreted("tests/scan/tally/interpreted.py")


def waiting(flushed: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> WaitingSites:
    made = WaitingSites(ROWS, ASKED, SITES, lambda _: None)

    def flush() -> None:
        assert made._group is not None
        flushed.append(list(made._group.sites))
        made._group = None

    monkeypatch.setattr(made, "flush", flush)
    return made


def call(heads: int = 3, kv: int = 1, length: int = 4, **how: Any) -> Call:
    q, k = torch.zeros(1, heads, length, 8), torch.zeros(1, kv, length, 8)
    return Call(torch.nn.Identity(), q, k, k, Scores(**{"scale": 0.5, "mask": causal(), **how}))


def test_sites_on_different_devices_are_summed_apart_each_with_labels_of_its_own_device(monkeypatch) -> None:
    """The meta device stands for a second GPU."""
    jit = pytest.importorskip("triton.runtime.jit", reason="the fused kernels need Triton: pip install triton")
    launched: list[tuple[str, set[str]]] = []

    def run(self: Any, *given: Any, **_: Any) -> None:
        launched.append((self.__name__, {each.device.type for each in given if isinstance(each, torch.Tensor)}))

    monkeypatch.setattr(jit.JITFunction, "run", run)
    done: list[Any] = []
    made = WaitingSites(ROWS, ASKED, SITES, done.append)
    with deferred_checks():
        for site, device in (("0", "cpu"), ("1", "meta")):
            given = call()
            given = replace(given, **{side: getattr(given, side).half().to(device) for side in "qkv"})
            made.attend(site, given)
        assert [(each.first, each.n_sites) for each in done] == [("0", 1)]
        with pytest.raises(NotImplementedError, match="meta"):  # its sums cannot be copied to the host
            made.flush()
    kernels = [("attend", "cpu"), ("layers", "cpu"), ("segments", "cpu")]
    kernels += [("attend", "meta"), ("layers", "meta"), ("segments", "meta")]
    assert sorted(launched) == sorted((kernel, {device}) for kernel, device in kernels)
