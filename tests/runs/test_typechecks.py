"""The tests run with annotations checked at every call, axis names included."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from headscope.attention.reference import attend
from tests.runs.typechecks import checked


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeCheckError, match=r"parameter scale='one' violates type hint <class 'float'>"):
        attend(*torch.zeros(3, 1, 4), torch.ones(1, 1, dtype=torch.bool), "one")  # type: ignore[arg-type]


def test_axes_of_one_name_have_one_size() -> None:
    allowed = torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(TypeCheckError, match=r"attend\(\) parameter k="):
        attend(torch.zeros(3, 4), torch.zeros(3, 5), torch.zeros(3, 4), allowed, 1.0)


def test_what_is_returned_is_checked() -> None:
    def count() -> int:
        return "one"  # type: ignore[return-value]

    count.__qualname__ = "count"
    with pytest.raises(TypeCheckError, match="return 'one' violates type hint <class 'int'>"):
        checked(count)()
