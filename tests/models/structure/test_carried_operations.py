"""Single operations of a recorded pass: what is carried, what is held, and that parts add up to the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headscope.models.structure.carry import Route, recompute, source_parts
from headscope.models.structure.tape import Tape

DRAW = torch.Generator().manual_seed(0)
GATE, GAIN, BETA, SQUARE = (torch.randn(size, generator=DRAW) for size in ((3, 4), (4,), (4,), (4, 4)))
ROWS = torch.tensor([2, 0])
MASK = torch.tensor([[True, False, True, False]])


def written(x: Tensor, into: int = 0) -> Tensor:
    """In place: a row of a stream is replaced by its double."""
    x = x + 0
    x[into] = 2 * x[into]
    return x


def added(x: Tensor) -> Tensor:
    x = x * 1.0
    x += GATE
    return x


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a sum": lambda x, y: x + y,
    "a difference": lambda x, y: x - y,
    "a weighted sum": lambda x, y: torch.add(x, y, alpha=3),
    "a weighted difference": lambda x, y: torch.sub(x, y, alpha=0.5),
    "a number minus it": lambda x, y: 5 - (x + y),
    "a number minus a multiple of it": lambda x, y: torch.rsub(x + y, 2.5, alpha=3),
    "a multiple of a number more": lambda x, y: torch.add(x + y, 2.5, alpha=3),
    "a number more": lambda x, y: (x + y) + 2.5,
    "a number less": lambda x, y: (x + y) - 2.5,
    "a parameter more": lambda x, y: (x + y) + BETA,
    "a row more": lambda x, y: x + y[:1],
    "a factor": lambda x, y: (x + y) * 3.0,
    "a gate": lambda x, y: (x + y) * GATE,
    "a gate before it": lambda x, y: GATE * (x + y),
    "a quotient": lambda x, y: (x + y) / (GATE.abs() + 1),
    "a norm": lambda x, y: torch.layer_norm(x + y, (4,), GAIN, BETA),
    "a norm without gain": lambda x, y: torch.layer_norm(x + y, (4,)),
    "side by side": lambda x, y: torch.cat((x, y), dim=-1),
    "a stack": lambda x, y: torch.stack((x, y)),
    "rows": lambda x, y: (x + y)[ROWS],
    "some columns": lambda x, y: (x + y)[:, 1:3],
    "a turn": lambda x, y: (x + y).T.reshape(2, 6),
    "a mean": lambda x, y: (x + y).mean(-1),
    "the negative": lambda x, y: -(x + y),
    "one or the other": lambda x, y: torch.where(MASK, x, y),
    "masked by zero": lambda x, y: (x + y).masked_fill(MASK, 0.0),
    "rows added": lambda x, y: (x + y).index_add(0, ROWS, y[:2]),
    "a row written": lambda x, y: written(x + y),
    "added in place": lambda x, y: added(x + y),
    "into zeros": lambda x, y: torch.zeros(3, 4).index_copy(0, ROWS, (x + y)[:2]),
}


def record(work: Callable[[Tensor, Tensor], Tensor], in_site: bool = False) -> tuple[Tensor, Tape]:
    """The result of some work on two tensors that begin a stream, recorded."""
    tape, (x, y) = Tape(), torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1)).unbind()
    x, y = x.clone(), y.clone()
    tape.sites = ["0"] if in_site else []
    with torch.no_grad():
        for each in (x, y):
            tape.mark_input(each)
        with tape:
            out = work(x, y)
    return out, tape


def total(route: Route) -> Tensor:
    """What all sources of a route become at its end, each by itself."""
    parts = [route.carry_all(each, source_parts(each)) for each in route.sources]
    return sum(part.sum(0) for part in parts if part is not None)  # type: ignore[return-value]


@pytest.mark.parametrize("name", OPERATIONS)
def test_parts_that_are_carried_by_themselves_add_up_to_the_result(name: str) -> None:
    out, tape = record(OPERATIONS[name])
    node = tape.node_of(out)
    assert node is not None
    route = Route(node)
    assert len(route.sources) >= 2
    torch.testing.assert_close(total(route), out)
    whole = {each: source_parts(each)[0] for each in route.sources}
    torch.testing.assert_close(route.carry_together(whole), out)
    torch.testing.assert_close(recompute(node, {}), out)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_replaced_source_gives_what_the_work_gives_for_it(name: str) -> None:
    out, tape = record(OPERATIONS[name])
    node = tape.node_of(out)
    assert node is not None
    first, second = (each for each in Route(node).sources if each.op == "input")
    drawn = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
    new = {first: drawn[0], second: drawn[1]}
    expected = {OPERATIONS[name](new[first], new[second]), OPERATIONS[name](new[second], new[first])}
    found = recompute(node, new)
    assert any(torch.allclose(found, each, atol=1e-6) for each in expected)


def test_a_source_that_is_changed_in_place_later_keeps_what_it_was() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        first = x.exp()
        out = y + first
        first.mul_(0)
        return out

    out, tape = record(work)
    node = tape.node_of(out)
    assert node is not None
    torch.testing.assert_close(total(Route(node)), out)
