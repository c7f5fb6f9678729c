"""The fused backend without a GPU: its kernels in Triton's interpreter, and every reason why it cannot run."""

from __future__ import annotations

import pytest
import torch
from tests.runs.interpreter import run_interpreted

from headscope.attention.backends.fused import host
from headscope.attention.backends.fused.intervals import intervals, refuse_mask
from headscope.attention.masks import Mask, causal, dense, documents, full, padding, window
from headscope.attention.scores import Alibi, Scores

MASKS = (
    full(),
    causal(),
    causal() & window(3),
    window(4),
    padding([7, 0, 3]),
    causal() & padding([7, 2, 5], side="left"),
    causal() & documents([[4, 4, 1, 1, 1, 9, 9]]),
)


@pytest.mark.slow
def test_the_kernels_equal_the_definition_in_the_interpreter() -> None:
    run_interpreted("tests/attention/backends/interpreted.py")


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("n_query", [7, 4])
def test_intervals_are_the_mask(mask: Mask, n_query: int) -> None:
    bound = mask.bind(3, 1, n_query, 7)
    found = intervals(bound, n_query, 7, torch.device("cpu"))
    keys = torch.arange(7)
    inside = (keys >= found.low[..., None]) & (keys < found.high[..., None])
    assert torch.equal(inside.expand(3, -1, -1), bound.dense(n_query, 7)[:, 0].expand(3, -1, -1))


def test_masks_with_gaps_are_refused() -> None:
    assert refuse_mask(causal()) is None
    assert refuse_mask(dense(torch.ones(2, 2, dtype=torch.bool))) == (
        "fused needs one interval of keys per row, and dense(<1×1×2×2>) may have gaps"
    )
    assert "these ids are mixed" in str(refuse_mask(documents([[0, 1, 0]])))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "fused needs CUDA, got cpu"),
        ({"dtype": torch.float64}, "fused takes bfloat16, float16 and float32, got torch.float64"),
        ({"d_head": 300}, "fused takes d_head up to 256, got 300"),
        ({"d_value": 8}, "fused needs values as wide as keys, got 8 and 16"),
        ({"n_key": 0}, "fused needs at least one query and key, got 4 and 0"),
        ({"scores": Scores(sinks=torch.zeros(2))}, "fused has no learned sinks"),
        ({"scores": Scores(bias=Alibi(torch.ones(2)))}, "fused has no bias, got Alibi"),
        ({"scores": Scores(scale=-1.0)}, "fused needs a scale above zero, got -1.0"),
    ],
)
def test_every_refusal_has_its_reason(change: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if change:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    sizes = {"d_head": 16, "d_value": None, "n_key": 4, "dtype": torch.float32, "scores": Scores()} | change
    q = torch.zeros(1, 2, 4, sizes["d_head"], dtype=sizes["dtype"])
    k = torch.zeros(1, 2, sizes["n_key"], sizes["d_head"], dtype=sizes["dtype"])
    v = torch.zeros(1, 2, sizes["n_key"], sizes["d_value"] or sizes["d_head"], dtype=sizes["dtype"])
    assert host.refuse(q, k, v, sizes["scores"].bind(q, k)) == reason
