"""Write a rule, get a head: compiled rules attend where they say, open as models, and are read back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.rules.compiled_rules import TEXT, CompileRequest, compiled_head, find_rule
from headscope.app.server import HOST, application
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.lab.compile.programs import SELECTORS


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry()), base_url=f"http://{HOST}") as found:
        yield found


@pytest.mark.parametrize("rule", SELECTORS)
def test_a_compiled_head_attends_where_its_rule_says(rule: str):
    found, arrays = compiled_head(CompileRequest(rule=rule))
    assert "<other>" not in found.tokens
    assert arrays["pattern"].shape == (len(found.tokens),) * 2
    assert found.share > 0.9


def test_rules_are_found_by_name_and_by_phrase_and_others_refused_with_the_nearest():
    assert find_rule(" Last  Commas ") == "last commas"
    assert find_rule("what followed an earlier copy") == "after a copy"
    with pytest.raises(InputError, match="no head can be compiled from 'last coma'; did you mean last commas"):
        find_rule("last coma")
    with pytest.raises(InputError, match="'€€€'; there are first token"):
        find_rule("€€€")


def test_a_hidden_head_reads_alike_and_its_matrices_are_full(client: TestClient):
    plain, hidden = (
        unpack(client.post("/api/rules/compile", json={"rule": "previous token", "hidden": hide}).content)
        for hide in (False, True)
    )
    assert (plain.values["heads"], hidden.values["heads"]) == (1, 3)
    assert np.abs(plain.arrays["pattern"] - hidden.arrays["pattern"]).max() < 0.05
    share = [float((each.arrays["W_Q"] != 0).mean()) for each in (plain, hidden)]
    assert share[0] < 0.5 < share[1]


def test_a_compiled_model_opens_and_its_rule_is_read_back(client: TestClient):
    client.get("/api/models")  # brings the cookie that the model belongs to
    opened = client.post("/api/rules/compile/open", json={"rule": "last commas", "hidden": True}).json()
    assert opened["text"] == TEXT
    assert client.get("/api/rules", params={"model": opened["model"]}).json()["state"] == "unfitted"
    found = client.post("/api/rules", params={"model": opened["model"]}).json()
    heads = {head["head"]: head["rules"][0]["name"] for head in found["heads"]}
    assert heads[opened["head"]] == "last commas"


def test_every_rule_on_the_list_has_a_phrase(client: TestClient):
    found = client.get("/api/rules/compile").json()["rules"]
    assert [each["name"] for each in found] == list(SELECTORS)
    assert all(each["phrase"] for each in found)
