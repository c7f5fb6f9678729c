"""A recipe holds what the bytes depend on, and names the entries in which another differs."""

from __future__ import annotations

import json

import pytest

from headscope.errors import InputError
from headscope.scan.shards import SCHEMA_VERSION, Recipe

DATA = {"schema_version": SCHEMA_VERSION, "context": 128, "model": {"name": "m", "sites": {"0": 2}}, "corpus": ["a"]}


def test_a_recipe_is_restored_from_json_and_does_not_depend_on_key_order() -> None:
    recipe = Recipe(DATA)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert Recipe(dict(reversed(DATA.items()))).to_json() == recipe.to_json()
    assert recipe.to_json().endswith("}\n")


@pytest.mark.parametrize("text", ['{"schema_version": 9}', "{}", "[]", "7"])
def test_another_schema_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"this headscope reads version {SCHEMA_VERSION}"):
        Recipe.from_json(text)


def test_differences_name_the_entry_and_both_values() -> None:
    other = json.loads(json.dumps(DATA)) | {"context": 256, "corpus": ["a", "b"]}
    other["model"]["sites"]["0"] = 4
    assert Recipe(DATA).differences(Recipe(other)) == [
        "context: 256 there, 128 here",
        "corpus[1]: b there, nothing here",
        "model.sites.0: 4 there, 2 here",
    ]
    assert Recipe(DATA).differences(Recipe(DATA)) == []


def test_a_recipe_is_written_in_the_same_bytes_by_every_version() -> None:
    written = Recipe({"schema_version": 1, "b": {"z": 1, "a": ["ü"]}}).to_json()
    assert written == '{\n "b": {\n  "a": [\n   "ü"\n  ],\n  "z": 1\n },\n "schema_version": 1\n}\n'
    assert Recipe.from_json(written).data["b"] == {"z": 1, "a": ["ü"]}
