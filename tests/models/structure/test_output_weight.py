"""W_O found by following z: plain, gated, normed, mixed, turned and packed, each in a module small enough to read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers.pytorch_utils import Conv1D

from headscope.errors import ModelError
from headscope.models.huggingface.attention import attention
from headscope.models.structure.output_weight import (
    LOCAL,
    MIXED,
    NO_MATRIX,
    OutputPath,
    follow,
    rows_by_head,
    weight_and_bias,
    weight_by_head,
)
from headscope.models.structure.trace import is_matrix, trace

HEADS, D_HEAD, WIDTH = 3, 4, 12


class Site(nn.Module):
    """Attention whose way from z to W_O is given."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.by_head, self.whole, self.after = nn.LayerNorm(D_HEAD), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, D_HEAD).permute(2, 0, 3, 1, 4)
        z, _ = attention(self, q, k, v, None)
        flat = z.flatten(2)
        if self.way == "plain":
            return self.out(flat)
        if self.way == "gated":
            return self.out(flat * self.gate(x).sigmoid())
        if self.way == "normed by head":
            return self.out(self.by_head(z).flatten(2))
        if self.way == "normed over all":
            return self.out(self.whole(flat))
        if self.way == "turned":
            return self.out(flat.transpose(0, 1).contiguous()).transpose(0, 1)
        if self.way == "changed in place":
            return self.out(flat.mul_(2.0))
        if self.way in ("the first reads the last", "the last reads the first"):
            first, middle, last = z.unbind(2)
            heads = (first * last, middle, last) if self.way.startswith("the first") else (first, middle, last * first)
            return self.out(torch.cat(heads, -1))
        if self.way == "norm after":
            return self.after(self.out(flat))
        if self.way == "two stages":
            return self.out(flat[..., :8] @ self.out.weight[:8, :])
        return flat @ self.out.weight


class Model(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.embed, self.site = nn.Linear(5, WIDTH), Site(way)

    def forward(self, x: Tensor) -> Tensor:
        states = self.embed(x)
        return states + self.site(states)


def followed(way: str) -> tuple[Model, OutputPath]:
    torch.manual_seed(0)
    model = Model(way).eval()
    inputs = {"x": torch.randn(2, 6, 5)}
    seen = trace(model, inputs)
    assert [visit.path for visit in seen.visits] == ["site"]
    (how,) = follow(model, seen, inputs, {})
    return model, how


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("plain", OutputPath("site.out", "exact", direct=True)),
        ("gated", OutputPath("site.out", "head-local", LOCAL)),
        ("normed by head", OutputPath("site.out", "head-local", LOCAL)),
        ("normed over all", OutputPath("site.out", "mixed", MIXED)),
        ("turned", OutputPath("site.out", "exact", "", "turned")),
        ("the first reads the last", OutputPath("site.out", "mixed", MIXED)),
        ("the last reads the first", OutputPath("site.out", "mixed", MIXED)),
        ("two stages", OutputPath("site.out", "mixed", MIXED)),
        ("changed in place", OutputPath("site.out", "head-local", LOCAL)),
        ("norm after", OutputPath("site.out", "exact", after="site.after", direct=True)),
    ],
)
def test_the_way_of_z_is_told(way: str, expected: OutputPath) -> None:
    _, how = followed(way)
    assert how == expected


def test_where_no_matrix_takes_the_heads_side_by_side_that_is_said() -> None:
    _, how = followed("no matrix")
    assert how == OutputPath(None, "mixed", NO_MATRIX)


def test_following_leaves_no_hooks_behind() -> None:
    model, _ = followed("gated")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_matrix_is_cut_into_the_rows_of_each_head() -> None:
    model, how = followed("norm after")
    found = weight_by_head(model, how, HEADS, "0")
    for head in range(HEADS):
        assert torch.equal(found.weight[head], model.site.out.weight[:, head * D_HEAD : (head + 1) * D_HEAD].T)
    assert found.bias is model.site.out.bias
    assert found.after is model.site.after
    with pytest.raises(ModelError, match="0: W_O takes 12 numbers, which 5 heads do not share evenly"):
        weight_by_head(model, how, 5, "0")


class Packed(nn.Module):
    """A weight that is kept in another form: only what it does can be seen."""

    def __init__(self, rounds: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = 6, 4
        self.packed, self.rounds = nn.Parameter(torch.randn(4, 6)), rounds
        self.shift = torch.randn(4) if bias else torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        return (x.round() if self.rounds else x) @ self.packed.T * 0.5 + self.shift


def test_a_matrix_is_read_from_its_parameters_or_from_what_it_does() -> None:
    linear, conv, packed = nn.Linear(6, 4), Conv1D(4, 6), Packed()
    for matrix in (linear, conv, packed, nn.Linear(6, 4, bias=False), Packed(bias=False)):
        weight, bias = weight_and_bias(matrix, "0")
        x = torch.randn(3, 6)
        assert_close(x @ weight + (0 if bias is None else bias), matrix(x), atol=1e-5, rtol=1e-5)
    assert weight_and_bias(Packed(bias=False), "0")[1] is None
    assert weight_and_bias(linear, "0")[0].data_ptr() == linear.weight.data_ptr(), "not a copy"


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ModelError, match="2: its Packed rounds what it reads, so it is no matrix"):
        weight_and_bias(Packed(rounds=True), "2")
    with torch.device("meta"):
        elsewhere = nn.Linear(6, 4)
    with pytest.raises(ModelError, match="2: its weights are offloaded"):
        weight_and_bias(elsewhere, "2")


def test_who_counts_as_a_matrix() -> None:
    assert all(map(is_matrix, (nn.Linear(2, 2), Conv1D(2, 2), Packed())))
    assert not any(map(is_matrix, (nn.LayerNorm(2), nn.Embedding(2, 2), nn.Conv1d(2, 2, 1))))


def test_rows_of_an_input_are_given_as_z_has_them() -> None:
    z = torch.randn(2, 5, 3, 4)
    flat = z.flatten(2)
    assert torch.equal(rows_by_head(flat, z, "as z"), flat)
    assert torch.equal(rows_by_head(flat.flatten(0, 1), z, "as z"), flat)
    assert torch.equal(rows_by_head(flat.transpose(0, 1), z, "turned"), flat)
    own: Any = flat.reshape(10, 12)
    assert rows_by_head(own, z, "own").shape == (1, 10, 12)
    assert rows_by_head(torch.randn(2, 3, 5, 12), z, "own").shape == (2, 15, 12)
