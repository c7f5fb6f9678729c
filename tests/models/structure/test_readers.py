"""Writers and readers of a recorded pass are found by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.models import tiny
from tests.models.structure.test_carried_operations import BETA, GATE, SQUARE
from torch import Tensor

from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.structure.readers import (
    find_writer,
    has_own_norm,
    probed,
    writer_names,
)
from headscope.models.structure.tape import Node, Op, Tape

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


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
