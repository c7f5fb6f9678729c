"""What people from other tools type: heads as strings or pairs, all patterns of a layer, tables, edits by function."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch
from torch import Tensor

import headscope
from headscope import Head, ablate, knock_out, scale
from headscope.attention.observer import Call
from headscope.errors import HeadNameError, InputError
from headscope.scope import Scope


@pytest.mark.parametrize("head", ["1.2", (1, 2), ("1", 2), Head("1", 2)])
def test_a_head_is_named_in_any_of_three_ways(scope: Scope, ids: list[int], head: headscope.names.HeadName) -> None:
    look = scope.look(ids)
    expected = look.patterns("1")[2]
    torch.testing.assert_close(look.pattern(head), expected)
    torch.testing.assert_close(look.weights(head, slice(0, 4)), expected[:4])
    for edit in (ablate(head), scale(head, 0.0), scale([head], 0.0)):
        with scope.edit(edit):
            assert scope.look(ids).z("1")[2].abs().max() == 0
    with scope.edit(knock_out(head, query=4, key=1)):
        assert scope.look(ids).key == f"knock_out({head};4;1)"


def test_patterns_of_a_layer_by_its_number_or_name(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    every = look.patterns(1)
    assert every.shape == (look.shape.sites["1"].n_heads, len(ids), len(ids))
    torch.testing.assert_close(every.sum(-1), torch.ones(every.shape[:2]))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda look: look.pattern(1, 2),
            r'pattern\(1, 2\): give one head, as in pattern\("3\.5"\) or pattern\(\(3, 5\)\)',
        ),
        (lambda look: look.pattern("1.2", slice(3)), r"a part of one pattern is weights\(head, rows, columns\)"),
        (lambda look: look.pattern(1), r'1 is not a head name.*in Python "5\.1" or \(5, 1\)'),
        (lambda look: look.patterns("9"), "there is no site 9: this model has layers 0–"),
    ],
)
def test_a_wrong_call_says_what_to_write(scope: Scope, ids: list[int], call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(HeadNameError, match=said):
        call(scope.look(ids))


def test_single_numbers_as_rows_and_columns_say_what_to_write(scope: Scope, ids: list[int]) -> None:
    with pytest.raises(InputError, match=r'weights\(.1\.2., 0, 3\).*pattern\("1\.2"\)\[query, key\].*slice\(0, 3\)'):
        scope.look(ids).weights("1.2", 0, 3)


def test_many_patterns_are_refused_by_their_size(scope: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.heads.look.look.LARGEST_PATTERN", len(ids) ** 2)
    look = scope.look(ids)
    look.pattern("1.0")
    n_heads = look.shape.sites["1"].n_heads
    with pytest.raises(
        InputError, match=f"a pattern of site 1 has {n_heads}×23×23 cells; read a part of it with weights"
    ):
        look.patterns("1")


def test_the_table_has_a_row_per_head_and_statistic(scope: Scope, ids: list[int]) -> None:
    look = scope.look([*ids, *ids])
    table = look.table()
    assert isinstance(table, pa.Table)
    assert table.column_names == ["head", "site", "index", "statistic", "mean"]
    found = {(row["head"], row["statistic"]): row["mean"] for row in table.to_pylist()}
    statistics = {name for _, name in found}
    assert statistics == {"entropy", "distance", "distance_std", "strongest", *look.mean_answers("1")}
    assert len(found) == table.num_rows == look.shape.n_heads * len(statistics)
    pattern = look.pattern("1.2").double()[1:]  # the first row has one key
    positions = torch.arange(len(look.tokens), dtype=torch.float64)
    away = positions[1:, None] - positions
    entropy = -(pattern * pattern.clamp(min=1e-300).log()).sum(-1).mean()
    assert found["1.2", "entropy"] == pytest.approx(float(entropy), abs=1e-4)
    assert found["1.2", "distance"] == pytest.approx(float((pattern * away).sum(-1).mean()), abs=1e-3)
    assert found["1.2", "strongest"] == pytest.approx(float(pattern.amax(-1).mean()), abs=1e-5)
    assert found["1.2", "previous"] == pytest.approx(float(pattern.diagonal().mean()), abs=1e-5)


def test_a_function_of_z_is_an_edit(scope: Scope, ids: list[int]) -> None:
    def halve(site: str, call: Call, z: Tensor) -> Tensor:
        return z * 0.5 if site == "1" else z

    heads = [(1, index) for index in range(scope.shape.sites["1"].n_heads)]
    with scope.edit(scale(heads, 0.5)):
        expected = scope.look(ids).logits
    with scope.edit(halve):
        found = scope.look(ids)
        assert found.key
        torch.testing.assert_close(found.logits, expected)
        assert scope.generate(ids, 2).tokens
