"""``python -m headscope.attention``: what it shows is so, and a failed check fails the command."""

from __future__ import annotations

import pytest
import torch

from headscope.attention import __main__ as build
from headscope.attention.module import MultiHeadAttention


def test_twelve_heads_of_64_make_768(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 0
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
    assert build.main(["--d-model", "128", "--heads", "8", "--kv-heads", "2"]) == 0
    assert "split: k, v     2 × 2 × 6 × 16      each shared by 4 heads" in capsys.readouterr().out


def test_sizes_that_do_not_fit_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--d-model", "100", "--heads", "12"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: d_model=100 does not divide into n_heads=12")
    assert error.count("\n") == 1


def test_a_check_that_fails_is_shown_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = MultiHeadAttention.patterns
    monkeypatch.setattr(MultiHeadAttention, "patterns", lambda *given, **named: wrong(*given, **named) * 2)
    assert build.main(["--d-model", "8", "--heads", "2"]) == 1
    assert "✗ every row of every pattern sums to 1" in capsys.readouterr().out


def test_it_leaves_gradients_switched_on() -> None:
    build.main(["--d-model", "8", "--heads", "2"])
    assert torch.is_grad_enabled()
