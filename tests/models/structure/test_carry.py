"""What is carried through a reader's matrices, in every form and precision, adds up to what the pass computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.models.structure.test_carried_operations import BETA, GAIN, SQUARE, record, total
from torch import Tensor

from headscope.models.structure.carry import Route, recompute, source_parts, wide
from headscope.models.structure.tape import Tape


def route_of(work: Callable[[Tensor, Tensor], Tensor], in_site: bool = False) -> tuple[Route, Tensor]:
    out, tape = record(work, in_site)
    node = tape.node_of(out)
    assert node is not None
    return Route(node), out


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
