"""Check a downloaded config against its weight files before any of it is allocated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headscope.errors import ModelError

MOST_REPEATS = 2_000
"""Most layers or experts. Each is an object of its own, so building a billion of them would never end."""
MOST_PER_BYTE = 8
"""Most weights per byte of a file: none takes less than a bit."""

MOST_HEADER_BYTES, MOST_TENSORS = 2**26, 200_000
"""Most bytes and tensors in all headers of safetensors files together. The largest mixture of experts has 140,000."""

MOST_TOKENIZER_BYTES, MOST_ADDED_TOKENS = 2**28, 200_000
"""Largest tokenizer file, and most tokens added to its vocabulary: transformers makes an object of each, which takes
seconds for tens of thousands."""

WIDEST = 2**20
"""Widest head or layer. Position tables of this width are allocated before any weight is read."""

MOST_OF_ANY = float(2**63)
"""Bound of every number: torch counts in 64 bits."""

_KINDS = {
    "a dictionary": (dict, r"auto_map|quantization_config|id2label|label2id|rope_(scaling|parameters)|pruned_heads"),
    "a list of names": (list, r"architectures|layer_types"),
    "a text": (str, r"\w*attn_implementation|model_type"),
}
"""Fields whose values transformers uses before it checks what they are."""

_REPEATED = re.compile(r"(num|n)_(\w+_)?(layers?|experts?|blocks?)|\w+_layers|depth")
_WIDE = re.compile(r"(\w+_)?head_dim|d_kv|d_head|d_model|n_embd|hidden_size|intermediate_size|(num|n)_(\w+_)?heads?")
_NEEDED = re.compile(r"vocab_size|hidden_size|n_embd|d_model|(num|n)_(hidden_|attention_|key_value_)?(layers?|heads?)")
_UNUSED = re.compile(r"pooler|masked_spec_embed|position_ids")
"""Weights that many checkpoints lack and that attention does not depend on."""


def refuse_huge_config(source: str, config: Any) -> None:
    """Refuse a config with more layers, or wider ones, than any model has; or with none."""
    for name, value in _numbers(config.to_dict()):
        if value < 1 and _NEEDED.fullmatch(name):
            raise ModelError(f"{source} claims {name}={value:,}; every model has at least one, so its config is broken")
        most = MOST_REPEATS if _REPEATED.fullmatch(name) else WIDEST if _WIDE.fullmatch(name) else MOST_OF_ANY
        if value > most:
            raise ModelError(f"{source} claims {name}={value:,}; no model has that many, so its config is broken")


def wrong_fields(folder: Path) -> str:
    """Say which fields of a folder's config hold another kind of value than transformers expects; else nothing."""
    try:
        said = dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return ""
    wrong = [
        f"claims {name}={value!r}, which is not {kind}"
        for name, value in said.items()
        for kind, (type_, names) in _KINDS.items()
        if value is not None and re.fullmatch(names, name) and not isinstance(value, type_)
    ]
    dtype = said.get("dtype") or said.get("torch_dtype") or "float32"
    if not isinstance(getattr(torch, str(dtype).removeprefix("torch."), None), torch.dtype):
        wrong.append(f"claims {dtype=}, which PyTorch does not know")
    return "; ".join(wrong)


def refuse_more_weights_than_bytes(source: str, kind: Any, config: Any, n_bytes: int) -> None:
    """Refuse a config with more weights than its files can hold: the others would be allocated at random."""
    try:
        with torch.device("meta"):
            made = getattr(kind, "from_config", kind)(config)  # an auto class, or the model's own
    except Exception:  # loading it will raise an error that says more
        return
    claimed = sum(weight.numel() for weight in made.parameters())
    if claimed > MOST_PER_BYTE * n_bytes:
        raise ModelError(
            f"{source} is incomplete: its config describes {claimed:,} weights, but its files hold only {n_bytes:,} "
            "bytes; download it again"
        )


