"""The small translator: it learns, and its cross-attention crosses over."""

from __future__ import annotations

import pytest
import torch

from headscope.lab.teach.course.translator import phrases, translator

pytestmark = pytest.mark.slow


def test_it_translates_phrases_that_it_has_not_seen() -> None:
    before = torch.random.get_rng_state()
    model = translator()
    assert torch.equal(torch.random.get_rng_state(), before)
    made = [model.translate(*phrase) for phrase in phrases()]
    assert sum(one.right for one in made) >= 0.9 * len(made)


def test_the_noun_reads_the_last_word_and_the_adjective_the_middle_one() -> None:
    translated = translator().translate("red", "car")
    assert translated.written == ["la", "voiture", "rouge"]
    assert translated.patterns.shape == (2, 3, 3)
    torch.testing.assert_close(translated.patterns.sum(-1), torch.ones(2, 3))
    noun, adjective = translated.patterns[:, 1].amax(0), translated.patterns[:, 2].amax(0)
    assert float(noun[2]) > 0.5
    assert float(adjective[1]) > 0.5
