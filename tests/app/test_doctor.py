"""The doctor checks everything that can be missing, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from headscope.app import doctor
from headscope.attention.engine import BACKENDS
from headscope.cli import app

ROOT = Path(__file__).parents[2]


def _findings() -> dict[str, doctor.Check]:
    return {finding.name: finding for finding in doctor.examine()}


def test_every_backend_is_checked_and_a_failure_has_its_reason() -> None:
    found = _findings()
    assert {name for name in found if name.startswith("backend ")} == {f"backend {name}" for name in BACKENDS}
    assert found["backend blockwise"].works
    if not torch.cuda.is_available():
        assert not found["backend fused"].works
        assert found["backend fused"].detail == "fused needs CUDA, got cpu"
        assert found["cuda"].detail == "no CUDA device: everything runs on the CPU"


def test_a_missing_extra_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.util, "find_spec", lambda package: None)
    found = _findings()
    assert not found["extra ray"].works
    assert found["extra ray"].detail == "scans on several machines: pip install ray"
    assert found["triton"].detail.startswith("not installed: the fused backend cannot run")


def test_doctor_prints_one_line_per_check_and_json() -> None:
    plain = CliRunner().invoke(app, ["doctor"])
    checks = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)["checks"]
    assert [line[:3].strip() for line in plain.output.splitlines()] == [
        "ok" if one["works"] else "no" for one in checks
    ]
    assert {"embedded model", "page"} <= {one["name"] for one in checks if one["works"]}
