"""The lab's tiny transformer and its optimiser."""

from __future__ import annotations

import pytest
import torch

from headscope.errors import InputError, ShapeError
from headscope.lab.tiny import Adam, TinyConfig, TinyTransformer, one_thread

CONFIG = TinyConfig(vocabulary=7, context=5, d_model=8, n_layers=2, n_heads=2, d_ff=16, norm=True)


def test_adam_takes_the_steps_of_torchs_adam() -> None:
    ours, theirs = TinyTransformer(CONFIG).double(), TinyTransformer(CONFIG).double()
    ours.initialise(0)
    theirs.initialise(0)
    adam, reference = Adam(ours.parameters(), 0.01), torch.optim.Adam(theirs.parameters(), 0.01)
    ids = torch.randint(7, (3, 5), generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        adam.descend(ours(ids).logsumexp(-1).mean())
        reference.zero_grad()
        theirs(ids).logsumexp(-1).mean().backward()
        reference.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_causal_model_does_not_look_ahead_and_an_open_one_does() -> None:
    for causal in (True, False):
        model = TinyTransformer(TinyConfig(vocabulary=7, context=5, d_model=8, n_heads=2, causal=causal))
        model.initialise(1)
        first, second = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 4]])
        assert torch.allclose(model(first)[:, :2], model(second)[:, :2]) == causal


def test_without_the_residual_only_attention_speaks() -> None:
    model = TinyTransformer(TinyConfig(vocabulary=7, context=5, d_model=8, residual=False))
    with torch.no_grad():
        model.attention().o_proj.weight.zero_()
    assert not model(torch.tensor([[1, 2]])).any()


def test_one_thread_gives_the_threads_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_bad_sizes_and_ids() -> None:
    with pytest.raises(ShapeError, match="vocabulary=0, context=5"):
        TinyConfig(vocabulary=0, context=5, d_model=8)
    model = TinyTransformer(CONFIG)
    with pytest.raises(InputError, match="6 tokens, but this model has places for 5"):
        model(torch.zeros(1, 6).long())
    with pytest.raises(InputError, match="token ids 0…7: this model knows 0…6"):
        model(torch.tensor([[0, 7]]))
