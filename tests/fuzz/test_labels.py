"""Questions with any integer labels give the mass that comparing every query-key pair gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.attention import Question, Scores, causal, observe

LABELS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, -(2**31), 2**31, 2**53 + 1])


@pytest.mark.parametrize("backend", ["dense", "blockwise"])
@given(st.data(), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=100)
def test_any_labels_give_the_mass_of_the_pairs_that_match(
    backend: str, data: st.DataObject, length: int, exclude_self: bool
) -> None:
    query, key = (torch.tensor(data.draw(st.lists(LABELS, min_size=length, max_size=length))) for _ in range(2))
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, length, 4)
    question = Question(query=query, key=key, exclude_self=exclude_self)
    seen = observe(q, k, v, scores=Scores(mask=causal()), questions={"any": question}, backend=backend)
    scores = (q @ k.mT / 2).masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    matches = (query[:, None] == key[None, :]) & (query[:, None] != -1)
    if exclude_self:
        matches &= ~torch.eye(length, dtype=torch.bool)
    torch.testing.assert_close(seen.mass["any"], (scores.softmax(-1) * matches).sum(-1), atol=1e-5, rtol=1e-5)
