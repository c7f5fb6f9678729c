"""Which models generate, and how many tokens."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny

import headscope
from headscope.errors import InputError

IDS = [5, 6, 7, 8]


@pytest.mark.parametrize("head", ["BertForMaskedLM", "ModernBertForMaskedLM"])
def test_a_bidirectional_encoder_does_not_generate(head: str) -> None:
    model = tiny.build(head.replace("ForMaskedLM", "Config"), head, **tiny.SIZES)
    with headscope.load(model) as scope:
        with pytest.raises(InputError, match=r"is bidirectional.*predictions\(position\)"):
            scope.generate(IDS)
        assert len(scope.look(IDS).predictions(2)) == 10


def test_generation_ends_at_the_context_length() -> None:
    with headscope.load(tiny.gpt2()) as scope:
        with pytest.raises(InputError, match="4 tokens and 62 more exceed the 64 that GPT2LMHeadModel can read"):
            scope.generate(IDS, 62)
        scope.generate(IDS, 61)


@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
def test_greedy_generation_is_that_of_transformers(build: object) -> None:
    model = build()  # type: ignore[operator]
    model.generation_config.eos_token_id = None
    own = model.generate(torch.tensor([IDS]), max_new_tokens=8, min_new_tokens=8, do_sample=False, num_beams=1)[0, -8:]
    with headscope.load(model) as scope:
        scope.model.end_tokens = frozenset()
        assert [token.id for token in scope.generate(IDS, 8).tokens] == own.tolist()
