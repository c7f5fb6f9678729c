"""Census routes: equal to what the scan wrote, and reachable by number only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tests.scan.tiny import open_tiny, texts

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.server import application
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.scan.census import Census
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan

TAG = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for number, corpus in enumerate(([*texts(20), TAG * 20], texts(35)[15:])):
        out = tmp_path_factory.mktemp("census") / f"out{number}"
        scan(open_tiny(), corpus, out=out, options=ScanOptions(threads=1, replicates=50))
        made.append(out)
    return made


@pytest.fixture(scope="module")
def client(folders: list[Path]) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(), censuses=Censuses(folders)), base_url="http://127.0.0.1") as opened:
        yield opened


def test_a_server_without_a_census_shows_the_embedded_models():
    with TestClient(application(ModelRegistry()), base_url="http://127.0.0.1") as bare:
        (listed,) = bare.get("/api/censuses").json()
        assert listed["title"] == "embedded on stories, a licence and code"
        assert (
            "there is no census 2 on this page; it has 1. The scan of a pasted text is gone when"
            in bare.get("/api/censuses/2").json()["message"]
        )


def test_the_census_list_names_model_and_corpus_without_folders(client: TestClient, folders: list[Path]):
    answer = client.get("/api/censuses")
    first, second = answer.json()
    assert (first["number"], second["number"]) == (1, 2)
    assert first["documents"] == 21
    assert first["corpus"] == "21 texts"
    assert str(folders[0].parent) not in answer.text


def test_the_census_response_equals_the_census(client: TestClient, folders: list[Path]):
    own = Census.load(folders[0])
    response = unpack(client.get("/api/censuses/1").content)
    names = [quantity["name"] for quantity in response.values["quantities"]]
    heads = [str(head) for head in own.heads()]
    assert response.arrays["mean"].shape == (len(names), len(heads))
    for row in own.rows:
        place = names.index(row.question), heads.index(str(row.head))
        assert response.arrays["mean"][place] == pytest.approx(row.mean, rel=1e-6)
        assert response.arrays["low"][place] <= response.arrays["mean"][place] <= response.arrays["high"][place]
        if row.kind == "question":
            assert response.arrays["null"][place] == pytest.approx(row.null_mean, rel=1e-6)
        else:
            assert np.isnan(response.arrays["null"][place])


def test_census_examples_name_the_query_and_its_strongest_key(client: TestClient, folders: list[Path]):
    own = Census.load(folders[0])
    head = str(own.top("previous", 1)[0].head)
    response = client.get("/api/censuses/1/head", params={"head": head, "question": "previous"}).json()
    stored = [row for row in own.examples().to_pylist() if row["head"] == head and row["question"] == "previous"]
    assert [each["score"] for each in response["examples"]] == [row["score"] for row in stored]
    for each in response["examples"]:
        assert each["target"] is None or each["at"] - each["target"] == each["position"] - each["key"]
    entropy = next(spread for spread in response["spreads"] if spread["name"] == "entropy")
    assert sum(entropy["counts"]) == own.row(head, "entropy").count
    assert len(entropy["edges"]) == len(entropy["counts"]) + 1


def test_two_censuses_are_compared_as_in_the_library(client: TestClient, folders: list[Path]):
    own = compare(*folders)
    response = unpack(client.get("/api/censuses/1/against/2").content)
    names = [quantity["name"] for quantity in response.values["quantities"]]
    heads = [str(head) for head in Census.load(folders[0]).heads()]
    for change in own.changes:
        place = names.index(change.question), heads.index(str(change.head))
        assert response.arrays["after"][place] == pytest.approx(change.after, rel=1e-6)
        assert response.arrays["low"][place] == pytest.approx(change.low, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/censuses/3", "there is no census 3 on this page; it has 1, 2. The scan of a pasted text"),
        ("/api/censuses/0", "there is no census 0"),
        ("/api/censuses/1/head?head=9.9&question=previous", "no head 9.9; its heads are 0.0 to"),
        ("/api/censuses/1/head?head=0.0&question=love", "does not ask 'love'"),
        ("/api/censuses/1/against/7", "there is no census 7"),
    ],
)
def test_unknown_censuses_heads_and_questions_are_refused(client: TestClient, path: str, said: str):
    answer = client.get(path)
    assert answer.status_code == 422
    assert said in answer.json()["message"]


def test_a_folder_without_a_census_is_refused_when_the_server_starts(tmp_path: Path):
    with pytest.raises(InputError, match=r"holds no census \(tally.safetensors is missing\); give the folder"):
        Censuses([tmp_path])
