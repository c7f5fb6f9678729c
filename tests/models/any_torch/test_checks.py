"""Sites whose numbers are not the module's own are given up, one by one or all together, with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headscope.attention import observe
from headscope.attention.masks import causal
from headscope.attention.observer import Call, plain
from headscope.attention.scores import Scores
from headscope.models.any_torch.axes import Layout
from headscope.models.any_torch.checks import (
    Findings,
    _ablation,
    _gap,
    _only,
    _parts_and_statistics,
    _parts_gap,
    _statistics_gap,
    _with_culprits_out,
    seeded,
)
from headscope.models.any_torch.function_mode import MatrixUse
from headscope.models.any_torch.markers import LearnedSite, MatrixTake


class Opened:
    """Sites and nothing to run."""

    def __init__(self, *names: str, **whys: str) -> None:
        self.learned = {
            name: LearnedSite(
                name, nn.Identity(), (2, 3, 4, 5), False, Layout(("batch", "head"), 1), why=whys.get(name, "")
            )
            for name in names
        }
        self.seen: list[dict[str, str]] = []

    def outputs(self, observer: Any, on_matrix: Any) -> Tensor:
        self.seen.append({name: site.why for name, site in self.learned.items()})
        return torch.ones(1)

    @property
    def whys(self) -> dict[str, str]:
        return {name: site.why for name, site in self.learned.items()}


def errors(**alone: float) -> Callable[[list[str]], float]:
    """The error of some sites: the largest of those that each has alone."""
    return lambda sites: max(alone[name] for name in sites)


def test_sites_that_are_right_together_are_kept() -> None:
    opened = Opened("a", "b", "c", b="given up before")
    tried: list[list[str]] = []

    def error_of(sites: list[str]) -> float:
        tried.append(sites)
        return 0.5

    assert _with_culprits_out(opened, 0.5, "wrong", error_of) == 0.5
    assert tried == [["a", "c"]]
    assert opened.whys == {"a": "", "b": "given up before", "c": ""}


@pytest.mark.parametrize("bad", [0.6, math.nan, math.inf])
def test_a_site_that_is_wrong_alone_is_given_up(bad: float) -> None:
    opened = Opened("a", "b", "c")
    worst = {"a": 0.1, "b": bad, "c": 0.5}

    def error_of(sites: list[str]) -> float:
        return bad if "b" in sites else max(worst[name] for name in sites)

    assert _with_culprits_out(opened, 0.5, "wrong", error_of) == 0.5
    assert opened.whys == {"a": "", "b": f"wrong (difference {bad:.1e})", "c": ""}


def test_sites_that_are_wrong_together_alone_are_all_given_up() -> None:
    opened = Opened("a", "b", "c")

    def error_of(sites: list[str]) -> float:
        return 0.7 if len(sites) > 1 else (0.9 if sites == ["c"] else 0.1)

    assert _with_culprits_out(opened, 0.5, "wrong", error_of) == 0.0
    together = "wrong (difference 7.0e-01 with all sites together)"
    assert opened.whys == {"a": together, "b": together, "c": "wrong (difference 9.0e-01)"}


def test_without_sites_there_is_no_error() -> None:
    assert _with_culprits_out(Opened("a", a="given up"), 0.5, "wrong", errors()) == 0.0
    opened = Opened("a")
    assert _with_culprits_out(opened, 0.5, "wrong", errors(a=0.6)) == 0.0
    assert opened.whys == {"a": "wrong (difference 6.0e-01)"}


def test_other_sites_are_set_aside_while_some_are_tried() -> None:
    opened = Opened("a", "b", "c", c="given up")
    _only(opened, ["b", "c"])
    assert opened.seen == [{"a": "-", "b": "", "c": "given up"}]
    assert opened.whys == {"a": "", "b": "", "c": "given up"}


def test_outputs_of_another_shape_differ_by_everything() -> None:
    assert _gap(torch.ones(2), torch.ones(3)) == math.inf
    assert _gap(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 4.0])) == 0.25


def findings(**more: Any) -> Findings:
    found = Findings(torch.ones(1, dtype=more.pop("dtype", torch.float32)), moved=more.pop("moved", 0.25))
    found.errors = {"outputs": 0.0, "parts": 0.0, "statistics": 0.0, "ablation": 0.0} | more
    return found


def test_findings_are_listed_with_their_limits() -> None:
    learned = Opened("a", "b", b="given up").learned
    checks = findings(outputs=1e-4, parts=1e-4, statistics=1e-3, ablation=1e-4).checks(learned)
    assert all(check.holds for check in checks)
    assert [check.detail for check in checks] == [
        "1 of 2",
        "largest difference 1.0e-04, at most 1e-04",
        "largest difference 1.0e-04, at most 1e-04",
        "largest difference 1.0e-03, at most 1e-03",
        "largest difference 1.0e-04, at most 1e-04",
        "by 2.5e-01 of its largest number",
    ]


@pytest.mark.parametrize("name", ["outputs", "parts", "statistics", "ablation"])
@pytest.mark.parametrize("error", [2e-3, math.nan])
def test_each_error_has_a_limit(name: str, error: float) -> None:
    wrong = [check.what for check in findings(**{name: error}).checks(Opened("a").learned) if not check.holds]
    assert len(wrong) == 1
    assert findings(dtype=torch.bfloat16, outputs=0.05).checks(Opened("a").learned)[1].holds


def test_a_model_needs_a_site_and_an_edit_that_moves_it() -> None:
    assert not findings().checks(Opened("a", a="given up").learned)[0].holds
    assert not findings(moved=0.0).checks(Opened("a").learned)[-1].holds


def test_a_site_that_the_probe_does_not_reach_again_is_given_up() -> None:
    opened = Opened("exact", "gated", "other", other="given up")
    opened.learned["gated"].kind = "head-local"
    found = findings()
    _parts_and_statistics(opened, found)
    assert opened.whys == {
        "exact": "its head parts do not add up to W_O's output (inf)",
        "gated": "its statistics differ from the dense pattern by inf",
        "other": "given up",
    }
    assert (found.errors["parts"], found.errors["statistics"]) == (0.0, 0.0)


class Attending(Opened):
    """One site of three heads and its W_O, which takes the channels backwards."""

    def __init__(self, kind: str = "exact") -> None:
        super().__init__("a")
        self.call = Call(nn.Identity(), *(torch.randn(2, 3, 4, 5) for _ in range(3)), Scores())
        self.weight = torch.randn(7, 15)
        order = torch.arange(15).flip(0)
        cells = torch.arange(120).view(2, 3, 4, 5).transpose(1, 2).reshape(8, 15)
        self.take = MatrixTake(0, self.weight.T, None, self.weight, torch.arange(8), order, cells, order)
        self.learned["a"].takes, self.learned["a"].kind = [self.take], kind  # type: ignore[assignment]
        self.zeroed: list[Tensor] = []

    def outputs(self, observer: Any, on_matrix: Any) -> Tensor:
        z = plain(self.call) if observer is None else observer("a", self.call)
        x = z.transpose(1, 2).flatten(2).flip(-1)
        use = MatrixUse(0, "linear", nn.functional.linear, (x, self.weight), {}, False)
        given = None if on_matrix is None else on_matrix(use)
        return nn.functional.linear(x, self.weight) if given is None else given


def test_parts_and_statistics_of_a_site_are_compared() -> None:
    opened, found = Attending(), findings()
    _parts_and_statistics(opened, found)
    assert opened.whys == {"a": ""}
    assert 0 < found.errors["parts"] < 1e-5
    assert found.errors["statistics"] < 1e-5
    opened.take.cells = opened.take.cells.flip(0)
    _parts_and_statistics(opened, found)
    assert opened.whys["a"].startswith("its head parts do not add up to W_O's output (")


def test_one_head_off_is_compared_with_its_rows_of_w_o_at_zero() -> None:
    opened = Attending()
    found = Findings(opened.outputs(None, None))
    assert _ablation(opened, ["a"], found) < 1e-5
    z = plain(opened.call)
    z[:, 1] = 0.0
    moved = _gap(nn.functional.linear(z.transpose(1, 2).flatten(2).flip(-1), opened.weight), found.own)
    assert found.moved == pytest.approx(moved)
    opened.take.order = torch.arange(15).roll(1)
    assert _ablation(opened, ["a"], found) > 1e-2


def test_mixed_heads_are_moved_all_together_and_not_compared() -> None:
    opened = Attending("mixed")
    found = Findings(opened.outputs(None, None))
    assert _ablation(opened, ["a"], found) == 0.0
    assert found.moved == pytest.approx(1.0)


def test_statistics_of_the_engine_equal_those_of_the_pattern() -> None:
    q, k = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    assert _statistics_gap(Call(nn.Identity(), q, k, k, Scores(mask=causal()))) < 1e-5
    bias = torch.zeros(1, 1, 4, 6)
    assert _statistics_gap(Call(nn.Identity(), q * 0, k, k, Scores(scale=0.0, bias=bias))) < 1e-5


class Turning:
    """A bias by key that is another one after so many blocks."""

    def __init__(self, first: Tensor, then: Tensor, after: int) -> None:
        self.first, self.then, self.after, self.blocks = first, then, after, 0

    def block(self, rows: Tensor, columns: Tensor, offset: int) -> Tensor:
        self.blocks += 1
        table = self.first if self.blocks <= self.after else self.then
        return table[columns].expand(1, 1, len(rows), len(columns)).clone()

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        return None

    def only(self, head: int) -> Turning:
        return self


KEYS = torch.linspace(-1, 1, 6)


@pytest.mark.parametrize(
    ("first", "gap"),
    [(KEYS + 0.5, 0.5 / (1 + float(KEYS.logsumexp(0)))), (KEYS.flip(0), None), (KEYS, 0.0)],
    ids=["all scores are higher", "other keys are attended to", "the same"],
)
def test_any_statistic_that_differs_is_a_gap(first: Tensor, gap: float | None) -> None:
    """Higher scores change the log-sum-exp alone; equal values and turned scores the distance alone."""
    q, k = torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 6, 5)
    counted = Turning(first, first, 0)
    observe(q, k, k, scores=Scores(scale=0.0, bias=counted), backend="blockwise")
    found = _statistics_gap(Call(nn.Identity(), q, k, k, Scores(scale=0.0, bias=Turning(first, KEYS, counted.blocks))))
    assert found > 0.1 if gap is None else found == pytest.approx(gap, abs=1e-5)


@pytest.mark.parametrize("bias", [None, torch.randn(7)])
def test_parts_are_z_through_w_o_with_what_else_the_matrix_takes(bias: Tensor | None) -> None:
    """z is three of the five channels, in two of the four rows."""
    x, weight, z = torch.randn(4, 5), torch.randn(7, 5), torch.randn(1, 1, 2, 3)
    rows, channels = torch.tensor([1, 3]), torch.tensor([4, 0, 2])
    x[rows[:, None], channels] = z[0, 0]
    take = MatrixTake(0, weight.T, bias, weight, rows, channels, torch.arange(6).view(2, 3))
    use = MatrixUse(0, "linear", nn.functional.linear, (x, weight, bias), {}, False)
    assert _parts_gap(use, take, z) < 1e-6
    assert _parts_gap(use, take, z * 1.1) > 1e-3
    assert _parts_gap(MatrixUse(0, "matmul", torch.matmul, (x, weight[0]), {}, False), take, z) == math.inf


def test_a_seeded_run_repeats_without_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    one, other = (seeded(lambda: torch.rand(2) * weight) for _ in range(2))
    assert torch.equal(one, other)
    assert not one.requires_grad
