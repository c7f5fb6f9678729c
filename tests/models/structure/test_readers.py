"""Where a site reads the stream: what enters it, the stream before its norm, and what writers have become there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.models import tiny
from tests.models.structure.test_carried_operations import BETA, GAIN, GATE, SQUARE
from tests.models.structure.test_carry import heads_output
from torch import Tensor

from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import (
    before_norm,
    carried_part,
    entries,
    find_writer,
    has_own_norm,
    probed,
    read_again,
    reader_inputs,
    value_of,
    writer_names,
)
from headscope.models.structure.tape import Node, Op, Tape, mark_of
from headscope.models.structure.writers import Writer

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def own_norm(x: Tensor) -> Tensor:
    """A norm of several operations, as most families write it."""
    return x * x.square().mean(-1, keepdim=True).rsqrt() * GAIN


def gated(x: Tensor) -> Tensor:
    return x * GATE + x.exp()


class Reader:
    """A stream of two inputs, something in a module ``norm``, and a reader's matrix."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        self.tape, self.x, self.y = Tape(), X.clone(), X.flip(0)
        for each in (self.x, self.y):
            self.tape.mark_input(each)
        with torch.no_grad(), self.tape:
            self.stream = self.x + self.y
            self.tape.stack = ["norm"]
            self.normed = norm(self.stream)
            self.tape.stack, self.tape.sites = ["attn"], ["0"]
            self.q = torch.addmm(BETA, self.normed, SQUARE)

    def node(self, value: Tensor) -> Node:
        node = self.tape.node_of(value)
        assert node is not None
        return node


@pytest.mark.parametrize("norm", [lambda x: torch.layer_norm(x, (4,), GAIN, BETA), own_norm], ids=["layer", "own"])
def test_a_reader_reads_the_stream_before_its_norm(norm: Callable[[Tensor], Tensor]) -> None:
    made = Reader(norm)
    q, normed, stream = (made.node(each) for each in (made.q, made.normed, made.stream))
    assert entries(q) == [normed], "its own bias is nothing that enters it"
    assert before_norm(normed) is stream
    assert reader_inputs(q, own_norm=True) == [stream]
    assert reader_inputs(q, own_norm=False) == [normed]


def test_what_is_computed_from_several_nodes_is_no_norm_of_one() -> None:
    made = Reader(gated)
    normed = made.node(made.normed)
    assert before_norm(normed) is normed
    source = next(node for node in entries(made.node(made.stream)) if node)
    assert entries(made.node(made.stream)) == [source] == [made.node(made.stream)]


def test_a_source_has_no_norm_before_it() -> None:
    source = heads_output(None)
    assert before_norm(source) is source
    assert entries(source) == [source]


def test_what_does_not_depend_on_the_text_enters_no_reader() -> None:
    made = Reader(lambda x: x + GATE)
    with torch.no_grad(), made.tape:
        made.tape.stack, made.tape.sites = ["attn"], ["0"]
        q = made.normed @ SQUARE + GATE
        rotated = q + q.flip(-1)
    assert entries(made.node(q)) == [made.node(made.normed)]
    assert entries(made.node(rotated)) == [made.node(made.normed)], "once, by whichever way"


def test_the_value_of_a_node_is_the_models_own_tensor_while_it_is_unchanged() -> None:
    made = Reader(own_norm)
    node, before = made.node(made.stream), made.stream.clone()
    assert value_of(node) is made.stream
    with torch.no_grad(), made.tape:
        made.stream.mul_(2)
    assert made.node(made.stream) is not node
    torch.testing.assert_close(value_of(node), before)
    del made.stream
    torch.testing.assert_close(value_of(node), before)
    torch.testing.assert_close(value_of(heads_output(BETA)), value_of(heads_output(None)) + BETA)


def test_a_reader_reads_again_what_has_changed_before_its_norm() -> None:
    made = Reader(own_norm)
    new = torch.randn(3, 4)
    found = read_again(made.node(made.q), {made.node(made.stream): new})
    torch.testing.assert_close(found, torch.addmm(BETA, own_norm(new), SQUARE))
    assert not found.requires_grad


@pytest.mark.parametrize("part", [None, 0, 2, -1])
def test_a_part_of_a_writer_is_its_source_a_head_or_the_bias(part: int | None) -> None:
    source = heads_output(BETA)
    heads = source.heads
    assert heads is not None
    each = [heads.x[..., 2 * head : 2 * head + 2] @ heads.weight[head] for head in range(3)]
    found = carried_part(Writer("w", "head", ((source, part),)), source)
    expected = each[0] if part is None else BETA.expand(1, 5, 4) if part < 0 else each[part]
    torch.testing.assert_close(found, expected)


def test_parts_of_several_sources_are_added_and_those_that_do_not_arrive_left_out() -> None:
    made = Reader(lambda x: 3 * x)
    target, elsewhere = made.node(made.normed), heads_output(None)
    sources = (Route(target).sources[0], elsewhere, Route(target).sources[1])
    writer = Writer("w", "mlp", tuple((source, None) for source in sources))
    torch.testing.assert_close(carried_part(writer, target), 3 * (made.x + made.y))
    with pytest.raises(ModelError, match="nobody does not reach this reader"):
        carried_part(Writer("nobody", "mlp", ((elsewhere, 0),)), target)


def test_writers_are_found_by_name_and_the_opening_pass_is_recorded_once() -> None:
    model = open_model(tiny.gpt2())
    stream = probed(model)
    assert probed(model) is stream
    node = stream.node("1", "k")
    assert sorted(writer_names(stream, "1", "k")) == [
        "0.0", "0.1", "0.2", "0.3", "bias", "bias 0", "embedding", "mlp 0", "position embedding",
    ]  # fmt: skip
    found = find_writer(stream, node, "0.2")
    assert found is not None
    assert (found.name, found.kind) == ("0.2", "head")
    assert find_writer(stream, node, "1.0") is None
    assert has_own_norm(model, "1", "q")
    assert isinstance(stream.node("1", "q"), Op)
    with pytest.raises(ModelError, match=r"^7 is not reached by the inputs that the model was opened with"):
        has_own_norm(model, "7", "q")
    model.close()


def test_a_norm_on_the_stream_is_not_the_readers_own() -> None:
    model = open_model(tiny.opt())
    assert not has_own_norm(model, "1", "q")
    model.close()


def test_a_changed_tensor_has_another_mark() -> None:
    made = Reader(own_norm)
    before = mark_of(made.stream)
    with torch.no_grad(), made.tape:
        made.stream.add_(1)
    assert mark_of(made.stream) is not before
