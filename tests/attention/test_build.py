"""``headscope learn build``: its numbers are right, and a failed check fails the command."""

from __future__ import annotations

import pytest
import torch

from headscope.attention import build as building
from headscope.attention.build import build
from headscope.attention.module import MultiHeadAttention
from headscope.errors import ShapeError


def test_twelve_heads_of_64_make_768(capsys: pytest.CaptureFixture[str]) -> None:
    assert build(768, 12) == 0
    shown = capsys.readouterr().out
    for line in (
        "12 heads of 64 in a model 768 wide",
        "W_Q, W_K, W_V   768 × 64",
        "split: q        2 × 12 × 6 × 64     768 = 12 heads × 64",
        "concatenate     2 × 6 × 768         12 × 64 side by side = 768",
        "W_O             768 × 768",
        "output          2 × 6 × 768         shape in = shape out",
        "All checks pass.",
    ):
        assert line in shown
    assert shown.count("✓") == 7
    assert "✗" not in shown


def test_grouped_heads_share_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert build(128, 8, 2) == 0
    assert "split: k, v     2 × 2 × 6 × 16      each shared by 4 heads" in capsys.readouterr().out


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="d_model=100 does not divide into n_heads=12"):
        build(100, 12)


def test_the_printed_pattern_is_the_first_heads(capsys: pytest.CaptureFixture[str]) -> None:
    """Every printed number is the softmax of q · k, computed from the module's own matrices."""
    build(12, 3)
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "its pattern on the first text" in line)
    printed = [
        [float(word) for word in line.split()[-building.TOKENS :]] for line in lines[at + 1 : at + 1 + building.TOKENS]
    ]
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 3)
    x = torch.randn(building.TEXTS, building.TOKENS, 12)[0]
    with torch.no_grad():
        q, k = (x @ linear.weight[:4].T for linear in (module.q_proj, module.k_proj))
        masked = torch.ones(building.TOKENS, building.TOKENS, dtype=torch.bool).triu(1)
        expected = (q @ k.T / 2).masked_fill(masked, float("-inf")).softmax(-1)
    torch.testing.assert_close(torch.tensor(printed), expected, atol=0.0051, rtol=0)
