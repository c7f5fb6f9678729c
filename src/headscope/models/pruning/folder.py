"""Save a pruned model as a folder: weights, tokenizer, recipe, and a loader where the config cannot describe it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.files import atomic_folder
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import no_progress_bar
from headscope.models.pruning import pruned_modeling

LOADER = "pruned_heads"
RECIPE = "recipe.json"
_AUTO = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel")


def save(opened: HuggingFaceModel, folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write the folder. ``headscope.load(folder)`` opens it; so does transformers, as the recipe says."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not empty; give a new folder")
    model: Any = opened.model
    with atomic_folder(folder) as unfinished, no_progress_bar(True):
        model.save_pretrained(unfinished)
        if opened.processor.tokenizer is not None:
            opened.processor.tokenizer.save_pretrained(unfinished)
        how = "transformers opens this folder as it is"
        if getattr(model.config, "pruned_heads", None) is not None:
            how = _write_loader(model, unfinished)
        _write(unfinished / RECIPE, {**recipe, "opens_with": f"headscope.load(folder); {how}"})


def _write_loader(model: Any, folder: Path) -> str:
    """Write a copy of ``pruned_modeling``, and name it in the config for transformers' auto classes."""
    family = type(model).__name__
    source = Path(pruned_modeling.__file__).read_text(encoding="utf-8")
    header = "# Written by headscope prune; its source is headscope/models/pruning/pruned_modeling.py.\n"
    ending = f"\n\nfrom transformers import {family}  # noqa: E402\n\nPrunedModel = pruned({family})\n"
    (folder / f"{LOADER}.py").write_text(header + source + ending, encoding="utf-8")
    auto = _auto_class(model)
    if auto is None:
        return f"in plain transformers, {LOADER}.PrunedModel.from_pretrained(folder)"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {auto: f"{LOADER}.PrunedModel"}
    _write(folder / "config.json", config)
    return f"in plain transformers, {auto}.from_pretrained(folder, trust_remote_code=True), which runs {LOADER}.py"


def _auto_class(model: Any) -> str | None:
    import transformers

    for name in _AUTO:
        mapped = getattr(transformers, name)._model_mapping.get(type(model.config), None)
        kinds = mapped if isinstance(mapped, tuple) else (mapped,)
        if any(kind is not None and isinstance(model, kind) for kind in kinds):
            return name
    return None


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
