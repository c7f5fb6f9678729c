"""The dense backend equals the definition in float64: output, pattern and every statistic, in every case."""

from __future__ import annotations

import pytest
import torch
from tests.attention.cases import CASES, Case, truth
from tests.attention.expected import assert_statistics, questions
from torch.testing import assert_close

from headscope.attention.engine import observe
from headscope.errors import BackendError


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_dense_backend_equals_the_definition(case: Case) -> None:
    asked = questions(case.batch, case.n_query, case.keys)
    seen = observe(*case.qkv(torch.float64), scores=case.scores, questions=asked, backend="dense")
    exact = truth(case)
    assert_close(seen.output, exact.output, atol=1e-12, rtol=1e-12)
    assert_close(seen.weights(), exact.weights, atol=1e-12, rtol=1e-12)
    assert_statistics(seen, case, atol=1e-12)


def test_a_pattern_that_is_too_large_is_refused() -> None:
    q = k = v = torch.zeros(1, 1, 1, 1).expand(1, 32, 8192, 1)
    with pytest.raises(BackendError, match=r"dense stores the pattern, 8\.6 GB here; try 'blockwise'"):
        observe(q, k, v, backend="dense")
