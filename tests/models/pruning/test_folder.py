"""A pruned model is saved whole with a recipe that says how to open it, or not at all."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model
from headscope.models.pruning.remove_heads import LOADER, RECIPE, remove_heads, save

IDS = torch.tensor([[5, 6, 7, 8, 9]])


def pruned(model: Any, kept: dict[str, list[int]], tokenizer: Any = None) -> HuggingFaceModel:
    smaller, _ = remove_heads(open_model(model, tokenizer), kept)
    return smaller


def logits(opened: HuggingFaceModel) -> torch.Tensor:
    with torch.no_grad():
        return opened.run({"input_ids": IDS}).logits


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


UNEVEN, EVEN = {"0": [0, 1, 2]}, {"0": [0, 2], "1": [1, 3]}
CASES = [
    pytest.param(tiny.gpt2, UNEVEN, "AutoModelForCausalLM", id="a decoder"),
    pytest.param(
        lambda: tiny.build("BertConfig", "BertForMaskedLM", **tiny.SIZES), UNEVEN, "AutoModelForMaskedLM", id="masked"
    ),
    pytest.param(lambda: tiny.build("BertConfig", "BertModel", **tiny.SIZES), UNEVEN, "AutoModel", id="no head"),
]


@pytest.mark.parametrize(("build", "kept", "auto"), CASES)
def test_a_layout_that_the_config_cannot_describe_comes_with_its_loader(
    build: Any, kept: Any, auto: str, tmp_path: Path
) -> None:
    smaller = pruned(build(), kept)
    save(smaller, tmp_path / "new", {"removed": ["0.3"]})
    recipe = read(tmp_path / "new" / RECIPE)
    assert recipe["removed"] == ["0.3"]
    assert recipe["opens_with"] == (
        f"headscope.load(folder); in plain transformers, {auto}.from_pretrained(folder, trust_remote_code=True), which "
        f"runs {LOADER}.py"
    )
    assert read(tmp_path / "new" / "config.json")["auto_map"] == {auto: f"{LOADER}.PrunedModel"}
    source = (tmp_path / "new" / f"{LOADER}.py").read_text(encoding="utf-8")
    assert source.startswith("# Written by headscope prune; its source is headscope/models/pruning/pruned_modeling.py.")
    imported = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"__future__", "typing", "torch", "transformers"}, "it opens without headscope"
    opened = open_model(tmp_path / "new")
    torch.testing.assert_close(logits(opened), logits(smaller))
    assert [site.n_heads for site in opened.shape.sites.values()] == [3, 4]


def test_head_counts_that_the_config_can_describe_need_no_loader(tmp_path: Path) -> None:
    smaller = pruned(tiny.llama(num_key_value_heads=4), EVEN)
    save(smaller, tmp_path / "new", {})
    assert read(tmp_path / "new" / RECIPE) == {
        "opens_with": "headscope.load(folder); transformers opens this folder unchanged"
    }
    assert "auto_map" not in read(tmp_path / "new" / "config.json")
    assert not list((tmp_path / "new").glob("*.py"))
    torch.testing.assert_close(logits(open_model(tmp_path / "new")), logits(smaller))


def test_a_class_without_an_auto_class_is_opened_from_the_loader_itself(tmp_path: Path) -> None:
    """A classifier: none of the auto classes we try builds it."""
    smaller = pruned(tiny.build("BertConfig", "BertForSequenceClassification", **tiny.SIZES), UNEVEN)
    folder = tmp_path / "new"
    save(smaller, folder, {})
    expected = f"in plain transformers, {LOADER}.PrunedModel.from_pretrained(folder)"
    assert read(folder / RECIPE)["opens_with"].endswith(expected)
    assert "auto_map" not in read(folder / "config.json")
    spec = importlib.util.spec_from_file_location("tried_loader", folder / f"{LOADER}.py")
    assert spec is not None
    assert spec.loader is not None
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    model = loader.PrunedModel.from_pretrained(folder).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, logits(smaller)[:, 0])


@pytest.mark.parametrize("tokenizer", [None, tiny.tokenizer()], ids=["ids only", "with text"])
def test_the_tokenizer_is_saved_with_the_model(tokenizer: Any, tmp_path: Path) -> None:
    save(pruned(tiny.gpt2(), UNEVEN, tokenizer), tmp_path / "new", {})
    assert (tmp_path / "new" / "tokenizer.json").exists() == (tokenizer is not None)
    if tokenizer is not None:
        opened = open_model(tmp_path / "new")
        assert [token.text for token in opened.prepare("the horse").tokens] == ["the", "horse"]


@pytest.mark.parametrize("there", ["a file", "a full folder"])
def test_an_existing_file_or_folder_is_not_overwritten(there: str, tmp_path: Path) -> None:
    target = tmp_path / "new"
    if there == "a file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"new is there already and not empty; give a new folder"):
        save(pruned(tiny.gpt2(), UNEVEN), target, {})
    kept = target if there == "a file" else target / "notes.txt"
    assert kept.read_text() == "mine"
    assert len(list(tmp_path.rglob("*"))) == (1 if there == "a file" else 2)
