"""The committed reports are read, and a dense computation gives the same scores and heads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.heads.dense import dense_scores

from headscope.app.pages.roles import REPORTS
from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.report import Report
from headscope.models.recording import OpenModel
from headscope.scope import load

RESULTS = Path(__file__).parents[3] / "bench" / "results" / "heads"


def committed(path: Path) -> Report:
    return Report.from_dict(json.loads(path.read_text(encoding="utf-8")))


def agrees(report: Report, model: OpenModel) -> None:
    for role, scores in dense_scores(model, report.recipe["inputs"], report.recipe["seed"]).items():
        trial = report.trial(role)
        assert {head: trial.scores[head] for head in scores} == pytest.approx(scores, abs=1e-3)
        enough = {head for head, score in scores.items() if score >= BATTERY[role].evidence[0].threshold}
        assert set(trial.named) <= enough
        assert max(scores, key=lambda head: scores[head]) in trial.named


@pytest.mark.parametrize("path", [*sorted(RESULTS.glob("*.json")), *REPORTS.values()], ids=lambda path: path.stem)
def test_a_result_is_read_and_its_counts_add_up(path: Path) -> None:
    report = committed(path)
    assert len(report.named) + report.n_without == report.n_heads
    assert all(finding.head in report.trial(finding.role).named for finding in report.findings)
    assert all(finding.p <= report.recipe["alpha"] for finding in report.findings)
    assert set(report.traits) >= set(report.named)


def test_the_embedded_model_s_results_agree_with_a_dense_computation() -> None:
    with load(dtype=torch.float32) as scope:
        agrees(committed(RESULTS / "embedded.json"), scope.model)
