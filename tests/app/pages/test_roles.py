"""Roles on the page: the battery's report, shown for the weights it was measured on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import torch
from tests.app.conftest import held
from tests.e2e.conftest import served

import headscope
from headscope.app.pages.microscope import Session
from headscope.app.pages.roles import SHIPPED, roles_of, shipped
from headscope.heads.roles.report import Report


@pytest.fixture(scope="module")
def embedded():
    with headscope.load() as opened:
        yield opened


@pytest.fixture(scope="module")
def report() -> Report:
    return Report.from_dict(json.loads(SHIPPED.read_text(encoding="utf-8")))


def test_an_untested_model_is_tested_on_request(client, session, scope):
    assert client.get("/api/roles").json()["state"] == "untested"
    response = client.post("/api/roles").json()
    assert response["state"] == "tested"
    assert response["named"] + response["without"] == scope.shape.n_heads
    assert client.get("/api/roles").json() == response
    found = session._tested
    previous = next(trial for trial in response["trials"] if trial["role"] == "previous token")
    assert previous["scores"] == found.trial("previous token").scores


def test_a_second_client_sees_that_the_test_is_running(session):
    layer = session.scope.model.model.model.layers[0]
    with served(session) as address, ThreadPoolExecutor() as pool, held(layer) as (reached, go_on):
        running = pool.submit(httpx.post, f"{address}api/roles", timeout=300)
        assert reached.wait(60)
        assert httpx.get(f"{address}api/roles", timeout=120).json()["state"] == "testing"
        go_on.set()
        assert running.result().json()["state"] == "tested"


def test_the_embedded_model_ships_its_report(embedded, report):
    response = Session(embedded).roles()
    assert (response.state, response.named, response.without) == ("tested", len(report.named), report.n_without)
    induction = next(trial for trial in response.trials if trial.role == "induction")
    assert induction.named == report.trial("induction").named
    assert (induction.threshold, induction.measure) == (0.35, "attention: induction")
    best = report.with_role("induction")[0]
    assert induction.scores[best.head] == best.score


def test_a_finding_keeps_its_null_interval_and_effect(embedded, report):
    response = roles_of(report, [str(head) for head in embedded.shape.heads()])
    for card, finding in zip(response.findings, report.findings, strict=True):
        assert (card.head, card.role) == (finding.head, finding.role)
        assert [(piece.score, piece.rival, piece.low, piece.high) for piece in card.evidence] == [
            (piece.score, piece.rival, piece.low, piece.high) for piece in finding.evidence
        ]
        assert (card.ablated and card.ablated.loss) == (finding.ablated and finding.ablated.loss)


def test_a_changed_weight_loses_the_report(embedded):
    weight = next(embedded.model.model.parameters())
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] += 0.5
        assert shipped(embedded) is None
        weight.copy_(kept)
    assert shipped(embedded) is not None
