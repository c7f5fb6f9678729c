"""Counts, text and JSON of a report, from findings written by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headscope.errors import InputError
from headscope.heads.look.importance import Effect
from headscope.heads.roles.report import AblationEffect, EvidenceScore, Finding, Report, Trial


def piece(score: float) -> EvidenceScore:
    return EvidenceScore("attention: x", score, score - 0.1, score + 0.1, 0.05, "offset -1", 0.4, 1e-6)


def finding(head: str, role: str, score: float = 0.8, strongest: bool = True) -> Finding:
    return Finding(head, role, strongest, 1e-5, (piece(score), piece(0.1)), None)


def trial(role: str, **changed: object) -> Trial:
    base = Trial(
        role, True, "", "A sentence.", "", "made so", 8, 80, 4, (), {"0.0": 0.5}, {"0.0": None}, 0.1, "", None, {}
    )
    return replace(base, **changed)  # type: ignore[arg-type]


@pytest.fixture
def report() -> Report:
    findings = (
        finding("10.1", "induction", 0.7),
        finding("2.0", "first token", 0.9),
        finding("2.3", "induction", 0.95, strongest=False),
        finding("2.3", "first token", 0.5),
        finding("encoder.0.1", "first token", 0.6),
    )
    scores = dict.fromkeys([f.head for f in findings] + [f"0.{index}" for index in range(18)], 0.5)
    trials = (
        trial("induction", scores=scores | {"9.9": None}),
        trial("first token", baselines={"first": 0.25}),
        trial("negation"),
        trial("name mover", tested=False, why_not="it reads no text"),
    )
    return Report("small", 24, findings, trials, {"2.0": {"entropy": 0.5}}, {"seed": 3})


def test_a_report_prints_one_line_per_role(report: Report) -> None:
    assert str(report).splitlines() == [
        "In small, 4 of 22 heads pass a test for a role: 2 for something specific, "
        "2 only for attending to the first token of random words; 18 pass none; 2 were not tested.",
        "The heads that pass each test, with their scores:",
        "  induction (a sentence): 2.3 0.95, 10.1 0.70",
        "  first token (a sentence): 2.0 0.90, encoder.0.1 0.60, 2.3 0.50 "
        "(always looking the same distance away would score 0.25)",
        "  negation (a sentence): no head",
        "  name mover (a sentence): not tested: it reads no text",
    ]


def test_a_report_is_equal_after_json(report: Report) -> None:
    ablated = replace(report.findings[0], ablated=AblationEffect("the second copy", 0.9, 0.4, 0.3, 0.5))
    whole = replace(report, findings=(ablated, *report.findings[1:]))
    told = json.loads(json.dumps(whole.to_dict()))
    assert Report.from_dict(told) == whole
    assert told["summary"] == {
        "named": whole.named,
        "without_a_role": 18,
        "not_tested": 2,
        "only_first_token": 2,
    }


def test_what_was_not_tested_is_not_counted_as_tested(report: Report) -> None:
    none = replace(report, findings=(), trials=(trial("name mover", tested=False, why_not="no text", scores={}),))
    assert str(none).splitlines()[0] == "In small, no role could be tested on its 24 heads."
    assert (none.n_untested, none.n_without) == (24, 0)
    assert none.sentence("0.1") == "Not tested for a role."


def test_a_heads_sentence_names_its_test_and_its_score(report: Report) -> None:
    assert report.sentence("2.3") == (
        "First token: a sentence. On average 50% of its attention goes there (made so). "
        "Induction: a sentence. On average 95% of its attention goes there (made so)."
    )
    assert report.sentence("0.3") == "No role. It passed none of the role tests it took (1)."
    costs = {"0.3": Effect(-0.02, -0.031, -0.01), "2.3": Effect(0.01, -0.001, 0.02)}
    costly = replace(report, importance=costs)
    assert costly.sentence("0.3").endswith("falls by 0.020 nats per token (95% interval 0.010–0.031).")
    assert costly.sentence("2.3").endswith("no clear change: the 95% interval includes 0.")
    assert Report.from_dict(json.loads(json.dumps(costly.to_dict()))) == costly


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_schema_version_is_refused(report: Report, version: object) -> None:
    with pytest.raises(InputError, match=f"this report has schema_version {version!r}; this program reads 1"):
        Report.from_dict({**report.to_dict(), "schema_version": version})


@pytest.mark.parametrize("torn", [{"findings": None}, {"trials": [{}]}, {"findings": [{"head": "0.0"}]}])
def test_an_incomplete_report_is_refused(torn: dict[str, object]) -> None:
    whole = {"schema_version": 1, "model": "m", "n_heads": 1, "findings": [], "trials": [], "traits": {}, "recipe": {}}
    assert Report.from_dict(whole).n_heads == 1
    with pytest.raises(InputError, match=r"this report is incomplete .*make it again"):
        Report.from_dict(whole | torn)
    with pytest.raises(InputError, match="this report is incomplete"):
        Report.from_dict({"schema_version": 1})
