"""Sharing KV heads by averaging: exact where the heads are equal."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headscope.attention.module import MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.errors import ShapeError
from headscope.lab.teach.kv_sharing import by_groups, kv_bytes_per_token, share, share_heads
from headscope.lab.teach.tiny_transformer import TinyConfig, TinyTransformer


def attention() -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(32, 8, d_head=4, bias=True, rope=Rope(4), qk_norm=True)


@pytest.mark.parametrize(("before", "after"), [(8, 4), (8, 2), (4, 2), (4, 1), (4, 4)])
def test_each_kv_head_is_the_mean_of_the_neighbours_it_replaces(before: int, after: int) -> None:
    torch.manual_seed(1)
    whole = MultiHeadAttention(32, 8, before, d_head=4)
    shared, group = share_heads(whole, after), before // after
    for name in ("k_proj", "v_proj"):
        ours, theirs = (getattr(each, name).weight.view(-1, 4, 32) for each in (shared, whole))
        assert len(ours) == after
        for head in range(after):
            torch.testing.assert_close(ours[head], theirs[head * group : (head + 1) * group].mean(0))


def test_everything_but_keys_and_values_stays() -> None:
    whole = MultiHeadAttention(32, 8, d_head=4, bias=True, out_bias=False, d_context=12, dropout=0.25, qk_norm=True)
    whole.double().eval()
    shared = share_heads(whole, 2)
    assert (shared.d_context, shared.dropout, shared.o_proj.bias, shared.training) == (12, 0.25, None, False)
    assert shared.q_proj.weight.dtype == shared.k_proj.weight.dtype == torch.float64
    kept = {name: weight for name, weight in whole.state_dict().items() if name[:6] not in ("k_proj", "v_proj")}
    assert all(torch.equal(weight, shared.state_dict()[name]) for name, weight in kept.items())
    assert share_heads(whole.train(), 2).training
    turned = attention()
    assert share_heads(turned, 2).rope is turned.rope


def test_sharing_copies_the_model_and_measures_without_gradients() -> None:
    model = TinyTransformer(TinyConfig(vocabulary=11, context=6, d_model=32, n_layers=3, n_heads=8, n_kv_heads=4))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    counts, slopes = [], []

    def loss(each: TinyTransformer) -> float:
        counts.append([each.attention(layer).n_kv_heads for layer in range(3)])
        slopes.append(torch.is_grad_enabled())
        return 1 / 3

    rows = by_groups(model, loss)
    assert counts == [[4] * 3, [2] * 3, [1] * 3]
    assert slopes == [False] * 3
    assert [(row.attention, row.loss) for row in rows] == [("GQA", 0.3333), ("GQA", 0.3333), ("MQA", 0.3333)]
    assert [row.parameters for row in rows] == [share(model, count).n_parameters() for count in (4, 2, 1)]
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert kv_bytes_per_token(model) == 3 * 2 * 4 * 4 * 2, "layers, K and V, heads, d_head, bytes"


def test_every_count_from_mha_to_mqa() -> None:
    model = TinyTransformer(TinyConfig(vocabulary=11, context=6, d_model=32, n_layers=2, n_heads=8))
    model.initialise(0)
    ids = torch.randint(11, (4, 6), generator=torch.Generator().manual_seed(1))
    target = model(ids).detach()
    rows = by_groups(model, lambda each: float((each(ids) - target).square().mean()))
    assert [(row.n_kv_heads, row.attention) for row in rows] == [(8, "MHA"), (4, "GQA"), (2, "GQA"), (1, "MQA")]
    assert rows[0].loss == 0
    assert 0 < rows[1].loss < rows[3].loss
    assert [row.kv_bytes_per_token for row in rows] == [2 * 2 * 32 * 2 // share for share in (1, 2, 4, 8)]
    assert rows[3].parameters < rows[0].parameters
    assert kv_bytes_per_token(model) == rows[0].kv_bytes_per_token
    assert rows[0].attention == "MHA"
    assert share(model, 2).attention().n_kv_heads == 2
    assert model.attention().n_kv_heads == 8


def test_bad_counts() -> None:
    with pytest.raises(ShapeError, match="8 KV heads cannot be averaged into 3; use a divisor of 8"):
        share_heads(attention(), 3)
    with pytest.raises(ShapeError, match="8 KV heads cannot be averaged into 0"):
        share_heads(attention(), 0)
    with pytest.raises(ShapeError, match="8 KV heads cannot be averaged into 16"):
        share_heads(attention(), 16)
    with pytest.raises(ShapeError, match="Linear has no MultiHeadAttention"):
        share(nn.Linear(2, 2), 1)
    with pytest.raises(ShapeError, match="Linear has no MultiHeadAttention"):
        by_groups(nn.Linear(2, 2), lambda _: 0.0)
