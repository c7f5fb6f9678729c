"""The lab's tiny transformer and its optimiser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from headscope.attention.reference import HeadWeights, multi_head
from headscope.errors import InputError, ShapeError
from headscope.lab.teach.tiny_transformer import Adam, TinyBlock, TinyConfig, TinyTransformer, one_thread

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


def test_a_causal_model_does_not_attend_ahead_and_another_does() -> None:
    for causal in (True, False):
        model = TinyTransformer(TinyConfig(vocabulary=7, context=5, d_model=8, n_heads=2, causal=causal))
        model.initialise(1)
        first, second = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 4]])
        assert torch.allclose(model(first)[:, :2], model(second)[:, :2]) == causal


def test_without_residual_a_block_returns_its_attention_output() -> None:
    model = TinyTransformer(TinyConfig(vocabulary=7, context=5, d_model=8, residual=False))
    with torch.no_grad():
        model.attention().o_proj.weight.zero_()
    assert not model(torch.tensor([[1, 2]])).any()


def by_definition(model: TinyTransformer, ids: list[int]) -> Tensor:
    """The same function, from the definition of attention: a loop over heads, and nothing clever."""
    config, wide = model.config, len(ids)
    x = model.embedding.weight[ids] + model.positions.weight[:wide]
    allowed = torch.ones(wide, wide).tril().bool() if config.causal else torch.ones(wide, wide).bool()
    for block in model.blocks:
        assert isinstance(block, TinyBlock)
        site, group = block.attention, config.n_heads // block.attention.n_kv_heads
        heads = [
            HeadWeights(
                site.q_proj.weight.view(config.n_heads, site.d_head, -1)[head].T,
                site.k_proj.weight.view(site.n_kv_heads, site.d_head, -1)[head // group].T,
                site.v_proj.weight.view(site.n_kv_heads, site.d_head, -1)[head // group].T,
            )
            for head in range(config.n_heads)
        ]
        read = normed(x, block.attention_norm)
        added = multi_head(read, read, heads, site.o_proj.weight.T, allowed)
        x = x + added if config.residual else added
        if block.ffn is not None:
            up, _, down = block.ffn
            x = x + down(gelu(up(normed(x, block.ffn_norm))))
    return normed(x, model.norm) @ model.unembedding.weight.T


def normed(x: Tensor, norm: nn.Module) -> Tensor:
    if isinstance(norm, nn.Identity):
        return x
    assert isinstance(norm, nn.RMSNorm)
    return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt() * norm.weight


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_head": 3},
        {"norm": True},
        {"norm": True, "d_ff": 12, "n_heads": 2},
        {"d_ff": 12, "causal": False},
        {"residual": False, "n_heads": 2},
    ],
    ids=["plain", "grouped heads", "norm", "norm and FFN", "FFN, open", "attention alone"],
)
def test_it_is_the_definition_of_a_transformer(sizes: dict[str, Any]) -> None:
    model = TinyTransformer(TinyConfig(vocabulary=7, context=6, d_model=8, **sizes)).double()
    model.initialise(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name)))
    ids = [3, 1, 4, 1, 5]
    torch.testing.assert_close(model(torch.tensor([ids]))[0], by_definition(model, ids))


def test_initial_weights_are_scaled_by_input_width_and_biases_are_zero() -> None:
    model = TinyTransformer(TinyConfig(vocabulary=300, context=200, d_model=64, n_heads=2, d_ff=256, norm=True))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(5)
    gains = {name: weight.clone() for name, weight in model.named_parameters() if "norm" in name}
    model.initialise(4)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
        elif "norm" in name:
            assert torch.equal(weight, gains[name]), "a gain is no matrix"
        else:
            expected = 1.0 if name in ("embedding.weight", "positions.weight") else weight.shape[1] ** -0.5
            assert float(weight.detach().std()) == pytest.approx(expected, rel=0.05), name
    first = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.initialise(4)
    assert all(torch.equal(weight, first[name]) for name, weight in model.state_dict().items())
    model.initialise(5)
    assert not torch.equal(model.embedding.weight, first["embedding.weight"])


def test_parameters_are_counted() -> None:
    attention, ffn, norms = 4 * 8 * 8, 2 * 8 * 16 + 16 + 8, 2 * 8
    assert TinyTransformer(CONFIG).n_parameters() == 7 * 8 + 5 * 8 + 2 * (attention + ffn + norms) + 8 + 8 * 7


def test_adam_goes_on_with_another_rate() -> None:
    """Its memory of slopes is kept: only the size of a step changes."""
    ours, theirs = (nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64)) for _ in range(2))
    adam, reference = Adam([ours], 0.1), torch.optim.Adam([theirs], 0.1)
    for step in range(6):
        rate = 0.1 if step < 3 else 0.02
        adam.rate = reference.param_groups[0]["lr"] = rate
        adam.descend((ours**2).sum())
        reference.zero_grad()
        (theirs**2).sum().backward()
        reference.step()
        torch.testing.assert_close(ours, theirs)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """However many this machine gives, so that going back to them can be seen."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_one_thread_restores_the_number_of_threads() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_one_thread_restores_the_number_of_threads_after_an_error() -> None:
    with contextlib.suppress(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocabulary": 0}, "vocabulary=0, context=5"),
        ({"context": 0}, "context=0"),
        ({"n_layers": 0}, "n_layers=0"),
        ({"d_ff": -1}, "d_ff=-1 at least 0"),
    ],
)
def test_bad_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        TinyConfig(**{"vocabulary": 7, "context": 5, "d_model": 8} | sizes)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0] * 6], "6 tokens, but the context of this model is 5; use a larger context"),
        ([[0, 7]], "token ids 0…7: the vocabulary of this model is 0…6"),
        ([[3, -1]], "token ids -1…3: the vocabulary of this model is 0…6"),
    ],
)
def test_bad_ids(ids: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TinyTransformer(CONFIG)(torch.tensor(ids))


def test_texts_of_full_context_and_of_no_tokens() -> None:
    model = TinyTransformer(CONFIG)
    assert model(torch.tensor([[6, 0, 6, 0, 6]])).shape == (1, 5, 7)
    assert model.embed(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 3, 8)
