"""Parts carried through some columns of a matrix, and which columns those are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.models import tiny
from tests.models.structure.test_carried_operations import BETA, GAIN, SQUARE, record, total
from torch import Tensor

from headscope.models.loading import open_model
from headscope.models.structure.carry import Route, _some_columns, columns_of, recompute, source_parts, wide
from headscope.models.structure.recorder import record_stream
from headscope.models.structure.tape import HeadsOutput, Op, Source, Tape


@pytest.mark.parametrize("wanted", [[], [2, 3, 4], [0, 3], [0, 9], [9], [0, 1, 2], list(range(10))])
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
    found = columns_of(route, lambda op, trial: route.carry(op, trial)[..., 0, head, :, :])  # type: ignore[index]
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


def route_of(work: Callable[[Tensor, Tensor], Tensor], in_site: bool = False) -> tuple[Route, Tensor]:
    out, tape = record(work, in_site)
    node = tape.node_of(out)
    assert node is not None
    return Route(node), out


def heads_output(bias: Tensor | None, dtype: torch.dtype = torch.float32) -> Source:
    """Five rows that three heads of two numbers write into four columns."""
    draw = torch.Generator().manual_seed(3)
    x, weight = (torch.randn(size, generator=draw).to(dtype) for size in ((1, 5, 6), (3, 2, 4)))
    heads = HeadsOutput("0", x, 3, weight, bias)
    return Source(torch.Size((1, 5, 4)), "layer", False, True, None, "attention", 0, heads=heads)


def test_heads_are_their_slices_through_their_rows_of_w_o() -> None:
    source = heads_output(None)
    heads = source.heads
    assert heads is not None
    each = torch.stack([heads.x[..., 2 * head : 2 * head + 2] @ heads.weight[head] for head in range(3)])
    torch.testing.assert_close(source_parts(source), each)
    torch.testing.assert_close(source_parts(source, [2, 0]), each[[2, 0]])
    assert source_parts(source, []).shape == (0, 1, 5, 4)


@pytest.mark.parametrize("bias", [None, BETA])
def test_the_value_of_heads_is_their_sum_and_the_bias(bias: Tensor | None) -> None:
    source = heads_output(bias)
    whole = source_parts(source).sum(0)
    torch.testing.assert_close(recompute(source, {}), whole if bias is None else whole + bias)
    half = heads_output(None, torch.bfloat16)
    assert (source_parts(half).dtype, recompute(half, {}).dtype) == (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_many_parts_are_carried_as_each_by_itself(count: int) -> None:
    route, _ = route_of(lambda x, y: torch.layer_norm(2 * (x + y), (4,), GAIN, BETA))
    source = next(each for each in route.sources if each.op == "input")
    parts = torch.randn(count, 3, 4)
    together = route.carry_all(source, parts)
    assert together is not None
    assert together.shape == (count, 3, 4)
    for part, made in zip(parts, together, strict=True):
        alone = route.carry(source, part)
        assert alone is not None
        torch.testing.assert_close(made, alone)


def test_a_part_at_its_own_source_is_itself_and_elsewhere_nothing() -> None:
    route, _ = route_of(lambda x, y: x + y)
    other, _ = route_of(lambda x, y: x - y)
    parts = torch.randn(2, 3, 4)
    source = route.sources[0]
    assert Route(source).carry_all(source, parts) is parts
    assert other.carry_all(source, parts) is None
    assert other.carry(source, parts[0]) is None


def test_the_bias_of_a_readers_matrix_is_added_to_what_is_carried_through_it() -> None:
    route, out = route_of(lambda x, y: torch.addmm(BETA, x + y, SQUARE), in_site=True)
    torch.testing.assert_close(route.carry_together({each: source_parts(each)[0] for each in route.sources}), out)
    torch.testing.assert_close(recompute(route.target, {}), out)


@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: torch.bmm((x + y)[None], SQUARE[None]),
        lambda x, y: torch.baddbmm(BETA.expand(1, 3, 4), (x + y)[None], SQUARE[None]),
        lambda x, y: torch.mv(x + y, GAIN),
        lambda x, y: torch.addmv(BETA[:3], x + y, GAIN),
        lambda x, y: SQUARE[:2, :3] @ (x + y),
    ],
    ids=["bmm", "baddbmm", "mv", "addmv", "on the left"],
)
def test_matrices_of_a_reader_carry_in_every_form(work: Callable[[Tensor, Tensor], Tensor]) -> None:
    route, out = route_of(work, in_site=True)
    assert len(route.matrices()) == 1
    torch.testing.assert_close(total(route), out)
    torch.testing.assert_close(route.carry_together({each: source_parts(each)[0] for each in route.sources}), out)
    torch.testing.assert_close(recompute(route.target, {}), out)


@pytest.mark.parametrize(("count", "found"), [(1, True), (4, True), (5, False), (8, False)])
def test_columns_are_listed_where_they_are_at_most_half(count: int, found: bool) -> None:
    matrix = torch.randn(4, 8, generator=torch.Generator().manual_seed(4))
    route, out = route_of(lambda x, y: (x + y) @ matrix, in_site=True)
    columns = columns_of(route, lambda op, trial: recompute(route.target, {op: trial})[..., :count])
    assert [each.tolist() for each in columns.values()] == ([list(range(count))] if found else [])
    some = recompute(route.target, {}, columns)
    torch.testing.assert_close(some[:, :count], out[:, :count])
    assert bool(some[:, count:].any()) is (not found and count < 8)


def test_columns_of_other_operations_than_a_plain_product_are_all_computed() -> None:
    route, out = route_of(lambda x, y: torch.bmm((x + y)[None], SQUARE[None]), in_site=True)
    assert not columns_of(route, lambda op, trial: recompute(route.target, {op: trial})[..., :1])
    assert isinstance(route.target, Op)
    torch.testing.assert_close(recompute(route.target, {}, {route.target: torch.tensor([0])}), out)


def test_a_long_chain_of_operations_is_computed_again() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(400):
            x = x + y
        return x

    route, out = route_of(work)
    torch.testing.assert_close(recompute(route.target, {}), out)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.float64, torch.float64),
        (torch.complex128, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_parts_are_carried_in_single_precision_at_least(given: torch.dtype, expected: torch.dtype) -> None:
    assert wide(given) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64])
def test_parts_of_a_pass_in_another_precision_add_up(dtype: torch.dtype) -> None:
    tape, draw = Tape(), torch.Generator().manual_seed(5)
    x, y, gate, matrix = (torch.randn(size, generator=draw).to(dtype) for size in ((3, 4), (3, 4), (4,), (4, 4)))
    tape.sites = ["0"]
    for each in (x, y):
        tape.mark_input(each)
    with torch.no_grad(), tape:
        out = ((x + y) * gate) @ matrix
    node = tape.node_of(out)
    assert node is not None
    route = Route(node)
    found = total(route)
    assert found.dtype == (dtype if dtype.is_complex else wide(dtype))
    rough = dtype == torch.bfloat16
    torch.testing.assert_close(found, out.to(found.dtype), rtol=0.05 if rough else 1e-5, atol=0.1 if rough else 1e-6)
