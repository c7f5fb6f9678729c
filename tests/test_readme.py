"""What the README and CONTRIBUTING say runs, runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_s_python_runs_as_it_stands() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    exec(compile("\n".join(blocks), "README.md", "exec"), {})


def test_every_make_target_that_is_mentioned_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md"):
        mentioned = set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert mentioned
        assert mentioned <= targets


def test_the_shipped_version_is_one() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    from headscope import __version__

    assert declared[1] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
