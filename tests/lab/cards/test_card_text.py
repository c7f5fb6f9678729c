"""Cards in a terminal: every printed number is the card's."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headscope.lab.cards.card import Card, _make_card, built_in, card, from_sizes, head_sizes, notes
from headscope.lab.cards.card_text import _big, _side_by_side, render, render_head_sizes, show, size


def printed(*what: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    for each in what:
        console.print(each)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def line(text: str, name: str) -> str:
    """The line that begins with this name, its spaces folded."""
    (found,) = [" ".join(each.split()) for each in text.splitlines() if each.strip().startswith(name + "  ")]
    return found


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (100 * 2**10, "100 KiB"),
        (2**20 * 5 // 2, "2.5 MiB"), (16 * 2**30, "16 GiB"), (2**40 * 3, "3 TiB"), (2**50, "1024 TiB"),
    ],
)  # fmt: skip
def test_formatted_bytes(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "not known"), (0, "0"), (999, "999"), (1000, "1.00 k"), (124_439_808, "124 M"), (8.03e9, "8.03 B"),
     (1.75e11, "175 B"), (1.5e12, "1.50 T")],
)  # fmt: skip
def test_formatted_counts(count: float | None, said: str) -> None:
    assert _big(count) == said


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


def test_shares_of_parameters_are_of_what_was_counted() -> None:
    each = card("gpt2")
    text = printed(render(each)).split("Where the parameters are")[1].split("Work for")[0]
    total = sum(each.parameters.parts.values())
    for part, count in each.parameters.parts.items():
        assert line(text, part).endswith(f"{_big(count)} {100 * count / total:.1f} %")


def test_without_a_length_the_context_of_the_model_is_taken() -> None:
    assert "KV cache at 1,024" in printed(render(card("gpt2")))
    assert "KV cache at 8,192" in printed(render(from_sizes(64, 4)))
    assert "KV cache at 0" in printed(render(card("gpt2"), 0))


def test_side_by_side_each_card_is_a_column_in_order() -> None:
    cards = [card("gpt2"), card("llama-3.1-8b"), _make_card({"n_head": 2, "n_embd": 8, "n_layer": 1}, "mine")]
    text = printed(_side_by_side(cards))
    assert line(text, "d_model") == "d_model 768 4096 8"
    assert line(text, "KV heads") == "KV heads 12 MHA 8 GQA 2 MHA"
    assert line(text, "parameters") == "parameters 124 M 8.03 B not known"
    cached = " ".join(size(each.kv_bytes(8192)) for each in cards)
    assert line(text, "KV cache at 8,192, fp16") == f"KV cache at 8,192, fp16 {cached}"


def test_one_is_shown_in_full_and_several_side_by_side() -> None:
    def shown(cards: list[Card]) -> str:
        console = Console(file=io.StringIO(), width=160)
        show(cards, 100, console)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    assert "Where the parameters are" in shown([card("gpt2")])
    assert "after 100" in " ".join(shown([card("gpt2")]).split())
    assert "Where the parameters are" not in shown([card("gpt2"), card("gpt2")])


def test_head_sizes_name_five_models_and_count_all() -> None:
    text = printed(render_head_sizes())
    found = head_sizes()
    assert sum(len(names) for names in found.values()) == len(built_in())
    counts = [len(names) for names in found.values()]
    assert counts == sorted(counts, reverse=True)
    for d_head, names in found.items():
        (row,) = [each.split() for each in text.splitlines() if each.split()[:1] == [str(d_head)]]
        assert row[1] == str(len(names))
        assert ("…" in row) == (len(names) > 5)
        assert row[2].rstrip(",") == names[0]
