"""A recipe says what the bytes depend on, and two of them say in words where they differ."""

from __future__ import annotations

import json

import pytest
import torch

from headscope.errors import InputError
from headscope.models.weight_hash import weight_hash
from headscope.scan.recipe import SCHEMA_VERSION, Recipe, machine_words, model_words
from tests.scan.tiny import open_tiny

WORDS = {"schema_version": SCHEMA_VERSION, "context": 128, "model": {"name": "m", "sites": {"0": 2}}, "corpus": ["a"]}


def test_a_recipe_survives_json_and_reads_the_same_whatever_its_order() -> None:
    recipe = Recipe(WORDS)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert Recipe(dict(reversed(WORDS.items()))).to_json() == recipe.to_json()
    assert recipe.to_json().endswith("}\n")


def test_words_outside_ascii_stay_readable() -> None:
    assert "Grüße.txt" in Recipe({**WORDS, "corpus": ["Grüße.txt"]}).to_json()


@pytest.mark.parametrize("text", ['{"schema_version": 9}', "{}", "[]", "7"])
def test_another_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"this headscope reads version {SCHEMA_VERSION}"):
        Recipe.from_json(text)


def test_differences_name_the_place_and_both_values() -> None:
    other = json.loads(json.dumps(WORDS)) | {"context": 256, "corpus": ["a", "b"]}
    other["model"]["sites"]["0"] = 4
    assert Recipe(WORDS).differences(Recipe(other)) == [
        "context: 256 there, 128 here",
        "corpus[1]: b there, nothing here",
        "model.sites.0: 4 there, 2 here",
    ]
    assert Recipe(WORDS).differences(Recipe(WORDS)) == []


def test_what_came_of_a_scan_is_no_difference() -> None:
    done = Recipe(WORDS).with_result(tokens=7)
    assert done.words["result"] == {"tokens": 7}
    assert done.differences(Recipe(WORDS)) == []
    assert "result" not in WORDS


def test_the_words_of_a_model_and_its_machine() -> None:
    model = open_tiny()
    words = model_words(model)
    assert words["heads"] == 4
    assert words["sites"] == {"0": 2, "1": 2}
    assert words["dtype"] == "float32"
    assert words["weights_sha256"] == weight_hash(model.model)
    machine = machine_words(model, threads=3)
    assert machine["threads"] == 3
    assert machine["torch"] == torch.__version__
    assert machine["device"].startswith("cpu")
