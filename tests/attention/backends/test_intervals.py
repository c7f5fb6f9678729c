"""What the fused backend prepares on the host: intervals of keys per row, and ranges of matching keys."""

from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headscope.attention.backends.fused.host import KernelInputs
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
