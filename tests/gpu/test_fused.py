"""The fused backend on a real GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.attention.cases import Case
from tests.gpu.checks import ALL, DTYPES, OTHERS, check_case
from tests.gpu.layer_checks import LAYER_CASES, LAYER_OTHERS, check_layers

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_it_equals_the_definition(case: Case, dtype: torch.dtype) -> None:
    check_case(case, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", LAYER_CASES, ids=lambda case: case.name)
def test_layers_together_equal_the_definition(case: Case, dtype: torch.dtype) -> None:
    check_layers(case, dtype)


@pytest.mark.parametrize("check", [*OTHERS, *LAYER_OTHERS], ids=lambda check: check.__name__)
def test_it_holds(check: Callable[[], None]) -> None:
    check()
