"""Cards with another number of heads: what changes with it, and what is refused."""

from __future__ import annotations

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.cards.card import card


def test_changing_heads() -> None:
    llama = card("llama-3.1-8b")
    shared = llama.change(n_kv_heads=1)
    assert shared.model.kind == "MQA"
    assert shared.kv_bytes(1) * 8 == llama.kv_bytes(1)
    wide = llama.change(n_heads=16)
    assert (wide.model.d_head, wide.model.n_kv_heads) == (256, 4)
    assert wide.parameters.total == llama.parameters.total
    for name in ("gpt2", "falcon-7b", "falcon-40b", "phi-4-mini"):
        same = card(name)
        again = same.change(n_kv_heads=same.model.n_kv_heads)
        assert again.model.n_kv_heads == same.model.n_kv_heads
        assert again.kv_bytes(1) == same.kv_bytes(1)
    with pytest.raises(InputError, match="a width of 4096 does not divide into 33 heads"):
        llama.change(n_heads=33)
    with pytest.raises(InputError, match="32 heads cannot share 5 KV heads evenly; use a divisor of 32"):
        llama.change(n_kv_heads=5)
    with pytest.raises(InputError, match="MLA caches one latent vector"):
        card("deepseek-v3").change(n_kv_heads=8)


@pytest.mark.parametrize("name", ["gpt2", "llama-3.1-8b", "falcon-7b", "gemma-3-27b", "deepseek-v3"])
def test_a_choice_of_heads_is_what_choosing_it_gives(name: str) -> None:
    """The table of choices and the changed card agree."""
    whole = card(name)
    choices = whole.head_choices()
    width = whole.model.n_heads * whole.model.d_head
    asked = [whole.model.n_heads * times // 4 for times in (1, 2, 4, 8, 16)]
    fits = [count for count in asked if whole.model.latent is not None or width % count == 0]
    assert [choice["n_heads"] for choice in choices] == fits, "from a quarter to four times as many"
    assert {"n_heads": whole.model.n_heads, "d_head": whole.model.d_head} in choices
    for choice in choices:
        changed = whole.change(n_heads=choice["n_heads"])
        assert (changed.model.n_heads, changed.model.d_head) == (choice["n_heads"], choice["d_head"])
        assert changed.title == f"{whole.title}, changed"


def test_falcon_with_kv_groups_is_its_newer_version_with_one_norm() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    grouped = card("falcon-7b").change(n_heads=8, n_kv_heads=4)
    kept = {key: value for key, value in grouped.config.items() if key in card("falcon-7b").config}
    own = {"num_attention_heads": 8, "num_kv_heads": 4, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**kept | own))
    assert grouped.parameters.total == sum(weight.numel() for weight in model.parameters())
