"""Whether a model's files hold what its config claims. A config is somebody else's word, and it is checked first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from headscope.errors import ModelError

MOST_REPEATS = 2_000
"""Layers or experts. Each is an object of its own, so a claim of a billion is a program that never ends."""
MOST_A_BYTE = 8
"""Weights in a byte: no file keeps one in less than a bit."""

WIDEST = 2**20
"""Of a head or a layer. Tables of positions are made from these before any weight is read."""

_REPEATED = re.compile(r"(num|n)_(\w+_)?(layers?|experts?|blocks?)|\w+_layers|depth")
_WIDE = re.compile(r"(\w+_)?head_dim|d_kv|d_head|d_model|n_embd|hidden_size|intermediate_size|(num|n)_(\w+_)?heads?")
_UNUSED = re.compile(r"pooler|masked_spec_embed|position_ids")
"""Weights that many checkpoints lack and that attention never sees."""


def refuse_endless(said: str, config: Any) -> None:
    """A config that claims more layers, or wider ones, than any model has."""
    for name, value in _numbers(config.to_dict()):
        most = MOST_REPEATS if _REPEATED.fullmatch(name) else WIDEST if _WIDE.fullmatch(name) else value
        if value > most:
            raise ModelError(f"{said} claims {name}={value:,}; no model has that many, so its config is broken")


def refuse_outsized(said: str, kind: Any, config: Any, n_bytes: int) -> None:
    """A config that claims more weights than its files can hold: the rest would be drawn at random, gigabytes of it."""
    try:
        with torch.device("meta"):
            made = kind(config)
    except Exception:  # opening it says what is wrong, in more words
        return
    claimed = sum(weight.numel() for weight in made.parameters())
    if claimed > MOST_A_BYTE * n_bytes:
        raise ModelError(f"{said} claims {claimed:,} weights, and its files have {n_bytes:,} bytes; fetch it again")


def bytes_of(folder: Path, gguf: str | None = None) -> int:
    """What the weights of a folder, or one GGUF file in it, take on the disk."""
    files = [folder / gguf] if gguf else folder.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def refuse_missing(said: str, missing: Iterable[str]) -> None:
    """transformers fills weights that are not there with random numbers. We do not show those as the model's."""
    needed = sorted(name for name in missing if not _UNUSED.search(name))
    if needed:
        some = ", ".join(needed[:3]) + (", …" if len(needed) > 3 else "")
        raise ModelError(
            f"{said} lacks {len(needed)} of its weights ({some}), which would be random numbers; fetch it again, or "
            "open it with transformers and give headscope the model"
        )


def _numbers(words: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, value in words.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float):
            yield str(name), value
