"""W_O is found by following z: plain, gated, normed, mixed, transposed and quantised, each in a small module."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers.pytorch_utils import Conv1D

from headscope.errors import ModelError
from headscope.models.huggingface.attention import attention
from headscope.models.structure.trace import trace
from headscope.models.structure.weights import (
    LOCAL,
    MIXED,
    NO_MATRIX,
    SEVERAL,
    OutputPath,
    find_output_paths,
    weight_and_bias,
    weight_by_head,
)

HEADS, D_HEAD, WIDTH = 3, 4, 12


class Site(nn.Module):
    """Attention with a given computation between z and W_O."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout()
        self.by_head, self.whole, self.post_norm = nn.LayerNorm(D_HEAD), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, D_HEAD).permute(2, 0, 3, 1, 4)
        z, _ = attention(self, q, k, v, None)
        flat = z.flatten(2)
        if self.way == "plain":
            return self.out(flat)
        if self.way == "gated":
            return self.out(flat * self.gate(x).sigmoid())
        if self.way.startswith("gated"):
            made = flat * self.gate(input=x).sigmoid()
            rows = made.flatten(0, 1)
            given = {
                "gated by keyword": made,
                "gated, flat": rows,
                "gated, rows": rows[:8],
                "gated, apart": rows[:, None],
            }
            return self.out(given[self.way]).sum().expand(*x.shape[:2], WIDTH)
        if self.way == "dropout":
            return self.dropout(self.out(flat))
        if self.way == "one position":
            return self.out(flat[:, -1:].clone())
        if self.way == "more positions":
            return self.out(torch.cat((flat, x), 1))[:, :6]
        if self.way == "normed by head":
            return self.out(self.by_head(z).flatten(2))
        if self.way == "normed over all":
            return self.out(self.whole(flat))
        if self.way == "query first":
            return self.out(flat.transpose(0, 1).contiguous()).transpose(0, 1)
        if self.way == "changed in place":
            return self.out(flat.mul_(2.0))
        if self.way in ("the first reads the last", "the last reads the first"):
            first, middle, last = z.unbind(2)
            heads = (first * last, middle, last) if self.way.startswith("the first") else (first, middle, last * first)
            return self.out(torch.cat(heads, -1))
        if self.way == "post-norm":
            return self.post_norm(self.out(flat))
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


def found(way: str) -> tuple[Model, OutputPath]:
    torch.manual_seed(0)
    model = Model(way).eval()
    inputs = {"x": torch.randn(2, 6, 5)}
    traced = trace(model, inputs)
    assert [call.path for call in traced.calls] == ["site"]
    (path,) = find_output_paths(traced)
    return model, path


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("plain", OutputPath("site.out", "exact")),
        ("gated", OutputPath("site.out", "head-local", LOCAL)),
        ("gated by keyword", OutputPath("site.out", "head-local", LOCAL)),
        ("gated, flat", OutputPath("site.out", "head-local", LOCAL)),
        ("gated, rows", OutputPath("site.out", "head-local", LOCAL, "other")),
        ("gated, apart", OutputPath("site.out", "head-local", LOCAL, "other")),
        ("dropout", OutputPath("site.out", "exact")),
        ("one position", OutputPath("site.out", "exact", SEVERAL, "other")),
        ("more positions", OutputPath("site.out", "exact")),
        ("normed by head", OutputPath("site.out", "head-local", LOCAL)),
        ("normed over all", OutputPath("site.out", "mixed", MIXED)),
        ("query first", OutputPath("site.out", "exact", "", "query first")),
        ("the first reads the last", OutputPath("site.out", "mixed", MIXED)),
        ("the last reads the first", OutputPath("site.out", "mixed", MIXED)),
        ("changed in place", OutputPath("site.out", "head-local", LOCAL)),
        ("post-norm", OutputPath("site.out", "exact")),
    ],
)
def test_what_lies_between_z_and_w_o_is_found(way: str, expected: OutputPath) -> None:
    _, path = found(way)
    assert path == expected


@pytest.mark.parametrize("way", ["no matrix", "two stages"])
def test_without_a_matrix_that_takes_the_heads_side_by_side_there_is_no_w_o(way: str) -> None:
    _, path = found(way)
    assert path == OutputPath(None, "mixed", NO_MATRIX)


def test_a_matrix_is_split_into_the_rows_of_each_head() -> None:
    model, path = found("post-norm")
    weight = weight_by_head(model, path, HEADS, "0")
    for head in range(HEADS):
        assert torch.equal(weight.weight[head], model.site.out.weight[:, head * D_HEAD : (head + 1) * D_HEAD].T)
    assert weight.bias is model.site.out.bias
    with pytest.raises(ModelError, match="0: W_O has 12 inputs, not a multiple of 5 heads"):
        weight_by_head(model, path, 5, "0")


class Quantised(nn.Module):
    """A weight that is stored in another form: only its outputs show it."""

    def __init__(self, rounds: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = 6, 4
        self.stored, self.rounds = nn.Parameter(torch.randn(4, 6)), rounds
        self.shift = torch.randn(4) if bias else torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        return (x.round() if self.rounds else x) @ self.stored.T * 0.5 + self.shift


def test_a_matrix_is_read_from_its_parameters_or_its_outputs() -> None:
    linear, conv, quantised = nn.Linear(6, 4), Conv1D(4, 6), Quantised()
    for matrix in (linear, conv, quantised, nn.Linear(6, 4, bias=False), Quantised(bias=False)):
        weight, bias = weight_and_bias(matrix, "0")
        x = torch.randn(3, 6)
        assert_close(x @ weight + (0 if bias is None else bias), matrix(x), atol=1e-5, rtol=1e-5)
    assert weight_and_bias(Quantised(bias=False), "0")[1] is None
    assert weight_and_bias(linear, "0")[0].data_ptr() == linear.weight.data_ptr(), "not a copy"


def test_what_is_not_linear_is_refused() -> None:
    with pytest.raises(ModelError, match="2: its Quantised quantises its input, so it is not linear"):
        weight_and_bias(Quantised(rounds=True), "2")
    with torch.device("meta"):
        offloaded = nn.Linear(6, 4)
    with pytest.raises(ModelError, match="2: its weights are offloaded"):
        weight_and_bias(offloaded, "2")


class Twice(nn.Module):
    """A site that attends twice, of which the second call goes through no matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site("normed by head")

    def forward(self, x: Tensor) -> Tensor:
        first = self.site(x)
        self.site.way = "no matrix"
        second = self.site(first)
        self.site.way = "normed by head"
        return first + second
