"""What every test may use."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

settings.register_profile("headscope", deadline=None)  # how long an example takes says how busy a machine is
settings.load_profile("headscope")


@pytest.fixture(autouse=True)
def seed() -> None:
    """Each test draws the same numbers, whichever ran before it."""
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skip(reason="no CUDA device here")
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(missing)
