"""Heads as the Four heads page sends them when it has trained them."""

from __future__ import annotations

from typing import Any

import torch

from headscope.lab.teach.target_patterns import SENTENCE, split_words

D_MODEL = 32


def trained_heads(sentence: str = SENTENCE, heads: int = 4, d_head: int = 8, seed: int = 0) -> dict[str, Any]:
    """A request that opens heads: random matrices of the right sizes; every row but the first has a target."""
    words, draw = split_words(sentence), torch.Generator().manual_seed(seed)
    sizes = {"tokens": len(set(words)) + 1, "places": len(words), "w_q": heads * d_head, "w_k": heads * d_head}
    matrices = {name: torch.randn(size, D_MODEL, generator=draw).tolist() for name, size in sizes.items()}
    return {"sentence": sentence, "finds": [[at > 0 for at in range(len(words))]] * heads, **matrices}
