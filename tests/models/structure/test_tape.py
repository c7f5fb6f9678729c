"""What a tape notes of each tensor: what made it and in which module, and whether it carries the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.models.structure.test_carried_operations import BETA, GAIN, GATE, MASK, ROWS, SQUARE, record
from torch import Tensor

from headscope.models.structure.carry import Route, recompute, source_parts
from headscope.models.structure.tape import HeadsOutput, Mark, Op, Slot, Source, Tape, mark_of

EXPERTS = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(6))


def noted(value: Tensor) -> Mark:
    mark = mark_of(value)
    assert mark is not None
    return mark


def op_of(value: Tensor) -> Op:
    node = noted(value).node
    assert isinstance(node, Op)
    return node


def written(work: Callable[[Tensor, Tensor], Tensor], in_site: bool = False) -> list[Source]:
    """The sources of a result that is carried, in the order in which they were made."""
    out, tape = record(work, in_site)
    node = tape.node_of(out)
    assert node is not None
    return sorted(Route(node).sources, key=lambda source: source.born)


def test_inputs_begin_a_stream_if_they_are_numbers() -> None:
    tape, x, ids = Tape(), torch.ones(2, 3), torch.arange(3)
    for each in (x, ids):
        tape.mark_input(each)
        mark = noted(each)
        assert (mark.node, mark.carried, mark.dynamic, mark.op, mark.path) == (None, False, True, "input", "")
        assert (mark.in_site, mark.born, mark.expert) == (False, 0, None)
    assert (noted(x).starts, noted(ids).starts) == (True, False)
    assert tape.node_of(x) is None
    assert tape.node_of(torch.ones(1)) is None


def test_z_is_no_node_and_the_output_of_w_o_is_one_with_its_heads() -> None:
    tape, z, out = Tape(), torch.ones(1, 3, 4), torch.ones(1, 3, 4)
    tape.stack, tape.order, tape.call = ["layers.0.attn"], 7, "0"
    tape.mark_source(z, "attention")
    assert (noted(z).node, noted(z).carried, noted(z).dynamic, noted(z).born) == (None, False, True, 7)
    heads = HeadsOutput("0", z, 2, torch.ones(2, 2, 4), None)
    tape.mark_source(out, "attention", heads)
    node = tape.node_of(out)
    assert isinstance(node, Source)
    assert (node.heads, node.call, node.path, node.born, node.op) == (heads, "0", "layers.0.attn", 7, "attention")
    assert (node.dynamic, node.in_site, node.value, node.shape) == (True, False, None, out.shape)
    assert (noted(out).carried, noted(out).dynamic, noted(out).in_site) == (True, True, False)


@pytest.mark.parametrize(
    ("sites", "inside"), [([], False), ([None], False), (["0"], True), (["0", None], True), ([None, "0"], True)]
)
def test_a_reader_is_open_until_it_has_attended(sites: list[str | None], inside: bool) -> None:
    tape = Tape()
    tape.sites = sites
    assert tape.in_site is inside


def test_a_norm_carries_its_first_output_alone_and_is_held_at_its_scale() -> None:
    def work(x: Tensor, y: Tensor) -> Any:
        return torch.native_layer_norm(x + y, (4,), GAIN, BETA, 1e-5)

    (out, mean, scale), tape = record(work)
    node = op_of(out)
    assert tape.node_of(out) is node
    assert tape.node_of(mean) is None
    assert tape.node_of(scale) is None
    assert node.scale is scale
    assert (op_of(mean).scale, op_of(scale).scale) == (None, None)
    assert (node.out, op_of(mean).out, op_of(scale).out) == (0, 1, 2)
    assert [slot.carried for slot in node.slots] == [True, False, True], "its input and its bias"


def test_a_norm_of_what_is_not_carried_carries_nothing() -> None:
    out, tape = record(lambda x, y: torch.layer_norm((x + y).exp(), (4,), GAIN, BETA))
    assert tape.node_of(out) is None
    torch.testing.assert_close(recompute(op_of(out), {}), out)


@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: ((x + y).exp() + 2.5) * 2,
        lambda x, y: 3 - (x + y).exp(),
        lambda x, y: (x + y).exp() * (x + y),
        lambda x, y: GATE / (x + y),
        lambda x, y: (x + y).softmax(-1)[:, 1:],
        lambda x, y: (x + y).masked_fill(MASK, 1.0),
        lambda x, y: (x + y).masked_fill(MASK, torch.tensor(0.0)),
        lambda x, y: torch.cat(((x + y).tanh(), y)) + 1,
    ],
    ids=["exp", "number", "gated", "divisor", "softmax", "filled", "filled by a tensor", "tanh"],
)
def test_what_is_not_carried_is_computed_again_from_what_was_recorded(work: Callable[[Tensor, Tensor], Tensor]) -> None:
    out, _ = record(work)
    torch.testing.assert_close(recompute(op_of(out), {}), out)


def square_of_one(x: Tensor, y: Tensor) -> Tensor:
    both = x + y
    return both * both


def taken_apart(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).split(2, dim=-1)[1]


@pytest.mark.parametrize(
    ("work", "in_site", "carried"),
    [
        (square_of_one, False, False),
        (taken_apart, False, True),
        (lambda x, y: (x + y) / (x + y + 9), False, False),
        (lambda x, y: torch.div((x + y), 3), False, True),
        (lambda x, y: GATE.index_select(0, ROWS) * 2, False, False),
        (lambda x, y: GATE + GATE, False, False),
        (lambda x, y: GATE + x, False, True),
        (lambda x, y: torch.zeros(3, 4) * (x + y), False, True),
        (lambda x, y: torch.cat((x.exp(),)), False, False),
        (lambda x, y: x.exp() + y.exp(), False, True),
        (lambda x, y: x.exp() + GATE, False, True),
        (lambda x, y: x.exp() @ SQUARE + y.exp() @ SQUARE, False, True),
        (lambda x, y: x.exp() @ SQUARE + GATE, False, True),
        (lambda x, y: (x + y) @ (x + y).T.contiguous(), True, False),
        (lambda x, y: (x + y).exp() @ SQUARE, True, False),
        (lambda x, y: torch.addmm(BETA, x + y, SQUARE), False, False),
        (lambda x, y: SQUARE @ SQUARE, True, False),
        (lambda x, y: x @ SQUARE, True, True),
        (lambda x, y: (x + y)[ROWS], True, True),
        (lambda x, y: GATE[:, (x + y).sum(0).argsort()], False, False),
    ],
)
def test_which_results_carry_the_stream(work: Any, in_site: bool, carried: bool) -> None:
    out, tape = record(work, in_site)
    assert (tape.node_of(out) is not None) is carried


def test_what_enters_a_reader_was_written_however_it_was_made() -> None:
    tape, x = Tape(), torch.randn(3, 4)
    tape.mark_input(x)
    with torch.no_grad(), tape:
        made, branch = x.exp(), x.exp() @ SQUARE
        tape.sites = ["0"]
        out, of_branch = made @ SQUARE, branch @ SQUARE
        inside = made.exp() @ SQUARE
    node = tape.node_of(out)
    assert node is not None
    (source,) = Route(node).sources
    assert (source.op, source.in_site, source.dynamic) == ("exp", False, True)
    assert source.value is made
    node = tape.node_of(of_branch)
    assert node is not None
    assert [each.op for each in Route(node).sources] == ["mm"]
    assert tape.node_of(inside) is None


def test_sums_are_of_everything_that_is_added_whatever_made_it() -> None:
    sources = written(lambda x, y: (x.exp() + y.tanh()) + GATE + 1.5)
    assert sorted((each.op, each.dynamic) for each in sources) == [
        ("exp", True), ("number", False), ("parameter", False), ("tanh", True),
    ]  # fmt: skip


def test_zeros_are_no_source() -> None:
    assert [each.op for each in written(lambda x, y: torch.zeros(3, 4) + x + y)] == ["input", "input"]
    assert [each.op for each in written(lambda x, y: torch.ones(3, 4) + x)] == ["input", "ones"]


def test_the_end_of_the_stream_is_a_sum_of_two_that_were_written() -> None:
    for work, count in (
        (lambda x, y: x + y, 1),
        (lambda x, y: x - y, 0),
        (lambda x, y: x + torch.zeros(3, 4), 0),
        (lambda x, y: torch.cat((x, y)), 0),
        (lambda x, y: (x + y) + (x + y)[:, :1], 2),
        (lambda x, y: (x + y).exp() * 2, 1),
    ):
        _, tape = record(work)
        assert len(tape.joins) == (1 if count else 0)
        assert all(isinstance(node, Op) and node.name == "add" for node in tape.joins.values())
        assert sum(node.order for node in tape.joins.values() if isinstance(node, Op)) >= count


def test_a_token_embedding_begins_a_stream_and_a_table_of_positions_does_not() -> None:
    tape, ids, table = Tape(), torch.tensor([2, 0]), torch.randn(3, 4)
    tape.mark_input(ids)
    with torch.no_grad(), tape:
        token = torch.nn.functional.embedding(ids, table)
        position = torch.nn.functional.embedding(torch.arange(2), table)
        stream = token * 2.0
        tape.sites = ["0"]
        inside = torch.nn.functional.embedding(ids, table)
    assert [noted(each).starts for each in (token, position, inside)] == [True, False, False]
    assert [noted(each).dynamic for each in (token, position, inside)] == [True, False, True]
    assert [noted(each).in_site for each in (token, position, inside)] == [False, False, True]
    assert tape.node_of(stream) is not None


@pytest.mark.parametrize(
    ("choose", "expert"),
    [
        (lambda: EXPERTS[1], 1),
        (lambda: EXPERTS.select(0, 2), 2),
        (lambda: EXPERTS.select(1, 2), None),
        (lambda: torch.ops.aten.index.Tensor(EXPERTS, [torch.tensor(2)]), 2),
        (lambda: torch.ops.aten.index.Tensor(EXPERTS, [torch.tensor([2])])[0], 0),
        (lambda: torch.ops.aten.index.Tensor(EXPERTS, [None, torch.tensor(2)]), None),
        (lambda: EXPERTS[1].T, 1),
        (lambda: (EXPERTS * 2)[1], 1),
        (lambda: EXPERTS.flatten(1)[1].view(4, 4), None),
        (lambda: SQUARE, None),
    ],
)
def test_the_matrix_of_a_stack_that_was_chosen_is_an_expert(choose: Callable[[], Tensor], expert: int | None) -> None:
    sources = written(lambda x, y: x + (y.tanh() @ choose()) * 0.5)
    assert [each.expert for each in sources if each.op == "mm"] == [expert]


def test_a_part_of_the_text_is_no_expert() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        return x + torch.stack((x.exp(), y.exp()))[:1].exp()[0]

    assert [each.expert for each in written(work)] == [None, None]


def test_a_product_is_named_after_its_larger_factor() -> None:
    def work(x: Tensor, y: Tensor, first: bool) -> Tensor:
        row, all_rows = x[:1].exp() @ SQUARE, torch.bmm(y.tanh()[None], SQUARE[None])[0]
        return x + (row * all_rows if first else all_rows * row)

    for first in (True, False):
        assert [each.op for each in written(lambda x, y: work(x, y, first))] == ["input", "bmm"]  # noqa: B023


def test_shapes_products_and_norms_of_a_branch_are_named_after_what_made_it() -> None:
    tape, x = Tape(), torch.randn(3, 4)
    tape.mark_input(x)
    with torch.no_grad(), tape:
        tape.stack, tape.order = ["layers.0.mlp"], 5
        made = x.exp() @ SQUARE
        born = tape.order
        tape.stack = ["layers.0"]
        later = [made.T, made * 2, torch.layer_norm(made, (4,)), made.exp()]
    assert [(noted(each).op, noted(each).path) for each in later] == [
        ("mm", "layers.0.mlp"), ("mm", "layers.0.mlp"), ("mm", "layers.0.mlp"), ("exp", "layers.0"),
    ]  # fmt: skip
    assert [noted(each).born for each in later[:3]] == [born] * 3
    assert all(noted(each).dynamic and not noted(each).carried for each in later)


def test_sources_have_the_module_of_what_made_them_and_the_site_that_attended_last() -> None:
    tape, x = Tape(), torch.randn(3, 4)
    tape.mark_input(x)
    with torch.no_grad(), tape:
        tape.stack, tape.call = ["layers.0.mlp"], "0"
        first = (x + 1).tanh()
        tape.stack, tape.call = ["layers.1.mlp"], "1"
        out = (x + first) + first.sigmoid()
    node = tape.node_of(out)
    assert node is not None
    made = {each.op: each for each in Route(node).sources}
    assert {op: each.path for op, each in made.items()} == {
        "input": "", "tanh": "layers.0.mlp", "sigmoid": "layers.1.mlp",
    }  # fmt: skip
    assert (made["tanh"].call, made["sigmoid"].call) == ("1", "1")
    assert made["tanh"].origin is noted(first).node
    assert made["tanh"].born < made["sigmoid"].born


def test_the_same_tensor_is_one_source_and_a_view_of_it_another() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        made = x.exp()
        return torch.cat((made + y, made[:2] + y[:2], made + y))

    assert sorted(each.op for each in written(work) if each.op != "input") == ["exp", "slice"]


def test_values_are_kept_where_they_are_held() -> None:
    out, _ = record(lambda x, y: (x + y) * (x + y).exp())
    first, second = op_of(out).slots
    assert (first.carried, first.value) == (True, None)
    assert (second.carried, second.value is not None, second.node is not None) == (False, True, True)
    ended, _ = record(lambda x, y: (x + y).exp())
    (given,) = op_of(ended).slots
    assert (given.carried, given.value, given.node is not None) == (False, None, True)
    more, _ = record(lambda x, y: (x + y).exp() + 2.5)
    *_, number = op_of(more).slots
    assert (number.carried, number.node, float(number.value)) == (False, None, 2.5)  # type: ignore[arg-type]


def test_a_number_that_is_added_is_a_part_of_its_own() -> None:
    for work, value in ((lambda x, y: x + 2.5, 2.5), (lambda x, y: x - 2, 2.0), (lambda x, y: 5 - x, 5.0)):
        number = next(each for each in written(work) if each.op == "number")
        assert number.value is not None
        assert (float(number.value), number.dynamic, number.in_site) == (value, False, False)
        parts = source_parts(number)
        assert parts.shape == (1,)
    (number,) = [each for each in written(lambda x, y: x @ SQUARE + 1, in_site=True) if each.op == "number"]
    assert number.in_site


def test_shapes_of_what_a_reader_did_not_make_stay_outside_of_it() -> None:
    tape, x = Tape(), torch.randn(3, 4)
    tape.mark_input(x)
    with torch.no_grad(), tape:
        ended = (x + 1).exp()
        tape.sites = ["0"]
        turned, inside = ended.T, ended.exp()
    assert (noted(turned).in_site, noted(inside).in_site) == (False, True)


def test_a_row_that_is_written_is_the_only_one_that_changes() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        stream = x + y
        stream[1] += y[0].exp()
        stream[:, 2:] = x[:, :2]
        return stream

    out, tape = record(work)
    node = tape.node_of(out)
    assert node is not None
    assert Route(node).ops[-1].name == "as_strided_scatter"
    parts = [Route(node).carry_all(each, source_parts(each)) for each in Route(node).sources]
    torch.testing.assert_close(sum(part.sum(0) for part in parts if part is not None), out)
    torch.testing.assert_close(recompute(node, {}), out)


def test_a_source_that_nothing_holds_any_more_may_be_changed_in_place() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        made = x.exp()
        for _ in range(2):
            made + y
            made.mul_(2)
        return made + y

    out, tape = record(work)
    node = tape.node_of(out)
    assert node is not None
    torch.testing.assert_close(recompute(node, {}), out)


def test_one_branch_alone_is_no_sum() -> None:
    out, _ = record(lambda x, y: torch.cat((x.exp() @ SQUARE,)))
    assert (noted(out).node, noted(out).op, noted(out).dynamic) == (None, "cat", True)


def test_a_list_of_integers_that_is_changed_is_not_recorded() -> None:
    def work(x: Tensor, y: Tensor) -> Tensor:
        rows = torch.tensor([0, 1, 2])
        rows[1] = 0
        return (x + y)[rows]

    out, tape = record(work)
    node = tape.node_of(out)
    assert node is not None
    torch.testing.assert_close(recompute(node, {}), out)


def test_what_is_noted_is_printed_without_what_it_was_computed_from() -> None:
    out, _ = record(lambda x, y: (x + y) * GATE)
    node, mark = op_of(out), noted(out)
    (source, *_) = Route(node).sources
    heads = HeadsOutput("0", out, 1, out, None)
    slots = [each for each in node.slots if isinstance(each, Slot)]
    for each in (node, mark, source, heads, *slots):
        assert repr(each).startswith("<headscope.")
        assert each != type(each)(**vars(each)), "two notes are the same only if they are one"
