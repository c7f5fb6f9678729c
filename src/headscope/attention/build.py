"""``headscope learn build``: multi-head attention step by step, print every shape, and check it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from headscope.attention import reference
from headscope.attention.masks import causal
from headscope.attention.module import KVCache, MultiHeadAttention
from headscope.errors import ShapeError

TEXTS, TOKENS = 2, 6
WIDEST = 8192
TOLERANCE = 1e-5
SHADES = " ░▒▓█"
BOLD, DIM = 1, 2  # ANSI codes


class _Built(NamedTuple):
    """A module and a small batch of inputs."""

    module: MultiHeadAttention
    x: Tensor


@torch.no_grad()
def build(d_model: int, n_heads: int, n_kv_heads: int | None = None) -> int:
    """Print the steps and the checks; return 0 if all checks pass."""
    if d_model > WIDEST:
        raise ShapeError(
            f"{d_model=}: the weights are made and compared, so at most {WIDEST=} is built; see headscope card"
        )
    torch.manual_seed(0)
    module = MultiHeadAttention(d_model, n_heads, n_kv_heads)
    built = _Built(module, torch.randn(TEXTS, TOKENS, d_model))
    print(_style(f"Multi-head attention: {n_heads} heads of {module.d_head} in a model {d_model} wide", BOLD))
    _one_head(built)
    _many_heads(built)
    print(_title("Parameters"))
    print("\n".join("  " + line for line in str(module.parameter_table()).splitlines()))
    return _checks(built)


def _one_head(built: _Built) -> None:
    """Print the first head, by the definition."""
    module, x = built
    d_head, weights = module.d_head, _weights(module)[0]
    head = reference.one_head(x[0], x[0], weights, _past(x))
    print(_title("One head: every token attends to itself and to the tokens before it"))
    _step("x", x, f"{TEXTS} texts of {TOKENS} tokens")
    _step("W_Q, W_K, W_V", weights.W_Q, "the query, key and value matrices of this head")
    _step("q, k, v", x @ weights.W_Q, "a query, a key and a value for every token")
    _step("scores", x @ weights.W_Q @ (x @ weights.W_K).mT, f"q · k / √{d_head} for every query and key")
    _step("pattern", head.weights.expand(TEXTS, -1, -1), "softmax: each row sums to 1")
    _step("z", head.z.expand(TEXTS, -1, -1), "the values, weighted by the pattern")
    print("\n  its pattern on the first text: query ↓ key →")
    for row in head.weights.tolist():
        print("  " + " ".join(_shade(weight) for weight in row) + "   " + " ".join(f"{weight:.2f}" for weight in row))


def _many_heads(built: _Built) -> None:
    """Print all heads at once: split, attend, concatenate, and multiply by W_O."""
    module, x = built
    n_heads, d_head = module.n_heads, module.d_head
    q, k, _ = module.project(x)
    heads = [[reference.one_head(text, text, head, _past(x)).z for head in _weights(module)] for text in x]
    z = torch.stack([torch.stack(row) for row in heads])
    together = z.transpose(1, 2).flatten(2)
    print(_title(f"{n_heads} heads side by side"))
    _step("x · W_Q", module.q_proj(x), "one product makes the queries of all heads")
    _step("split: q", q, f"{n_heads * d_head} = {n_heads} heads × {d_head}")
    shared = "" if module.n_kv_heads == n_heads else f"each shared by {n_heads // module.n_kv_heads} heads"
    _step("split: k, v", k, shared or "keys and values in the same way")
    _step("attend: z", z, "every head on its own")
    _step("concatenate", together, f"{n_heads} × {d_head} side by side = {n_heads * d_head}")
    _step("W_O", module.o_proj.weight.T, "mixes the heads")
    _step("output", module.o_proj(together), "shape in = shape out")


def _checks(built: _Built) -> int:
    print(_title("Checks, and the largest difference between their two sides"))
    passed = True
    for claim, difference in _differences(built):
        fits = difference <= TOLERANCE
        passed = passed and fits
        print(f"  {'✓' if fits else '✗'} {claim:<76} {difference:.0e}")
    print(_title("All checks pass." if passed else "A check failed."))
    return 0 if passed else 1


def _differences(built: _Built) -> Iterator[tuple[str, float]]:
    """Yield each claim, and the largest difference between its two sides."""
    module, x = built
    W_O, mask = module.o_proj.weight.T, causal()
    output = module(x, mask=mask)
    loop = torch.stack([reference.multi_head(text, text, _weights(module), W_O, _past(x)) for text in x])
    yield "a loop over single heads = one batched module", _apart(loop + module.o_proj.bias, output)
    apart = module.split()
    yield (
        "split() into single heads: their outputs add up to the module's",
        _apart(torch.stack([head(x, mask=mask) for head in apart]).sum(0), output),
    )
    again = MultiHeadAttention.from_heads(apart, module.n_kv_heads)
    yield "from_heads() puts the same module together again", _apart(again(x, mask=mask), output)
    parts = module.by_head(x, mask=mask).parts
    yield (
        "each head's part through W_O, summed, plus the bias = the output",
        _apart(parts.sum(1) + module.o_proj.bias, output),
    )
    rows = module.patterns(x, mask=mask).sum(-1)
    yield "every row of every pattern sums to 1", _apart(rows, torch.ones_like(rows))
    yield "token by token with a cache = the whole text at once", _apart(_stepwise(built), output)
    if module.n_kv_heads == module.n_heads:
        theirs = module.to_torch()
        expected = theirs(x, x, x, attn_mask=~_past(x), need_weights=False)[0]
        yield "torch.nn.MultiheadAttention with these weights gives the same", _apart(expected, output)


def _stepwise(built: _Built) -> Tensor:
    module, x = built
    cache = KVCache(module, batch=TEXTS, capacity=TOKENS)
    rows = []
    for position in range(TOKENS):
        rows.append(module(x[:, position : position + 1], mask=causal(), cache=cache[0]))
        cache.advance(1)
    return torch.cat(rows, dim=1)


def _weights(module: MultiHeadAttention) -> list[reference.HeadWeights]:
    return [
        reference.HeadWeights(head.q_proj.weight.T, head.k_proj.weight.T, head.v_proj.weight.T)
        for head in module.split()
    ]


def _past(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _step(name: str, tensor: Tensor, why: str) -> None:
    shape = " × ".join(map(str, tensor.shape))
    print(f"  {name:<16}{shape:<20}{_style(why, DIM)}")


def _shade(weight: float) -> str:
    return SHADES[math.ceil(weight * (len(SHADES) - 1) - 0.01)] * 2


def _title(text: str) -> str:
    return "\n" + _style(text, BOLD)


def _style(text: str, code: int) -> str:
    plain = "NO_COLOR" in os.environ or not sys.stdout.isatty()
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"
