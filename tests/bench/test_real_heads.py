"""What a card of Real heads says is in its recording; the recording is what the fetched model does."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from bench.real_heads.__main__ import FILE, ROLES, ROOT, filled, role_tests, share
from bench.real_heads.cards import CARDS, SENTENCES
from bench.real_heads.measure import Meter

from headscope.app.pages.roles import shipped
from headscope.heads.roles.report import Report
from headscope.models.fetch import KNOWN
from headscope.models.weight_hash import weight_hash
from headscope.scope import load

RECORDED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
REPORT = Report.from_dict(json.loads(ROLES.read_text(encoding="utf-8")))
BY_ID = {card["id"]: card for card in RECORDED["cards"]}


def numbers(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), "<u2") / 65535


def test_recording_is_marked_as_made_and_small() -> None:
    assert "bench.real_heads" in RECORDED["generated"]
    assert FILE.stat().st_size < 1e6
    assert [each["text"] for each in RECORDED["sentences"]] == [text for text, _ in SENTENCES.values()]
    assert len(RECORDED["cards"]) == 14


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_card_says_what_was_recorded(card: Any) -> None:
    """Its texts are the card's with the stored numbers; the pattern's numbers are those of the recorded pattern."""
    stored = BY_ID[card.id]
    for part in ("see", "more", "limits"):
        assert stored[part] == filled(getattr(card, part), card, stored["numbers"])
    assert stored["tests"] == role_tests(REPORT, card)
    sentence = next(each for each in RECORDED["sentences"] if each["key"] == card.sentence)
    length, query = len(sentence["tokens"]), stored["query"]
    triangle = numbers(sentence["weights"]).reshape(270, -1)[stored["head"]]
    row = triangle[query * (query + 1) // 2 :][: query + 1]
    assert row.sum() == pytest.approx(1, abs=1e-3)
    if "weight" in stored["numbers"]:
        assert round(float(row[: query + 1].max()), 3) == pytest.approx(stored["numbers"]["weight"], abs=2e-3)
    assert triangle.size == length * (length + 1) // 2
    says, points = stored["general"]["says"], stored["general"]["points"]
    if points:
        means = [float(np.mean([point[at] for point in points])) for at in (2, 3)]
        assert f"from {share(means[0])} to {share(means[1])}" in says
        same = sum((after < before) == (means[1] < means[0]) for _, _, before, after in points)
        assert int(re.search(r"(?:falls|rises) in (\d+)", says)[1]) == same  # type: ignore[index]
        assert len({point[0] for point in points}) == 20


def need_smollm2() -> None:
    """Skip a test where smollm2 has not been fetched; fail where it has to be."""
    if not KNOWN["smollm2"].here:
        if os.environ.get("HEADSCOPE_MODELS") == "required":
            pytest.fail("smollm2 is not on this computer; run `headscope fetch smollm2`")
        pytest.skip("what smollm2 does is measured where `headscope fetch smollm2` has been run")


@pytest.fixture(scope="module")
def meter() -> Any:
    need_smollm2()
    with load("smollm2", dtype=torch.float32) as scope:
        yield Meter(scope)


def test_head_without_a_name_is_among_the_eleven_that_change_most() -> None:
    for sentence in RECORDED["sentences"]:
        changes = numbers(sentence["changes"])
        rank = 1 + int((changes > changes[BY_ID["unnamed"]["head"]]).sum())
        assert rank == 1 if sentence["key"] == "bracket" else rank <= 11


@pytest.mark.slow
@pytest.mark.registry
def test_numbers_and_claims_of_cards_are_what_the_model_does(meter: Meter) -> None:
    assert weight_hash(meter.scope.model.model, torch.float32) == RECORDED["weights"]
    assert shipped(meter.scope) == REPORT
    for card in CARDS:
        for name, measure in card.numbers.items():
            assert measure(meter) == pytest.approx(BY_ID[card.id]["numbers"][name], abs=2e-4), (card.id, name)
        assert card.id == "unnamed" or all(claim(meter) for claim in card.holds), card.id
        for text, words, before, after in BY_ID[card.id]["general"]["points"][::7]:
            joined = " ".join(word.strip() for word in words)
            found = [meter.next(text, joined), meter.next(text, joined, [card.head])]
            assert found == pytest.approx([before, after], abs=2e-4), text


@pytest.mark.slow
@pytest.mark.registry
def test_recording_equals_plain_transformers(meter: Meter) -> None:
    command = [sys.executable, str(ROOT / "bench" / "real_heads" / "check.py"), str(KNOWN["smollm2"].kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
