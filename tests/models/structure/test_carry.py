"""Parts carried through some columns of a matrix, against the whole product with the others left out."""

from __future__ import annotations

import pytest
import torch

from headscope.models.structure.carry import _some_columns


@pytest.mark.parametrize("wanted", [[], [2, 3, 4], [0, 9], [9], [0, 1, 2], list(range(10))])
def test_some_columns_of_a_product_are_those_of_the_whole(wanted: list[int]) -> None:
    draw = torch.Generator().manual_seed(0)
    parts, matrix = torch.randn(3, 4, 6, generator=draw), torch.randn(6, 10, generator=draw)
    columns = torch.tensor(wanted, dtype=torch.long)
    whole = torch.zeros(3, 4, 10).index_copy(-1, columns, (parts @ matrix)[..., columns])
    torch.testing.assert_close(_some_columns(parts, matrix, columns), whole)
    torch.testing.assert_close(torch.vmap(lambda part: _some_columns(part, matrix, columns))(parts), whole)