def weight_bytes(folder: Path, gguf: str | None = None) -> int:
    """Size on disk of the safetensors of a folder, or of one GGUF file in it."""
    files = [folder / gguf] if gguf else folder.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def refuse_huge_headers(folder: Path) -> None:
    """Refuse safetensors files that list more tensors than any model has, before anything parses the lists."""
    n_bytes = n_tensors = 0
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            n_bytes += size
            if n_bytes <= MOST_HEADER_BYTES:
                n_tensors += opened.read(size).count(b"{")  # each tensor is an object in the header
        if n_bytes > MOST_HEADER_BYTES or n_tensors > MOST_TENSORS:
            what = f"a header of {n_bytes:,} bytes" if n_bytes > MOST_HEADER_BYTES else f"{n_tensors:,} tensors"
            most = f"{MOST_HEADER_BYTES:,} bytes" if n_bytes > MOST_HEADER_BYTES else f"{MOST_TENSORS:,}"
            raise ModelError(
                f"{file} has {what}, and no model more than {most}; it is damaged, or made to exhaust memory"
            )


def refuse_huge_tokenizers(folder: Path) -> None:
    """Refuse tokenizer files that are larger or add more tokens than any model's, before anything parses them."""
    for file in (folder / "tokenizer.json", folder / "tokenizer_config.json", folder / "added_tokens.json"):
        n_bytes = file.stat().st_size if file.is_file() else 0
        if n_bytes > MOST_TOKENIZER_BYTES:
            raise ModelError(f"{file} has {n_bytes:,} bytes; no tokenizer has more than {MOST_TOKENIZER_BYTES:,}")
        each = b":" if file.name == "added_tokens.json" else b'"content"'  # once in the entry of every added token
        n_added = file.read_bytes().count(each) if n_bytes else 0
        if n_added > MOST_ADDED_TOKENS:
            raise ModelError(
                f"{file} adds more tokens ({n_added:,}) than any model has ({MOST_ADDED_TOKENS:,}); it is damaged, or "
                "made to exhaust memory"
            )


NO_HEAD = "its config names {kind}, and its files hold no weights of that head; it is opened as {base}"


def base_without_head(kind: Any, config: Any, missing: Iterable[str]) -> Any:
    """The model class without a head, where all weights that a checkpoint lacks are the head's; else None.

    Folders of sentence encoders often name the class that their model was trained with.
    """
    from transformers import AutoModel

    prefix = str(getattr(kind, "base_model_prefix", "") or "")
    needed = [name for name in missing if not _UNUSED.search(name)]
    known = AutoModel._model_mapping
    if not prefix or not needed or any(name.startswith(f"{prefix}.") for name in needed) or type(config) not in known:
        return None
    base: Any = known[type(config)]
    return None if isinstance(base, tuple) or base is kind else base


def refuse_missing_weights(source: str, missing: Iterable[str]) -> None:
    """Refuse a checkpoint that lacks weights, which transformers would fill with random numbers."""
    needed = sorted(name for name in missing if not _UNUSED.search(name))
    if needed:
        some = ", ".join(needed[:3]) + (", …" if len(needed) > 3 else "")
        raise ModelError(
            f"{source} lacks {len(needed)} of its weights ({some}), which would be random numbers; fetch it again, or "
            "open it with transformers and give headscope the model"
        )


def _numbers(config: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float):
            yield str(name), value


def refuse_other_shapes(source: str, model: Any) -> None:
    """Refuse weights of other shapes than the metadata says; the vocabulary may be padded."""
    try:
        with torch.device("meta"):
            described: nn.Module = type(model)(model.config)
    except Exception:  # what it describes cannot be built; running it will say more
        return
    words = {getattr(model.config.get_text_config(), "vocab_size", None)}
    held = dict(model.named_parameters())
    for name, weight in described.named_parameters():
        expected, found = tuple(weight.shape), tuple(held[name].shape) if name in held else tuple(weight.shape)
        if found != expected and not (expected[:1] and expected[0] in words and found[1:] == expected[1:]):
            raise ModelError(
                f"{source}: {name} has shape {found}, and the file's metadata says {expected}; one of them is broken: "
                "fetch it again"
            )


def read_gguf(file: Path) -> Any:
    """The reader of a GGUF file, whose metadata lie within the file and whose strings can be decoded."""
    import gguf

    class Bounded(gguf.GGUFReader):
        def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **named: Any) -> Any:
            # gguf takes what is past the end for empty, and walks as many items as an array claims
            if int(offset) + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise ValueError(f"its metadata go on past its {len(self.data):,} bytes")
            return super()._get(offset, dtype, count, *order, **named)

    try:
        reader = Bounded(file)
        for field in reader.fields.values():
            field.contents()
    except Exception as error:  # a damaged file can fail anywhere, with an error of any kind
        raise ModelError(f"{file} cannot be opened: {error}") from error
    return reader
