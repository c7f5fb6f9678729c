"""docs/how-to/teach.md names a head of the embedded model: it is the one that the shipped report names."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headscope.app.pages.roles import SHIPPED
from headscope.lab.teach.lessons import contents

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "teach.md").read_text(encoding="utf-8")
HEAD = re.compile(r"(?:head `|--head )(\d+\.\d+)")


def test_the_head_that_is_called_an_induction_head_is_the_strongest_of_the_report():
    named = HEAD.findall(TEXT)
    assert len(named) >= 2, "the lecture and the exercise name a head"
    findings = json.loads(SHIPPED.read_text(encoding="utf-8"))["findings"]
    induction = {each["head"]: each["evidence"][0]["score"] for each in findings if each["role"] == "induction"}
    assert set(named) == {max(induction, key=lambda head: induction[head])}


def test_the_number_of_lessons_is_the_courses():
    words = {19: "Nineteen", 20: "Twenty", 21: "Twenty-one"}
    assert f"{words[len(contents())]} short lessons" in TEXT
