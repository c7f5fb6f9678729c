"""What the fused backend prepares on the host: intervals of keys per row, and ranges of matching keys."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headscope.attention.backends.fused.host import KernelInputs, _rows_contiguous
from headscope.attention.backends.fused.intervals import intervals, refuse_mask
from headscope.attention.masks import Mask, causal, documents, full, padding, window
from headscope.attention.questions import Groups, Question, plan
from headscope.attention.scores import Scores

CPU = torch.device("cpu")
N_KEY = 11


class Drawn(NamedTuple):
    """The masks to combine; None for one that is left out."""

    causal: bool
    window: int | None
    lengths: tuple[int, int] | None
    side: str
    begins: tuple[bool, ...] | None

    def mask(self) -> Mask:
        made = causal() if self.causal else full()
        if self.window is not None:
            made = made & window(self.window)
        if self.lengths is not None:
            made = made & padding(self.lengths, side=self.side)
        if self.begins is not None:
            made = made & documents(torch.tensor(self.begins).view(2, N_KEY).long().cumsum(1))
        return made


length = st.integers(0, N_KEY)
masks = st.builds(
    Drawn, st.booleans(), st.none() | st.integers(1, 13), st.none() | st.tuples(length, length),
    st.sampled_from(["left", "right"]), st.none() | st.tuples(*[st.booleans()] * (2 * N_KEY)),
)  # fmt: skip


def visible(low: Tensor, high: Tensor) -> Tensor:
    keys = torch.arange(N_KEY)
    return (keys >= low[..., None]) & (keys < high[..., None])


@given(masks, st.integers(1, N_KEY))
def test_intervals_equal_the_mask(drawn: Drawn, n_query: int) -> None:
    mask = drawn.mask()
    assert refuse_mask(mask) is None
    bound = mask.bind(2, 1, n_query, N_KEY)
    found = intervals(bound, n_query, N_KEY, CPU)
    expected = bound.dense(n_query, N_KEY)[:, 0].expand(2, -1, -1)
    assert torch.equal(visible(found.low, found.high).expand(2, -1, -1), expected)
    assert found.low.dtype == found.high.dtype == torch.int32
    assert int(found.high.max()) <= N_KEY
    assert int(found.low.min()) >= 0
    assert found.stride == (n_query if len(found.low) > 1 else 0)


@given(masks)
def test_only_causal_masks_have_no_lower_bound(drawn: Drawn) -> None:
    """Without a lower bound, the kernels start at key 0 in every row."""
    found = intervals(drawn.mask().bind(2, 1, N_KEY, N_KEY), N_KEY, N_KEY, CPU)
    assert found.has_low or not found.low.any()


def test_mixed_documents_have_gaps() -> None:
    assert refuse_mask(documents([0, 0, 1, 1, 2])) is None
    assert "these ids are mixed" in str(refuse_mask(causal() & documents([0, 1, 0])))


@settings(max_examples=60)
@given(masks, st.integers(0, 999), st.sampled_from([0, 3, 12]))
def test_key_ranges_hold_the_visible_keys_with_the_rows_label(drawn: Drawn, seed: int, most: int) -> None:
    mask, generator = drawn.mask(), torch.Generator().manual_seed(seed)
    query, key = (torch.randint(-1, most + 1, (1 + seed % 2, n), generator=generator) for n in (7, N_KEY))
    question = Question(query, key)
    q, k = torch.randn(2, 2, 7, 4), torch.randn(2, 1, N_KEY, 4)
    inputs = KernelInputs.prepare(q, k, k, Scores(mask=mask).bind(q, k))
    groups = plan(question, CPU, "groups")
    assert isinstance(groups, Groups)
    ranges = inputs._sort_by_label(question, groups)
    allowed = mask.bind(2, 1, 7, N_KEY).dense(7, N_KEY)[:, 0].expand(2, -1, -1)
    for item in range(2):
        at = min(item, len(ranges.rows) - 1)
        asked, labels = (each[min(item, len(each) - 1)].tolist() for each in (query, key))
        assert sorted(ranges.rows[at].tolist()) == list(range(7))
        for number, row in enumerate(ranges.rows[at].tolist()):
            start, stop = int(ranges.start[at, number]), int(ranges.stop[at, number])
            found = sorted(ranges.keys[at, start : max(start, stop)].tolist())
            wanted = [j for j in range(N_KEY) if asked[row] == labels[j] != -1 and bool(allowed[item, row, j])]
            assert found == wanted


def test_key_ranges_are_cached_for_the_next_layer_and_computed_again_for_another_mask() -> None:
    q = torch.randn(1, 1, 6, 4)
    question = Question(torch.arange(6) % 2, torch.arange(6) % 2)
    groups = plan(question, CPU, "groups")
    assert isinstance(groups, Groups)
    one, again = (KernelInputs.prepare(q, q, q, Scores(mask=causal()).bind(q, q)) for _ in range(2))
    other = KernelInputs.prepare(q, q, q, Scores(mask=window(2)).bind(q, q))
    first = one._key_ranges(question, groups)
    assert again._key_ranges(question, groups) is first
    assert not torch.equal(other._key_ranges(question, groups).start, first.start)


@pytest.mark.parametrize("d_head", [1, 16, 17, 64, 80, 128, 200])
def test_kernels_pad_the_head_to_a_power_of_two(d_head: int) -> None:
    q, k = torch.randn(1, 6, 3, d_head), torch.randn(1, 2, 3, d_head)
    constants = KernelInputs.prepare(q, k, k, Scores().bind(q, k)).common
    padded = constants["DP"]
    assert isinstance(padded, int)
    assert padded >= max(16, d_head)
    assert padded == 16 or padded < 2 * d_head
    assert padded & (padded - 1) == 0
    assert (constants["GROUP"], constants["D"], constants["HAS_SOFTCAP"]) == (3, d_head, False)


def test_scores_are_in_powers_of_two_and_a_softcap_is_a_tanh_of_them() -> None:
    q = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    plain = KernelInputs.prepare(q, q, q, Scores(scale=0.3).bind(q, q))
    product = 1.7
    assert 2 ** (plain.scale * product) == pytest.approx(math.exp(0.3 * product))
    capped = KernelInputs.prepare(q, q, q, Scores(scale=0.3, softcap=0.8).bind(q, q))
    assert capped.softcap is not None
    by_kernel = capped.softcap * (1 - 2 / (2 ** (capped.scale * product) + 1))
    assert 2**by_kernel == pytest.approx(math.exp(0.8 * math.tanh(0.3 * product / 0.8)))


def test_rows_that_a_kernel_cannot_step_through_are_copied() -> None:
    fits = torch.randn(2, 3, 5, 4)
    assert _rows_contiguous(fits) is fits
    turned = torch.randn(2, 3, 4, 5).transpose(2, 3)
    assert _rows_contiguous(turned).stride(-1) == 1
    assert torch.equal(_rows_contiguous(turned), turned)
    by_position = torch.randn(2, 5, 3, 4).transpose(1, 2)
    assert _rows_contiguous(by_position) is by_position
