"""The page of roles says of every role what the table says, so that neither can go its own way."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from headscope.heads.roles.battery import ROLES, Role
from headscope.heads.roles.traits import MEANING
from headscope.heads.roles_page import KINDS, page


def section(role: Role) -> str:
    title = f"\n## {role.name[0].upper()}{role.name[1:]}\n"
    assert page().count(title) == 1
    return page().split(title)[1].split("\n## ")[0]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_is_told_with_its_numbers_its_probe_and_its_paper(role: Role) -> None:
    told = section(role)
    assert role.sentence in told
    for evidence in role.evidence:
        assert f"At least {evidence.threshold:g}, and {evidence.margin:g} above its rival" in told
        assert evidence.reason in told
    assert f"Probe: {role.probe.name}. Put to {' and '.join(sorted(role.sites))} attention." in told
    assert (str(role.paper) if role.paper else "by nobody that we know of") in told


def test_every_kind_of_evidence_and_every_trait_has_words() -> None:
    assert {evidence.kind for role in ROLES for evidence in role.evidence} <= set(KINDS)
    assert all(f"- **{name}**: {meaning}" in page() for name, meaning in MEANING.items())


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "roles.md"
    monkeypatch.setattr(sys, "argv", ["roles_page", str(file)])
    monkeypatch.delitem(sys.modules, "headscope.heads.roles_page")
    runpy.run_module("headscope.heads.roles_page", run_name="__main__")
    assert file.read_text(encoding="utf-8") == page()
