"""Heads that texts and pictures name are in the shipped model, and have the roles that readers are told."""

from __future__ import annotations

import json

import pytest
from bench.named_heads import CLAIMED, LEFT_OUT, READ, ROOT, places, replaced

from headscope.scope import EMBEDDED

CONFIG = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
HEADS = {
    f"{layer}.{head}" for layer in range(CONFIG["num_hidden_layers"]) for head in range(CONFIG["num_attention_heads"])
}


def test_every_head_that_a_reader_meets_exists_in_the_embedded_model() -> None:
    found = list(places())
    assert len(found) > 30
    assert [str(place) for place in found if place.head not in HEADS] == []


@pytest.mark.parametrize(("head", "role"), CLAIMED.items())
def test_a_head_that_is_named_for_its_role_has_it_by_the_shipped_report(head: str, role: str) -> None:
    report = json.loads((EMBEDDED / "heads.json").read_text(encoding="utf-8"))
    earned = {finding["role"] for finding in report["findings"] if finding["head"] == head}
    where = "\n".join(str(place) for place in places() if place.head == head)
    assert role in earned, f"{head} is no {role} head any more; it is named here:\n{where}"


def test_the_shipped_model_bears_out_what_lessons_say_of_it_in_words() -> None:
    """Lesson 4: some heads look back, rest or continue; "most heads earn no name for a job"."""
    roles: dict[str, set[str]] = {}
    for finding in json.loads((EMBEDDED / "heads.json").read_text(encoding="utf-8"))["findings"]:
        roles.setdefault(finding["head"], set()).add(finding["role"])
    assert {"previous token", "first token", "induction"} <= set().union(*roles.values())
    with_a_job = [head for head, earned in roles.items() if earned != {"first token"}]
    assert len(with_a_job) < len(HEADS) / 2


def test_what_is_left_out_exists_and_every_pattern_finds_a_file() -> None:
    assert all((ROOT / file).is_file() for file in LEFT_OUT)
    assert all(any(ROOT.glob(pattern)) for pattern in READ)


def test_heads_are_renamed_where_they_are_named_and_nowhere_else() -> None:
    text = 'look.pattern("5.6"), head 5.6; 5.6 MB, `--head 5.6`, "4.3", #film?head=5.6&step=1, `5.6 s`'
    new = 'look.pattern("7.3"), head 7.3; 5.6 MB, `--head 7.3`, "4.3", #film?head=7.3&step=1, `5.6 s`'
    assert replaced(text, {"5.6": "7.3"}) == new
