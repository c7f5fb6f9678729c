"""Where the Triton kernels are launched, without a GPU: Triton takes the current device, not that of the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.runs.pretended_gpu import on_gpu
from torch import Tensor

from headscope.attention.backends.fused import host, segments
from headscope.attention.backends.fused.intervals import intervals
from headscope.attention.backends.fused.layers import LayerStatistics, attend_within, statistics_of
from headscope.attention.masks import causal
from headscope.attention.observation import ALL_STATISTICS
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")


def there(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return on_gpu(1, torch.zeros(shape, dtype=dtype))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """The kernels that were launched, and the current device at that time; nothing is run."""
    from triton.runtime.jit import JITFunction

    current = [0]
    found: list[tuple[str, int]] = []

    def exchange(device: int) -> int:
        before, current[0] = current[0], current[0] if device < 0 else device
        return -1 if device < 0 else before

    for name in ("_exchange_device", "_maybe_exchange_device"):
        monkeypatch.setattr(torch.cuda, name, exchange)
    monkeypatch.setattr(JITFunction, "run", lambda self, *_, **__: found.append((self.__name__, current[0])))
    yield found
    assert current == [0], "the device of the caller stays"


Q, K = there(1, 2, 8, 16), there(1, 1, 8, 16)
SCORES = Scores(mask=causal(), scale=1.0)
LABELS = torch.arange(8)
ASKED = {"itself": Question(LABELS, LABELS), "same": Question(LABELS // 2, LABELS // 2)}
VISIBLE = intervals(causal(), 8, 8, torch.device("cpu"))


def sums() -> None:
    found = LayerStatistics(there(7, 1, 2, 8, dtype=torch.float32), torch.zeros(1, 2, 8, dtype=torch.long))
    valid, shares = torch.ones(1, 6, 8, dtype=torch.bool), torch.zeros(1, 2, 8)
    pieces = segments.Segments(torch.tensor([[0, 0, 8]], dtype=torch.int32), valid, shares, torch.zeros(2), 0)
    segments.sum_segments(found, pieces, segments.Bins(0.1, 32, 24))


@pytest.mark.parametrize(
    ("work", "kernels"),
    [
        (lambda: host.observe(Q, K, K, SCORES, ASKED, ALL_STATISTICS), ["attend", "strongest", "single", "listed"]),
        (lambda: attend_within(Q, K, K, SCORES, VISIBLE), ["attend"]),
        (lambda: statistics_of(Q, K, SCORES, ASKED), ["layers"]),
        (sums, ["segments"]),
    ],
    ids=["one layer", "output alone", "layers", "sums"],
)
def test_kernels_are_launched_on_the_gpu_that_holds_their_tensors(
    launches: list[tuple[str, int]], work: Callable[[], object], kernels: list[str]
) -> None:
    work()
    assert launches == [(kernel, 1) for kernel in kernels]
