"""A recipe holds what the bytes depend on, and names the entries in which another differs."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
import torch

from headscope.errors import InputError
from headscope.models.weight_hash import weight_hash
from headscope.scan.recipe import SCHEMA_VERSION, Recipe, describe_machine, describe_model, device_name
from tests.scan.tiny import open_tiny

DATA = {"schema_version": SCHEMA_VERSION, "context": 128, "model": {"name": "m", "sites": {"0": 2}}, "corpus": ["a"]}


def test_a_recipe_is_restored_from_json_and_does_not_depend_on_key_order() -> None:
    recipe = Recipe(DATA)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert Recipe(dict(reversed(DATA.items()))).to_json() == recipe.to_json()
    assert recipe.to_json().endswith("}\n")


def test_text_outside_ascii_stays_readable() -> None:
    assert "Grüße.txt" in Recipe({**DATA, "corpus": ["Grüße.txt"]}).to_json()


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


def test_results_are_not_compared() -> None:
    done = Recipe(DATA).with_result(tokens=7)
    assert done.data["result"] == {"tokens": 7}
    assert done.differences(Recipe(DATA)) == []
    assert "result" not in DATA


def test_the_description_of_a_model_and_its_machine() -> None:
    model = open_tiny()
    words = describe_model(model)
    assert words["heads"] == 4
    assert words["sites"] == {"0": 2, "1": 2}
    assert words["dtype"] == "float32"
    assert words["weights_sha256"] == weight_hash(model.model)
    machine = describe_machine(model, threads=3)
    assert machine["threads"] == 3
    assert machine["torch"] == torch.__version__
    assert machine["device"].startswith("cpu")


def test_a_recipe_is_written_in_the_same_bytes_by_every_version() -> None:
    written = Recipe({"schema_version": 1, "b": {"z": 1, "a": ["ü"]}}).to_json()
    assert written == '{\n "b": {\n  "a": [\n   "ü"\n  ],\n  "z": 1\n },\n "schema_version": 1\n}\n'
    assert Recipe.from_json(written).data["b"] == {"z": 1, "a": ["ü"]}


def test_weights_that_were_hashed_before_are_not_hashed_again() -> None:
    assert describe_model(open_tiny(), "known")["weights_sha256"] == "known"


def test_what_the_last_digits_depend_on() -> None:
    assert set(describe_machine(open_tiny(), 1)) == {
        "device", "threads", "torch", "transformers", "headscope", "python",
    }  # fmt: skip


def test_devices_are_named_by_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"H200 number {device.index}")
    assert device_name(torch.device("cuda", 3)) == "H200 number 3"
    assert device_name(torch.device("cpu")) == f"cpu, {torch.backends.cpu.get_cpu_capability()}"
    assert device_name(torch.device("meta")) == "meta"


def test_a_recipe_is_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Recipe({}).data = {}  # type: ignore[misc]


def test_what_a_scan_of_the_recipe_needs_is_read_from_it() -> None:
    data = {"model": {"weights_sha256": "abc"}, "machine": {"device": "cpu, AVX2", "threads": "3"}}
    recipe = Recipe(data)
    assert (recipe.weights_sha256, recipe.device, recipe.threads) == ("abc", "cpu, AVX2", 3)
