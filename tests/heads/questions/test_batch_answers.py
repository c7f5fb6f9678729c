"""Questions to all texts of a pass at once are those of each text, padded with labels that match nothing."""

from __future__ import annotations

import torch

from headscope.heads.questions.standard_answers import BatchAnswers
from headscope.heads.questions.standard_questions import standard_questions
from headscope.models.protocol import Prepared, Token

TEXTS = ([5, 9, 7, 9, 5], [7], [3, 4, 3])


def prepared(ids: list[int]) -> Prepared:
    return Prepared({"input_ids": torch.tensor([ids])}, tuple(Token(token, str(token)) for token in ids))


def test_labels_are_those_of_each_text() -> None:
    answers = BatchAnswers.of([prepared(ids) for ids in TEXTS])
    assert answers is not None
    for number, ids in enumerate(TEXTS):
        for name, alone in standard_questions(torch.tensor([ids])).items():
            padded = answers.questions[name]
            assert padded.exclude_self == alone.exclude_self
            for ours, theirs in ((padded.query, alone.query), (padded.key, alone.key)):
                assert torch.equal(ours[number, : len(ids)], theirs[0])
                assert ours[number, len(ids) :].eq(-1).all()
