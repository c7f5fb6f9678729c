"""docs/roles.md says of every role what the battery's table says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from docs.generate.roles import MEASURES, page

from headscope.heads.roles.battery import ROLES, Role
from headscope.heads.roles.traits import MEANING


def section(role: Role) -> str:
    title = f"\n## {role.name[0].upper()}{role.name[1:]}\n"
    assert page().count(title) == 1
    return page().split(title)[1].split("\n## ")[0]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_has_its_numbers_its_probe_and_its_paper(role: Role) -> None:
    text = section(role)
    assert role.sentence in text
    for evidence in role.evidence:
        assert f"At least {evidence.threshold:g}, and {evidence.margin:g} above its rival" in text
        assert evidence.reason in text
    assert f"Probe: {role.probe.name}. Tested on {' and '.join(sorted(role.sites))} attention." in text
    assert (str(role.paper) if role.paper else "by nobody that we know of") in text


def test_every_measure_and_every_trait_is_described() -> None:
    assert {evidence.kind for role in ROLES for evidence in role.evidence} <= set(MEASURES)
    assert all(f"- **{name}**: {meaning}" in page() for name, meaning in MEANING.items())


def test_the_command_writes_the_committed_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.setattr("sys.argv", ["roles", str(tmp_path / "roles.md")])
    runpy.run_path(str(docs / "generate" / "roles.py"), run_name="__main__")
    assert (tmp_path / "roles.md").read_text(encoding="utf-8") == page()
    assert (docs / "roles.md").read_text(encoding="utf-8") == page()
