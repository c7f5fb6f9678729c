"""Parts carried through some columns of a matrix, and which columns those are."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny

from headscope.models.loading import open_model
from headscope.models.structure.carry import Route, _some_columns, columns_of, source_parts
from headscope.models.structure.recorder import record_stream


@pytest.mark.parametrize("wanted", [[], [2, 3, 4], [0, 9], [9], [0, 1, 2], list(range(10))])
def test_some_columns_of_a_product_are_those_of_the_whole(wanted: list[int]) -> None:
    draw = torch.Generator().manual_seed(0)
    parts, matrix = torch.randn(3, 4, 6, generator=draw), torch.randn(6, 10, generator=draw)
    columns = torch.tensor(wanted, dtype=torch.long)
    whole = torch.zeros(3, 4, 10).index_copy(-1, columns, (parts @ matrix)[..., columns])
    torch.testing.assert_close(_some_columns(parts, matrix, columns), whole)
    torch.testing.assert_close(torch.vmap(lambda part: _some_columns(part, matrix, columns))(parts), whole)


@pytest.mark.parametrize("head", [0, 3])
def test_a_head_depends_on_its_own_columns_of_the_projection(head: int) -> None:
    model = open_model(tiny.llama())
    route = Route(record_stream(model, {"input_ids": torch.tensor([[1, 2, 3]])}).node("1", "q"))
    found = columns_of(route, lambda whole: whole[..., 0, head, :, :])
    assert [columns.tolist() for columns in found.values()] == [list(range(8 * head, 8 * head + 8))]
    source = next(each for each in route.sources if each.heads is None)
    whole = route.carry(source, source_parts(source)[0])
    own = route.carry(source, source_parts(source)[0], found)
    assert whole is not None
    assert own is not None
    torch.testing.assert_close(own[0, head], whole[0, head])
    others = [number for number in range(4) if number != head]
    assert not own[0, others].any()
    assert whole[0, others].any()
    model.close()
