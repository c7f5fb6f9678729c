"""The repeat probe: what it draws, what it counts, and that its scores are the patterns' own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from headscope.attention.masks import causal
from headscope.errors import InputError
from headscope.heads.roles.probes.repeat_probe import STANDARD, RepeatProbe, ask
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


def test_equal_seeds_draw_equal_tokens_and_others_do_not() -> None:
    first, again = (RepeatProbe(vocabulary=60, seed=3).tokens() for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, RepeatProbe(vocabulary=60, seed=4).tokens())


def test_tokens_to_avoid_are_never_drawn() -> None:
    tokens = RepeatProbe(vocabulary=30, length=20, avoid=frozenset(range(5, 12))).tokens()
    assert not set(range(5, 12)) & set(tokens.flatten().tolist())


def test_too_small_a_vocabulary_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputError, match=r"length=50 different tokens cannot be drawn from 39 allowed ones"):
        RepeatProbe(vocabulary=40).tokens()


def test_losses_tell_the_copies_apart() -> None:
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
    scores, logits = ask(model, tokens)
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


def test_heads_are_named_in_the_order_of_the_layers() -> None:
    scores, _ = ask(small(), RepeatProbe(vocabulary=60, length=6, rows=1).tokens())
    assert scores.heads == tuple(f"{layer}.{head}" for layer in range(2) for head in range(4))
    assert scores.best("itself")[0] in scores.heads
