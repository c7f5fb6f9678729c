"""A scan whose sites are observed together after each pass, without a GPU: in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.runs.interpreter import run_interpreted
from tests.scan.tiny import open_tiny

from headscope.attention.masks import Mask, causal, dense, documents, full, padding, window
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.models.finite import deferred_checks
from headscope.scan import waiting_sites
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.labels import Asked, label_batch
from headscope.scan.tally.reduction import TRAITS
from headscope.scan.waiting_sites import WaitingSites, _heads_beside

SITES = {"0": True, "1": True, "2": True, "3": False}
IDS = torch.zeros(1, 4, dtype=torch.long)
ROWS = PackedRows(IDS, (Piece(0, 0, 4, 0, 0),))
ASKED = Asked(label_batch(ROWS, RowFormat(4), (), open_tiny()), 4)
N_QUESTIONS = len(STANDARD)
ONE_SITE = 1 * 3 * 4 * 4 * (len(TRAITS) + 3 + N_QUESTIONS)
"""Bytes of the values of a site with three heads over four positions."""


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


@pytest.mark.parametrize(
    ("joined", "groups"),
    [
        ([("0", {}), ("1", {}), ("2", {})], ["012"]),
        ([("0", {}), ("2", {})], ["0", "2"]),
        ([("1", {}), ("0", {})], ["1", "0"]),
        ([("0", {}), ("1", {"heads": 6}), ("2", {"heads": 6})], ["0", "12"]),
        ([("0", {}), ("1", {"kv": 3})], ["0", "1"]),
        ([("0", {}), ("1", {"scale": 0.25})], ["0", "1"]),
        ([("0", {}), ("1", {"softcap": 30.0})], ["0", "1"]),
        ([("0", {}), ("1", {"mask": causal() & window(2)})], ["0", "1"]),
        ([("2", {}), ("3", {})], ["2", "3"]),
    ],
)
def test_sites_that_follow_each_other_and_are_alike_wait_together(monkeypatch, joined: Any, groups: list[str]) -> None:
    flushed: list[list[str]] = []
    made = waiting(flushed, monkeypatch)
    for site, how in joined:
        given = call(**how)
        made._join(site, given, given.scores, made._intervals(given.scores.mask, given.q))
    assert made._group is not None
    assert ["".join(sites) for sites in (*flushed, made._group.sites)] == groups
    assert len(made._group.q) == len(made._group.k) == len(groups[-1])
    assert made._group.keys.causal is SITES[groups[-1][0]]


@pytest.mark.parametrize(("limit", "groups"), [(3 * ONE_SITE, ["012"]), (3 * ONE_SITE - 1, ["01", "2"]), (1, [*"012"])])
def test_so_many_sites_wait_that_their_values_stay_within_the_limit(monkeypatch, limit: int, groups: list[str]) -> None:
    monkeypatch.setattr(waiting_sites, "AT_ONCE", limit)
    flushed: list[list[str]] = []
    made = waiting(flushed, monkeypatch)
    for site in "012":
        given = call()
        made._join(site, given, given.scores, made._intervals(given.scores.mask, given.q))
    assert made._group is not None
    assert ["".join(sites) for sites in (*flushed, made._group.sites)] == groups


@pytest.mark.parametrize(
    ("mask", "length", "known"),
    [
        (causal(), 4, True),
        (full(), 4, True),
        (causal() & window(2), waiting_sites.LONGEST, True),
        (causal(), waiting_sites.LONGEST + 1, False),
        (causal() & documents(IDS), 4, True),
        (padding([3]), 4, False),
        (dense(torch.ones(4, 4, dtype=torch.bool)), 4, False),
    ],
)
def test_calls_with_masks_that_are_known_may_wait(monkeypatch, mask: Mask, length: int, known: bool) -> None:
    made = waiting([], monkeypatch)
    given = call(mask=mask, length=length)
    assert made.takes(given) is False, "not on this device"
    monkeypatch.setattr(waiting_sites, "refuse", lambda *_: None)
    assert made.takes(given) is known


def test_heads_of_sites_stand_side_by_side() -> None:
    values = torch.arange(2 * 3 * 4 * 5).view(2 * 3, 4, 5)  # two sites of three rows
    beside = _heads_beside(values, 2)
    assert beside.shape == (3, 8, 5)
    for site in range(2):
        assert torch.equal(beside[:, 4 * site : 4 * site + 4], values[3 * site : 3 * site + 3])


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
