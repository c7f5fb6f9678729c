"""The blockwise backend equals the definition in every case, statistic and precision, in memory linear in T."""

from __future__ import annotations

import pytest
import torch
from tests.attention.cases import CASES, Case, assert_within_twice, plain, truth
from tests.attention.expected import assert_statistics, questions
from tests.attention.memory import peak_tensor_bytes
from torch.testing import assert_close

from headscope.attention.backends import blockwise
from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@every_case
def test_float32_equals_the_definition(case: Case) -> None:
    asked = questions(case.batch, case.n_query, case.keys)
    seen = observe(*case.qkv(), scores=case.scores, questions=asked, backend="blockwise")
    exact = truth(case, torch.float32)
    assert_close(seen.output, exact.output.float(), atol=3e-6, rtol=1e-5)
    assert_close(seen.weights(), exact.weights.float(), atol=3e-6, rtol=1e-5)
    assert_statistics(seen, case, atol=3e-6, dtype=torch.float32)


@every_case
def test_float64_equals_the_definition(case: Case) -> None:
    asked = questions(case.batch, case.n_query, case.keys)
    seen = observe(*case.qkv(torch.float64), scores=case.scores, questions=asked, backend="blockwise")
    assert_close(seen.output, truth(case).output, atol=1e-12, rtol=1e-12)
    assert_statistics(seen, case, atol=1e-11)


@half
@every_case
def test_half_precision_errs_at_most_twice_as_much_as_plain_torch(case: Case, dtype: torch.dtype) -> None:
    seen = observe(*case.qkv(dtype), scores=case.scores, backend="blockwise")
    assert seen.output.dtype == dtype
    assert seen.entropy.dtype == torch.float32
    assert_within_twice(seen.output, truth(case, dtype).output, plain(case, dtype))


def test_many_small_bands_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case.name == "grouped")
    asked = questions(case.batch, case.n_query, case.keys)
    monkeypatch.setitem(blockwise.BAND, "cpu", 1)
    seen = observe(*case.qkv(), scores=case.scores, questions=asked, backend="blockwise")
    assert_statistics(seen, case, atol=3e-6, dtype=torch.float32)


def test_the_distance_is_exact_far_away() -> None:
    """All attention on two neighbouring keys 100,000 positions back: the deviation is 0.5, not lost in 10¹⁰."""
    n_key = 100_000
    k = torch.zeros(1, 1, n_key, 2)
    k[..., 7:9, 0] = 40.0
    q = torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2)
    seen = observe(q, k, torch.randn(1, 1, n_key, 2), scores=Scores(mask=causal(), scale=1.0), backend="blockwise")
    far = torch.tensor([n_key - 3 - 7.5, n_key - 2 - 7.5, n_key - 1 - 7.5])
    assert_close(seen.distance.mean[0, 0], far, atol=0.02, rtol=0)
    assert_close(seen.distance.std[0, 0], torch.full((3,), 0.5), atol=1e-3, rtol=0)


def test_memory_grows_with_the_length_not_its_square() -> None:
    def peak(length: int) -> int:
        q, k, v = (torch.randn(1, 2, length, 16) for _ in range(3))
        position = torch.arange(length)
        asked = {"previous": Question(position - 1, position), "tokens": Question(position % 997, position % 997)}
        return peak_tensor_bytes(lambda: observe(q, k, v, scores=Scores(mask=causal()), questions=asked))

    short, long = peak(2048), peak(8192)
    assert long < 8192 * 8192 * 4 / 8
    assert long < 4.5 * short
