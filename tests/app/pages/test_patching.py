"""The lens and the patching of two texts on the page, against what Python returns and against passes by hand."""

from __future__ import annotations

import pytest
import torch
from fastapi.testclient import TestClient
from tests.app.conftest import SENTENCE

from headscope.app.pages.microscope import LookRequest, Session
from headscope.scope import Scope

WORDS = SENTENCE.split()
OTHER = " ".join([*WORDS[:2], WORDS[4], *WORDS[3:]])


def test_the_lens_has_a_row_for_every_layer_and_ends_at_the_prediction(client: TestClient, session: Session) -> None:
    look = session.look(LookRequest(text=SENTENCE))[0].look
    sent = client.post("/api/lens", json={"look": look, "position": 4}).json()["layers"]
    assert [row["point"] for row in sent] == ["resid_pre 0", "resid_pre 1", "logits"]
    best = client.post("/api/predict", json={"look": look, "position": 4, "count": 1}).json()["guesses"][0]
    assert sent[-1]["token"]["id"] == best["id"]
    assert sent[-1]["token"]["probability"] == pytest.approx(best["probability"], rel=1e-4)


@pytest.mark.parametrize(("at", "by"), [("z", "head"), ("mlp_out", "position")])
def test_patching_on_the_page_is_that_of_python(
    client: TestClient, session: Session, scope: Scope, at: str, by: str
) -> None:
    clean, corrupted = (session.look(LookRequest(text=text))[0].look for text in (SENTENCE, OTHER))
    sent = client.post("/api/patching", json={"look": clean, "corrupted": corrupted, "at": at}).json()
    right, wrong = sent["right"]["id"], sent["wrong"]["id"]
    logits = [scope.look(text).logits[-1] for text in (SENTENCE, OTHER)]
    assert right == int(logits[0].argmax()) != wrong
    ends = [float(each[right] - each[wrong]) for each in logits]
    assert [sent["clean"], sent["unpatched"]] == pytest.approx(ends, rel=1e-4)
    found = scope.patching(SENTENCE, OTHER, (right, wrong), at=at, by=by)  # type: ignore[arg-type]
    torch.testing.assert_close(torch.tensor(sent["effect"]), found.effect.float(), atol=1e-4, rtol=1e-4)


def test_texts_that_cannot_be_patched_are_rejected_with_a_clear_message(client: TestClient, session: Session) -> None:
    clean, shorter = (session.look(LookRequest(text=text))[0].look for text in (SENTENCE, " ".join(WORDS[:4])))
    for other, said in ((shorter, "give two texts of one length"), (clean, "the metric is")):
        refused = client.post("/api/patching", json={"look": clean, "corrupted": other})
        assert refused.status_code == 422
        assert said in refused.json()["message"]
    asked = {"look": clean, "corrupted": clean, "right": 4, "wrong": 4}
    assert "is chosen on both sides" in client.post("/api/patching", json=asked).json()["message"]
