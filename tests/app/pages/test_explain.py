"""The page's explanations against what Python returns for the same text."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from tests.app.conftest import SENTENCE
from tests.heads.explain.families import FAMILIES, IDS

import headscope
from headscope.app.pages import explain, kept_looks
from headscope.app.pages.explain import CutPathRequest, cut_path
from headscope.app.pages.microscope import LookRequest, Session
from headscope.heads.explain.why import by_size
from headscope.scope import Scope


@pytest.fixture
def name(session: Session) -> str:
    return session.look(LookRequest(text=SENTENCE))[0].look


@pytest.mark.parametrize("minus", ["mean", "others", 3])
def test_a_split_is_that_of_the_look(client: TestClient, scope: Scope, name: str, minus: str | int) -> None:
    sent = client.post("/api/why", json={"look": name, "head": "1.2", "query": 9, "key": 4, "minus": minus}).json()
    found = scope.observe(SENTENCE).why("1.2", 9, 4, None if minus == "mean" else minus)
    assert sent["total"] == pytest.approx(found.total, abs=1e-6)
    assert [each["name"] for each in sent["asked"]] == [each.name for each in by_size(found.asked)]
    assert sum(each["value"] for each in sent["answered"]) == pytest.approx(found.total, abs=1e-5)
    by_name = {share.name: index for index, share in enumerate(found.asked)}
    columns = {share.name: index for index, share in enumerate(found.answered)}
    for row, asked in zip(sent["pairs"], sent["asked"], strict=False):
        for value, answered in zip(row, sent["answered"], strict=False):
            assert value == pytest.approx(float(found.pairs[by_name[asked["name"]], columns[answered["name"]]]))
    assert sent["pairs_sum"] == pytest.approx(found.total, abs=1e-5)


def test_a_trace_is_that_of_the_look(client: TestClient, scope: Scope, name: str) -> None:
    sent = client.post("/api/trace", json={"look": name, "position": 9, "floor": 0.05}).json()
    look = scope.observe(SENTENCE)
    found = look.trace(look.predictions(9, 1)[0].token.id, position=9, floor=0.05)
    assert sent["total"] == pytest.approx(found.total, abs=1e-6)
    assert [step["name"] for step in sent["steps"]] == [step.name for step in found.steps]
    for step, own in zip(sent["steps"], found.steps, strict=True):
        assert step["share"] == pytest.approx(own.share, abs=1e-6)
        assert [read["share"] for read in step["reads"]] == pytest.approx([read.share for read in own.reads])
    left = sent["left_out"]
    assert left["up"] + left["down"] == pytest.approx(found.left_out.sum)


def test_a_cut_path_has_the_true_effect_of_the_edit(client: TestClient, scope: Scope, name: str) -> None:
    asked = {"look": name, "writer": "0.3", "reader": "1.2", "into": "k", "query": 9, "key": 4}
    sent = client.post("/api/cut-path", json=asked).json()
    with scope.edit(headscope.ablate(headscope.path("0.3", "1.2", into="k", query=9, key=4))):
        after = scope.look(SENTENCE).logits[9].double()
    assert sent["logit"]["true"] == pytest.approx(float(after[sent["token"]["id"]]), abs=1e-5)
    assert sent["probability"]["true"] == pytest.approx(float(after.softmax(-1)[sent["token"]["id"]]), abs=1e-6)
    moved = sum(sent["answers"].values()) + sent["others"]
    assert moved == pytest.approx(sent["logit"]["true"] - sent["logit"]["as_is"], abs=2e-4)


def test_a_path_is_cut_for_one_head_unless_its_group_is_asked_for() -> None:
    with headscope.load(FAMILIES["llama"]()) as llama:
        look = llama.look(IDS[0].tolist())
        asked = CutPathRequest(look="", writer="0.3", reader="1.3", query=11, key=4, token=7)
        one, all_of_it = (cut_path(look, asked.model_copy(update={"group": group})) for group in (False, True))
        with llama.edit(headscope.ablate(headscope.path("0.3", ("1.2", "1.3"), query=11, key=4))):
            after = float(llama.look(IDS[0].tolist()).logits[11, 7])
    assert (one.readers, all_of_it.readers) == (["1.3"], ["1.3", "1.2"])
    assert all_of_it.logit.true == pytest.approx(after, abs=1e-5)
    assert one.logit.true != pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("why", {"head": "1.2", "query": 3, "key": 9}, "1.2 at query 3 does not see key 9"),
        ("why", {"head": "9.9", "query": 3, "key": 1}, "9.9"),
        ("why", {"head": "1.2", "query": 99, "key": 1}, "query 99"),
        ("trace", {"position": 3, "token": 10_000}, "token 10000 is not in the vocabulary"),
        ("cut-path", {"writer": "1.1", "reader": "1.2", "query": 3, "key": 1}, "1.1 does not write into the k of 1.2"),
        ("cut-path", {"writer": "0.1", "reader": "1.2", "query": 3, "key": 99}, "query 3 and key 99"),
    ],
)
def test_what_cannot_be_explained_is_said_with_the_reason(
    client: TestClient, name: str, path: str, body: dict[str, object], said: str
) -> None:
    refused = client.post(f"/api/{path}", json={"look": name, **body})
    assert refused.status_code == 422
    assert said in refused.json()["message"]


def test_a_text_whose_stream_is_too_large_is_refused_with_a_length(
    client: TestClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "STREAM_BYTES", 8_000)
    refused = client.post("/api/why", json={"look": name, "head": "1.2", "query": 3, "key": 1})
    assert refused.status_code == 422
    assert "explain a text of at most 10 tokens" in refused.json()["message"]


def test_a_recorded_stream_counts_to_what_a_look_holds(session: Session, name: str) -> None:
    before = session.kept.look(name)
    assert before is not None
    size = before.nbytes
    session.why(explain.WhyRequest(look=name, head="1.2", query=3, key=1))
    kept = before.look.kept_pass
    assert kept is not None
    assert kept.nbytes > 0
    assert before.nbytes == size + kept.nbytes


def test_the_latest_looks_alone_keep_what_was_recorded(session: Session, name: str) -> None:
    look = session.kept.look(name)
    assert look is not None
    session.why(explain.WhyRequest(look=name, head="1.2", query=3, key=1))
    held = look.look.cache.bytes
    for number in range(kept_looks.KEPT_PASSES):
        assert look.look.kept_pass is not None
        session.look(LookRequest(text=f"w{number} w2 w3 w4"))
    session.kept.trim()
    assert look.look.kept_pass is None
    assert look.look.cache.bytes < held
    session.why(explain.WhyRequest(look=name, head="1.2", query=3, key=1))
    assert look.look.cache.bytes == held
