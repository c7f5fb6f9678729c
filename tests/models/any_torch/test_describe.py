"""What is said of an opened module: its output, grids, widths, vocabulary, and what a user should know."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.models.any_torch.modules import WIDTH, Attention, Block, states
from tests.models.any_torch.whole_modules import misleading
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.any_torch.axes import HeadAxes
from headscope.models.any_torch.describe import (
    grid_of,
    items_mixed,
)
from headscope.models.any_torch.learning import LearnedSite, MatrixTake
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.loading import open_model
from headscope.models.structure.sites import logits_of

A, B, C = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
WHOLE = torch.ones(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (A, A),
        ((WHOLE, A, B), A),
        ({"whole": WHOLE, "states": A, "other": B}, A),
        ({"layers": [A, B]}, B),
        ({"layers": (A, B)}, B),
        ({"layers": [A, C]}, A),
        ({"layers": [A, WHOLE]}, A),
        (SimpleNamespace(layers=[A, B]), B),
        (SimpleNamespace(count=WHOLE, layers=[A, C]), A),
        ([[WHOLE], [B, A]], B),
        ({"deep": {"deeper": (A, B)}}, A),
    ],
)
def test_the_output_is_the_first_real_tensor_or_the_last_layer(output: Any, found: Tensor) -> None:
    assert torch.equal(logits_of(output), found)


@pytest.mark.parametrize(
    ("length", "made", "given", "grid"),
    [
        (12, [(3, 4)], None, (3, 4)),
        (13, [(3, 4)], None, (3, 4)),
        (20, [(3, 4)], None, (3, 4)),
        (21, [(3, 4)], None, None),
        (11, [(3, 4)], None, None),
        (12, [(3, 4), (2, 5)], None, (3, 4)),
        (12, [(2, 6), (3, 4)], None, (2, 6)),
        (12, [], None, None),
        (1, [(1, 1)], None, None),
        (2, [(1, 2)], None, (1, 2)),
        (12, [(3, 4)], (6, 2), (6, 2)),
        (12, [(3, 4)], (5, 5), None),
    ],
)
def test_a_site_has_the_grid_that_leaves_fewest_positions_over(length: int, made: Any, given: Any, grid: Any) -> None:
    assert grid_of(length, made, given) == grid


@pytest.fixture
def base() -> Iterator[AnyTorchModel]:
    x = torch.randn(2, 7, misleading.WIDTH)
    model = open_model(misleading.Base(), inputs=x)
    assert isinstance(model, AnyTorchModel)
    yield model
    model.close()


def take(index: int, parameter: Tensor) -> MatrixTake:
    none = torch.zeros(0, dtype=torch.long)
    return MatrixTake(index, parameter, None, parameter, none, none, none.view(0, 0))


def site(name: str, lead: tuple[int, int] = (2, 3), **more: Any) -> LearnedSite:
    more = {
        "layout": HeadAxes(("batch", "head"), 1),
        "takes": [take(ord(name[0]), torch.ones(2, 2))],
        "eager": False,
    } | more
    return LearnedSite(name, nn.Identity(), (*lead, 7, 8), **more)


def test_items_are_mixed_where_the_first_output_follows_another_item() -> None:
    for make, mixed in ((misleading.Base, False), (misleading.OverBatch, True)):
        torch.manual_seed(0)
        model = open_model(make(), inputs=torch.randn(3, 7, misleading.WIDTH))
        assert isinstance(model, AnyTorchModel)
        assert model.mixes_items is mixed
        own = model.own_output(model.probe).detach()
        assert items_mixed(model, own) is mixed
        assert not items_mixed(model, own[:2]), "its first axis is not that of the inputs"
        first = {name: value[:1] for name, value in model.probe.items()}
        model.probe = first
        assert not items_mixed(model, own[:1]), "there is one item"
        model.close()


class Column(nn.Module):
    """Reads ids by tables of its columns, of which the first is short, and predicts one number by position."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, WIDTH) for n in (4, 9))
        self.layer, self.out = Block(Attention()), nn.Linear(WIDTH, 3)

    def forward(self, row: Tensor) -> Tensor:
        cells = [self.tables[0](row[:, :1] % 4), self.tables[1](row[:, 1:])]
        return self.out(self.layer(torch.cat(cells, 1)))


@pytest.mark.parametrize(("highest", "rows"), [(3, 4), (4, None), (8, None)])
def test_a_table_that_is_too_short_for_the_ids_is_not_a_vocabulary(highest: int, rows: int | None) -> None:
    model = open_model(Column().eval(), inputs=torch.tensor([[0, highest, 1], [2, 1, 0]]))
    assert isinstance(model, AnyTorchModel)
    assert model.processor.vocabulary == rows
    model.close()


def test_states_without_ids_predict_no_tokens() -> None:
    model = open_model(Attention().eval(), inputs=states(2, 5))
    assert isinstance(model, AnyTorchModel)
    assert (model.shape.d_model, model.shape.vocabulary) == (WIDTH, None)
    with pytest.raises(ModelError, match="it predicts no tokens"):
        model.unembedding()
    model.close()
