"""The repeat probe: the tokens it draws, the losses of its copies, and head scores against dense patterns."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.observer import Call, attend
from headscope.attention.scores import Scores
from headscope.errors import InputError
from headscope.heads.questions.head_scores import head_scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.lab.train.gpt import GPT, GPTConfig


def small() -> GPT:
    model = GPT(GPTConfig(vocabulary=60, d_model=32, n_layers=2, n_heads=4, n_kv_heads=2)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8.0 if weight.ndim == 2 else 1.0)
    return model


def test_a_row_is_the_start_token_and_then_the_same_tokens_twice() -> None:
    tokens = RepeatProbe(vocabulary=60, length=20, rows=3).tokens()
    assert tokens.shape == (3, 41)
    assert (tokens[:, 0] == 0).all()
    assert (tokens[:, 1:21] == tokens[:, 21:]).all()
    assert all(len(set(row.tolist())) == 21 for row in tokens)


def test_too_small_a_vocabulary_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputError, match=r"length=50 different tokens cannot be drawn from 39 allowed ones"):
        RepeatProbe(vocabulary=40).tokens()


def test_losses_are_taken_of_each_copy() -> None:
    probe = RepeatProbe(vocabulary=60, length=20, rows=2)
    tokens = probe.tokens()
    knows_second_copy = torch.zeros(2, 41, 60)
    knows_second_copy[:, 21:-1] = F.one_hot(tokens[:, 22:], 60) * 100.0
    losses = probe.losses(knows_second_copy, tokens)
    assert losses.first == pytest.approx(torch.tensor(60.0).log().item(), abs=1e-4)
    assert losses.second == pytest.approx(0.0, abs=1e-4)


def test_scores_are_those_of_the_patterns_pair_by_pair() -> None:
    model, probe = small(), RepeatProbe(vocabulary=60, length=6, rows=2)
    tokens = probe.tokens()
    scores, logits = head_scores(model, tokens)
    torch.testing.assert_close(logits, model(tokens).detach())
    block = model.blocks[0]
    patterns = block.attention.patterns(block.attention_norm(model.embedding(tokens)), mask=causal()).detach()
    sums = dict.fromkeys(STANDARD, torch.zeros(4))
    counts = dict.fromkeys(STANDARD, 0)
    for row, ids in enumerate(tokens.tolist()):
        for i in range(len(ids)):
            keys = {
                "previous": [j for j in range(i) if j == i - 1],
                "itself": [i],
                "first": [0] if i else [],
                "duplicate": [j for j in range(i) if ids[j] == ids[i]],
                "induction": [j for j in range(1, i) if ids[j - 1] == ids[i]],
            }
            for name, wanted in keys.items():
                sums[name] = sums[name] + patterns[row, :, i, wanted].sum(-1)
                counts[name] += bool(wanted)
    for name in STANDARD:
        torch.testing.assert_close(scores.mean(name)[:4], sums[name] / counts[name])


def test_a_learned_sink_takes_its_share() -> None:
    q, k = torch.randn(2, 1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    sinks, tokens = torch.tensor([0.5, 2.0]), torch.tensor([[4, 7, 4, 7, 9]])

    def run(ids: Tensor) -> Tensor:
        z = attend(Call(nn.Identity(), q, k, k, Scores(mask=causal(), sinks=sinks)))
        return z.mean(1)

    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    logits = (q @ k.mT * 8**-0.5).masked_fill(hidden, float("-inf"))
    weights = torch.cat((logits, sinks[None, :, None, None].expand(1, 2, 5, 1)), dim=-1).softmax(-1)[0]
    scores, _ = head_scores(run, tokens)
    torch.testing.assert_close(scores.mean("previous"), weights.diagonal(-1, 1, 2)[:, :4].mean(-1))
    torch.testing.assert_close(scores.mean("duplicate"), (weights[:, 2, 0] + weights[:, 3, 1]) / 2)
    torch.testing.assert_close(scores.sums["entropy"], torch.special.entr(weights).sum((1, 2)))
