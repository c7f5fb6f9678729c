"""The lab's tiny transformer and its optimiser."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from headscope.attention.reference import HeadWeights, multi_head
from headscope.lab.teach.tiny_transformer import Adam, TinyBlock, TinyConfig, TinyTransformer

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
