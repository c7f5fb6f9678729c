"""From a distribution to a token: each cut against the rule in words, written again in plain Python."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.look.sampling import Sampling, cuts, draw

LOGITS = torch.tensor([2.0, 0.5, -1.0, 3.0, 1.0])

logit_lists = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=24)


def kept(p: Tensor) -> list[int]:
    return p.nonzero().flatten().tolist()


def by_rule(p: Tensor, share: float) -> set[int]:
    """Tokens taken from the likeliest on, until what was taken makes up the share."""
    taken, total = set(), 0.0
    for token in sorted(range(len(p)), key=lambda token: -float(p[token])):
        if total >= share:
            break
        taken.add(token)
        total += float(p[token])
    return taken


@settings(max_examples=60, deadline=None)
@given(logits=logit_lists, k=st.integers(1, 30))
@example(logits=[0.0, 8e-45], k=1)  # different logits, equal probabilities
def test_top_k_keeps_the_k_likeliest_in_their_proportions(logits: list[float], k: int) -> None:
    values = torch.tensor(logits)
    found = cuts(values, Sampling(temperature=1.0, top_k=k))
    assert len(kept(found.top_k)) == min(k, len(logits))
    assert float(found.top_k.sum()) == pytest.approx(1.0, abs=1e-5)
    least = min(float(values[token]) for token in kept(found.top_k))
    assert all(float(values[token]) <= least for token in range(len(logits)) if token not in kept(found.top_k))
    ratio = found.top_k[kept(found.top_k)] / found.model[kept(found.top_k)]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(logits=st.lists(st.integers(-60, 60), min_size=2, max_size=20, unique=True), share=st.floats(0.05, 0.99))
def test_top_p_keeps_the_fewest_tokens_that_make_up_the_share(logits: list[int], share: float) -> None:
    found = cuts(torch.tensor(logits) / 8, Sampling(temperature=1.0, top_p=share))
    assert set(kept(found.top_p)) == by_rule(found.model, share)
    assert float(found.top_p.sum()) == pytest.approx(1.0, abs=1e-5)


def test_cuts_come_in_order_temperature_then_k_then_p() -> None:
    sampling = Sampling(temperature=2.0, top_k=3, top_p=0.6)
    found = cuts(LOGITS, sampling)
    tempered = (LOGITS / 2).softmax(-1)
    three = tempered * torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])
    three = three / three.sum()
    torch.testing.assert_close(found.top_k, three)
    assert set(kept(found.top_p)) == by_rule(three, 0.6) == {0, 3}


@pytest.mark.parametrize("logits", [[0.0, 8e-45], [1.0] * 40])
def test_one_token_is_left_by_greedy_and_by_top_1_whatever_ties(logits: list[float]) -> None:
    greedy = cuts(torch.tensor(logits), Sampling(top_k=1)).top_p
    top_1 = cuts(torch.tensor(logits), Sampling(temperature=1.0, top_k=1)).top_p
    assert (greedy.max(), greedy.sum(), top_1.max(), top_1.sum()) == (1, 1, 1, 1)


def test_draws_repeat_with_a_seed_and_follow_the_distribution() -> None:
    sampling = Sampling(temperature=1.0, top_k=2)
    once, again = ([draw(LOGITS, sampling, g) for _ in range(400)]
                   for g in (torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)))  # fmt: skip
    assert once == again
    assert set(once) == {0, 3}
    expected = float(cuts(LOGITS, sampling).top_p[3])
    assert once.count(3) / 400 == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"temperature": -0.1}, r"temperature=-0.1: give 0 \(greedy\) or more"),
        ({"top_k": 0}, "top_k=0 keeps no token; give at least 1"),
        ({"top_p": 0.0}, "top_p=0.0: give a share above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p=1.5: give a share above 0 and at most 1"),
    ],
)
def test_a_cut_that_makes_no_sense_is_refused(bad: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sampling(**bad)  # type: ignore[arg-type]
