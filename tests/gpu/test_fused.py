"""The fused backend on a real GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.attention.cases import Case
from tests.gpu.checks import ALL, DTYPES, OTHERS, check_case

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_it_equals_the_definition(case: Case, dtype: torch.dtype) -> None:
    check_case(case, dtype)


@pytest.mark.parametrize("check", OTHERS, ids=lambda check: check.__name__)
def test_it_holds(check: Callable[[], None]) -> None:
    check()
