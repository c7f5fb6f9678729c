"""Idioms of ours that a reader has to translate stay out of what people read: pages, lessons, docs, help and errors."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ = (
    "README.md",
    "docs/**/*.md",
    "web/src/words/**/*.ts",
    "src/headscope/heads/sentences.json",
    "src/headscope/lab/teach/lessons/*.md",
    "src/headscope/cli/*.py",
)
IDIOMS = re.compile(
    r"(?:comes?|brings?|takes?|carr(?:y|ies)|came|brought) home|said (?:twice|again)|stands? clear"
    r"|clear of (?:its|zero)|rests? on the first|set aside|above it nowhere|answers? back"
    r"|leans on|speaks? (?:for|against) it|laid end to end"
    r"|\banew\b|many an? \w|whoever|chain of exact|due to the place|choosing texts|nothing but rest|earned a name"
    r"|another token there would do",
    re.IGNORECASE,
)


def test_no_idiom_of_ours_is_in_what_people_read() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for pattern in READ
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in IDIOMS.finditer(line)
    ]
    assert found == []
