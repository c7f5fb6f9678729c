"""Cards in a terminal: every printed number is the card's."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headscope.lab.cards.card import Card, card, notes
from headscope.lab.cards.card_text import _big, render, show, size


def printed(*what: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    for each in what:
        console.print(each)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def line(text: str, name: str) -> str:
    """The line that begins with this name, its spaces folded."""
    (found,) = [" ".join(each.split()) for each in text.splitlines() if each.strip().startswith(name + "  ")]
    return found


@given(st.integers(1, 2**55))
def test_formatted_bytes_are_within_five_percent(count: int) -> None:
    number, unit = size(count).split()
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    assert float(number) * factor == pytest.approx(count, rel=0.05)


@given(st.integers(1, 10**15))
def test_formatted_counts_are_within_one_percent(count: int) -> None:
    number, _, unit = _big(count).partition(" ")
    assert float(number) * {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[unit] == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize("name", ["gpt2", "phi-4-mini", "deepseek-v3", "gemma-3-27b", "falcon-7b"])
def test_one_card_in_full(name: str) -> None:
    each = card(name)
    text, model = printed(render(each, 1000)), each.model
    assert text.splitlines()[0].strip() == each.title
    assert line(text, "layers") == f"layers {model.n_layers}"
    assert line(text, "heads × layers").endswith(f"= {each.heads_in_all:,}")
    assert line(text, "KV cache at 1,000") == (
        f"KV cache at 1,000 {size(each.kv_bytes(1000))} in fp16, {size(each.kv_bytes(1000, 'fp8'))} in fp8"
    )
    kind = {"MHA": "every head has its own", "MQA": "all share one", "MLA": "one latent vector for all"}
    shared = kind.get(model.kind, f"{model.n_heads // model.n_kv_heads} heads share one")
    assert line(text, "KV heads per layer").endswith(f"{model.n_kv_heads} {model.kind}: {shared}")
    assert "Work for the next token after 1,000" in " ".join(text.split())
    assert f"source: {each.source}" in " ".join(text.split())
    assert text.count("– ") >= len(notes(each))


def test_one_is_shown_in_full_and_several_side_by_side() -> None:
    def shown(cards: list[Card]) -> str:
        console = Console(file=io.StringIO(), width=160)
        show(cards, 100, console)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    assert "Where the parameters are" in shown([card("gpt2")])
    assert "after 100" in " ".join(shown([card("gpt2")]).split())
    assert "Where the parameters are" not in shown([card("gpt2"), card("gpt2")])
