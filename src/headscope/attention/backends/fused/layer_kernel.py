"""The Triton kernel for short texts: every statistic and question of every head of many layers, in one launch.

It reads q and k alone, since z has been computed in the forward pass. A question's mass is summed where labels are
equal, tile by tile, so that nothing is sorted and nobody waits for the labels. The arithmetic is that of
``kernels.attend``, except that moments of the distance are taken about the row's strongest key so far: a row whose
weight is on one key then has a standard deviation of exactly zero.
"""

from __future__ import annotations

import triton
import triton.language as tl

from headscope.attention.backends.fused.kernels import HIDDEN, LOWEST, _base2


@triton.jit
def _fold(state, scores, first, columns):
    """Add a tile of masked scores to the running sums; return its powers of two, and the factor on earlier ones."""
    highest, total, expected, key, one, two = state
    top, inside = tl.max(scores, 1, return_indices=True)
    risen = tl.maximum(highest, top)
    scores = scores - risen[:, None]
    powers = tl.math.exp2(scores)
    sums = tl.sum(powers, 1)
    fall = highest - risen
    shrink = tl.math.exp2(fall)
    expected = (expected + fall * total) * shrink + tl.sum(powers * scores, 1)
    moved = tl.where(top > highest, first + inside, key)
    apart = columns.to(tl.float32)[None, :] - moved.to(tl.float32)[:, None]
    turned = powers * apart
    step = (moved - key).to(tl.float32)
    two = (two - step * (2 * one - step * total)) * shrink + tl.sum(turned * apart, 1)
    one = (one - step * total) * shrink + tl.sum(turned, 1)
    return powers, shrink, (risen, total * shrink + sums, expected, moved, one, two)


@triton.jit
def _masses(
    mass, powers, shrink, asks, labels, columns, held, itself, n_query, n_key,
    BM: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, EXCLUDE_SELF: tl.constexpr,
):  # fmt: skip
    """Add a tile to the mass of each question. ``EXCLUDE_SELF`` has one bit per question."""
    mass = mass * shrink[:, None]
    number = tl.arange(0, NP)[None, :]
    others = columns[None, :] != itself[:, None]
    for n in tl.static_range(N):
        asked = tl.load(asks + n * n_query + held)
        label = tl.load(labels + n * n_key + columns, mask=columns < n_key, other=-1)
        counts = asked[:, None] == label[None, :]
        if (EXCLUDE_SELF >> n) & 1:
            counts = counts & others
        found = tl.sum(tl.where(counts, powers, 0.0), 1)
        mass += tl.where(number == n, tl.where(asked == -1, 0.0, found)[:, None], 0.0)
    return mass


@triton.jit
def layers(
    Q, K, LSE, ENT, MEAN, STD, WEIGHT, KEY, MASS, LOW, HIGH, ASKS, LABELS,
    n_query, n_key, n_kv_heads, n_masks, n_texts, scale, softcap, q_i, q_h, q_t, k_i, k_h, k_t,
    GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
    N: tl.constexpr, NP: tl.constexpr, EXCLUDE_SELF: tl.constexpr,
):  # fmt: skip
    """Compute a block of rows of one head. An item is one text in one layer; texts repeat from layer to layer."""
    n_blocks, n_heads = tl.cdiv(n_query, BM), n_kv_heads * GROUP
    within = tl.program_id(0) % n_heads
    block = n_blocks - 1 - tl.program_id(0) // n_heads % n_blocks
    item, head = (tl.program_id(0) // (n_heads * n_blocks)).to(tl.int64), within.to(tl.int64)
    rows = block * BM + tl.arange(0, BM)
    held = tl.minimum(rows, n_query - 1)
    features = tl.arange(0, DP)
    width = (features < D)[None, :]
    q = tl.load(Q + item * q_i + head * q_h + held[:, None] * q_t + features[None, :], mask=width, other=0.0)
    mask_at = item % n_masks * n_query + held
    low, high = tl.load(LOW + mask_at), tl.load(HIGH + mask_at)
    k_start = K + item * k_i + (head // GROUP) * k_h
    asks, labels = ASKS + item % n_texts * N * n_query, LABELS + item % n_texts * N * n_key
    itself = rows + (n_key - n_query)
    zeros = tl.zeros([BM], dtype=tl.float32)
    state = (zeros + LOWEST, zeros, zeros, tl.zeros([BM], dtype=tl.int32) - 1, zeros, zeros)
    mass = tl.zeros([BM, NP], dtype=tl.float32)
    for first in range(tl.min(low, 0) // BN * BN, tl.max(high, 0), BN):
        columns = first + tl.arange(0, BN)
        k_at = k_start + columns[:, None] * k_t + features[None, :]
        k = tl.load(k_at, mask=(columns < n_key)[:, None] & width, other=0.0)
        scores = _base2(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, HAS_SOFTCAP)
        seen = (columns[None, :] >= low[:, None]) & (columns[None, :] < high[:, None])
        powers, shrink, state = _fold(state, tl.where(seen, scores, HIDDEN), first, columns)
        mass = _masses(
            mass, powers, shrink, asks, labels, columns, held, itself, n_query, n_key, BM, N, NP, EXCLUDE_SELF
        )
    highest, total, expected, key, one, two = state
    sees = total > 0
    share = tl.where(sees, 1.0 / tl.where(sees, total, 1.0), 0.0)
    log_total = tl.math.log2(tl.where(sees, total, 1.0))
    mean = one * share
    real = rows < n_query
    at = (item * n_heads + head) * n_query + rows
    ln2 = 0.6931471805599453
    tl.store(LSE + at, tl.where(sees, (highest + log_total) * ln2, float("-inf")), mask=real)
    tl.store(ENT + at, tl.maximum((log_total - expected * share) * ln2, 0.0), mask=real)
    tl.store(MEAN + at, tl.where(sees, (itself - key) - mean, 0.0), mask=real)
    tl.store(STD + at, tl.sqrt(tl.maximum(two * share - mean * mean, 0.0)), mask=real)
    tl.store(WEIGHT + at, share, mask=real)
    tl.store(KEY + at, key.to(tl.int64), mask=real)
    number = tl.arange(0, NP)[None, :]
    size = tl.num_programs(0).to(tl.int64) // n_blocks * n_query
    tl.store(MASS + number * size + at[:, None], mass * share[:, None], mask=real[:, None] & (number < N))
