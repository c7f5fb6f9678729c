"""The Triton kernels: the flash-attention pass with statistics, single weights, and sums or maxima over listed keys.

Every mask is one interval of keys per row, ``low[i] ≤ j < high[i]``, so only the tiles at its edges are masked.
Scores are in base 2, and the running maximum is subtracted before exp2, so that the entropy needs only one more
multiply-add per element. Moments of the distance are taken about the middle of the tile that holds the row's maximum:
most of the weight is near it, so float32 is accurate at any length without a second pass.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-1e30)  # the first running maximum: finite, because 0 · ∞ would be NaN
HIDDEN = tl.constexpr(-1e38)  # a masked score: below LOWEST, and finite too


@triton.jit
def _base2(dots, scale, softcap, HAS_SOFTCAP: tl.constexpr):
    """Compute scores in base 2 from dot products. ``scale`` includes log2(e), and 1/softcap if there is one."""
    if HAS_SOFTCAP:
        return softcap * (1.0 - 2.0 / (tl.math.exp2(dots * scale) + 1.0))
    return dots * scale


@triton.jit
def _tile(
    acc, state, q, k_start, v_start, first, low, high, n_key, stride_k, stride_v, scale, softcap,
    D: tl.constexpr, DP: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    ENTROPY: tl.constexpr, DISTANCE: tl.constexpr, STRONGEST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add the keys ``first : first + BN`` to the running sums."""
    highest, total, expected, origin, one, two = state
    columns = first + tl.arange(0, BN)
    features = tl.arange(0, DP)
    k_at = k_start + columns[:, None] * stride_k + features[None, :]
    v_at = v_start + columns[:, None] * stride_v + features[None, :]
    if MASKED:
        there = (columns < n_key)[:, None] & (features < D)[None, :]
        k, v = tl.load(k_at, mask=there, other=0.0), tl.load(v_at, mask=there, other=0.0)
    elif D == DP:
        k, v = tl.load(k_at), tl.load(v_at)
    else:
        k = tl.load(k_at, mask=(features < D)[None, :], other=0.0)
        v = tl.load(v_at, mask=(features < D)[None, :], other=0.0)
    dots = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if MASKED or HAS_SOFTCAP:
        scores = _base2(dots, scale, softcap, HAS_SOFTCAP)
        if MASKED:
            seen = (columns[None, :] >= low[:, None]) & (columns[None, :] < high[:, None])
            scores = tl.where(seen, scores, HIDDEN)
        top = tl.max(scores, 1)
        risen = tl.maximum(highest, top)
        scores = scores - risen[:, None]
    else:
        top = tl.max(dots, 1) * scale
        risen = tl.maximum(highest, top)
        scores = dots * scale - risen[:, None]
    powers = tl.math.exp2(scores)
    sums = tl.sum(powers, 1)
    fall = highest - risen
    shrink = tl.math.exp2(fall)
    if ENTROPY:
        expected = (expected + fall * total) * shrink + tl.sum(powers * scores, 1)
    if DISTANCE or STRONGEST:
        middle = first + (BN - 1) / 2
        moved = tl.where(top > highest, middle, origin)
        if DISTANCE:
            inside = (tl.arange(0, BN) - (BN - 1) / 2)[None, :]
            turned = powers * inside
            firsts, seconds = tl.sum(turned, 1), tl.sum(turned * inside, 1)
            step, apart = moved - origin, middle - moved
            two = (two - step * (2 * one - step * total)) * shrink + seconds + apart * (2 * firsts + apart * sums)
            one = (one - step * total) * shrink + firsts + apart * sums
        origin = moved
    total = total * shrink + sums
    acc = tl.dot(powers.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
    return acc, (risen, total, expected, origin, one, two)


@triton.jit
def attend(
    Q, K, V, OUT, LSE, ENT, MEAN, SPREAD, WEIGHT, TILE, LOW, HIGH,
    n_query, n_key, n_kv_heads, scale, softcap, stride_mask,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, o_b, o_h, o_t,
    GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    HAS_LOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr, ENTROPY: tl.constexpr, DISTANCE: tl.constexpr,
    STRONGEST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attend for a block of rows of one head. Blocks with most keys start first; heads that share keys run together."""
    n_blocks = tl.cdiv(n_query, BM)
    section, within = tl.program_id(0) // (n_blocks * GROUP), tl.program_id(0) % (n_blocks * GROUP)
    block = n_blocks - 1 - within // GROUP
    item, kv = (section // n_kv_heads).to(tl.int64), (section % n_kv_heads).to(tl.int64)
    head = kv * GROUP + within % GROUP
    rows = block * BM + tl.arange(0, BM)
    held = tl.minimum(rows, n_query - 1)
    features = tl.arange(0, DP)
    q_at = Q + item * q_b + head * q_h + held[:, None] * q_t + features[None, :]
    q = tl.load(q_at) if D == DP else tl.load(q_at, mask=(features < D)[None, :], other=0.0)
    low, high = tl.load(LOW + item * stride_mask + held), tl.load(HIGH + item * stride_mask + held)
    end = tl.max(high, 0)
    clear_end = tl.min(high, 0) // BN * BN
    if HAS_LOW:
        begin = tl.min(low, 0) // BN * BN
        clear = tl.minimum(tl.maximum(tl.cdiv(tl.max(low, 0), BN) * BN, begin), end)
    else:
        begin, clear = 0, 0
    clear_end = tl.maximum(clear_end, clear)
    k_start, v_start = K + item * k_b + kv * k_h, V + item * v_b + kv * v_h
    zeros = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, DP], dtype=tl.float32)
    state = (zeros + LOWEST, zeros, zeros, zeros, zeros, zeros)
    if HAS_LOW:
        for first in range(begin, clear, BN):
            acc, state = _tile(
                acc, state, q, k_start, v_start, first, low, high, n_key, k_t, v_t, scale, softcap,
                D, DP, BN, True, HAS_SOFTCAP, ENTROPY, DISTANCE, STRONGEST, PRECISION,
            )  # fmt: skip
    for first in range(clear, clear_end, BN):
        acc, state = _tile(
            acc, state, q, k_start, v_start, first, low, high, n_key, k_t, v_t, scale, softcap,
            D, DP, BN, False, HAS_SOFTCAP, ENTROPY, DISTANCE, STRONGEST, PRECISION,
        )  # fmt: skip
    for first in range(clear_end, end, BN):
        acc, state = _tile(
            acc, state, q, k_start, v_start, first, low, high, n_key, k_t, v_t, scale, softcap,
            D, DP, BN, True, HAS_SOFTCAP, ENTROPY, DISTANCE, STRONGEST, PRECISION,
        )  # fmt: skip
    highest, total, expected, origin, one, two = state
    sees = total > 0
    share = tl.where(sees, 1.0 / tl.where(sees, total, 1.0), 0.0)
    real = rows < n_query
    o_at = OUT + item * o_b + head * o_h + rows[:, None] * o_t + features[None, :]
    tl.store(o_at, (acc * share[:, None]).to(OUT.dtype.element_ty), mask=real[:, None] & (features < D)[None, :])
    at = (item * n_kv_heads * GROUP + head) * n_query + rows
    log_total = tl.math.log2(tl.where(sees, total, 1.0))
    ln2 = 0.6931471805599453
    tl.store(LSE + at, tl.where(sees, (highest + log_total) * ln2, float("-inf")), mask=real)
    if ENTROPY:
        tl.store(ENT + at, tl.maximum((log_total - expected * share) * ln2, 0.0), mask=real)
    if DISTANCE:
        mean = one * share
        place = rows + (n_key - n_query)
        tl.store(MEAN + at, tl.where(sees, (place - origin) - mean, 0.0), mask=real)
        tl.store(SPREAD + at, tl.sqrt(tl.maximum(two * share - mean * mean, 0.0)), mask=real)
    if STRONGEST:
        tl.store(WEIGHT + at, share, mask=real)
        tl.store(TILE + at, tl.where(sees, (origin / BN).to(tl.int32), -1), mask=real)


@triton.jit
def single(
    Q, K, LSE, TARGET, MASS, LOW, HIGH, n_query, n_key, n_heads, scale, softcap, stride_mask, stride_target,
    q_b, q_h, q_t, k_b, k_h, k_t,
    GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, N: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
):  # fmt: skip
    """Compute the weight at one key per row, for N questions: one dot product each."""
    item, head = (tl.program_id(1) // n_heads).to(tl.int64), (tl.program_id(1) % n_heads).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    real, held = rows < n_query, tl.minimum(rows, n_query - 1)
    features = tl.arange(0, DP)
    width = (features < D)[None, :]
    q = tl.load(Q + item * q_b + head * q_h + held[:, None] * q_t + features[None, :], mask=width, other=0.0)
    low, high = tl.load(LOW + item * stride_mask + held), tl.load(HIGH + item * stride_mask + held)
    at = (item * n_heads + head) * n_query + held
    lse = tl.load(LSE + at) * 1.4426950408889634
    for n in tl.static_range(N):
        target = tl.load(TARGET + (item * stride_target) + n * n_query + held)
        found = (target >= low) & (target < high)
        key = tl.where(found, target, 0)
        k_at = K + item * k_b + (head // GROUP) * k_h + key[:, None] * k_t + features[None, :]
        k = tl.load(k_at, mask=width & found[:, None], other=0.0)
        dots = tl.sum(q.to(tl.float32) * k.to(tl.float32), 1)
        weight = tl.math.exp2(_base2(dots, scale, softcap, HAS_SOFTCAP) - lse)
        size = tl.num_programs(1).to(tl.int64) * n_query
        tl.store(MASS + n * size + at, tl.where(found, weight, 0.0), mask=real)


@triton.jit
def listed(
    Q, K, LSE, MASS, Q_ORDER, K_ORDER, START, STOP, n_query, n_key, n_heads, scale, softcap,
    order_b, keys_b, q_b, q_h, q_t, k_b, k_h, k_t,
    GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, EXCLUDE_SELF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum each row's weights over the keys ``START[n] : STOP[n]`` of ``K_ORDER``; rows are in the order ``Q_ORDER``."""
    item, head = (tl.program_id(1) // n_heads).to(tl.int64), (tl.program_id(1) % n_heads).to(tl.int64)
    n = tl.program_id(0) * BM + tl.arange(0, BM)
    held = item * order_b + tl.minimum(n, n_query - 1)
    rows, start, stop = tl.load(Q_ORDER + held), tl.load(START + held), tl.load(STOP + held)
    features = tl.arange(0, DP)
    width = (features < D)[None, :]
    q = tl.load(Q + item * q_b + head * q_h + rows[:, None] * q_t + features[None, :], mask=width, other=0.0)
    at = (item * n_heads + head) * n_query + rows
    lse = tl.load(LSE + at) * 1.4426950408889634
    k_start = K + item * k_b + (head // GROUP) * k_h
    mass = tl.zeros([BM], dtype=tl.float32)
    some = stop > start
    begin, end = tl.min(tl.where(some, start, n_key), 0), tl.max(tl.where(some, stop, 0), 0)
    for first in range(begin, end, BN):
        places = first + tl.arange(0, BN)
        keys = tl.load(K_ORDER + item * keys_b + places, mask=places < n_key, other=0)
        k = tl.load(k_start + keys[:, None] * k_t + features[None, :], mask=width, other=0.0)
        scores = _base2(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, HAS_SOFTCAP)
        counts = (places[None, :] >= start[:, None]) & (places[None, :] < stop[:, None])
        if EXCLUDE_SELF:
            counts = counts & (keys[None, :] != (rows + (n_key - n_query))[:, None])
        mass += tl.sum(tl.where(counts, tl.math.exp2(scores - lse[:, None]), 0.0), 1)
    tl.store(MASS + at, mass, mask=n < n_query)


@triton.jit
def strongest(
    Q, K, KEY, ORDER, TILE, LOW, HIGH, n_query, n_key, n_heads, scale, softcap, stride_mask, tile_size,
    q_b, q_h, q_t, k_b, k_h, k_t,
    GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Find the strongest key in each row's best tile. ``ORDER`` sorts the rows of all heads by that tile."""
    item, head = (tl.program_id(1) // n_heads).to(tl.int64), (tl.program_id(1) % n_heads).to(tl.int64)
    n = tl.program_id(0) * BM + tl.arange(0, BM)
    before = (item * n_heads + head) * n_query
    rows = (tl.load(ORDER + before + tl.minimum(n, n_query - 1)) - before).to(tl.int32)
    tile = tl.load(TILE + before + rows)
    start = tl.maximum(tile * tile_size, tl.load(LOW + item * stride_mask + rows))
    stop = tl.minimum((tile + 1) * tile_size, tl.load(HIGH + item * stride_mask + rows))
    features = tl.arange(0, DP)
    width = (features < D)[None, :]
    q = tl.load(Q + item * q_b + head * q_h + rows[:, None] * q_t + features[None, :], mask=width, other=0.0)
    k_start = K + item * k_b + (head // GROUP) * k_h
    best, key = tl.zeros([BM], dtype=tl.float32) + LOWEST, tl.zeros([BM], dtype=tl.int32) - 1
    begin, end = tl.maximum(tl.min(tile, 0), 0) * tile_size, tl.minimum((tl.max(tile, 0) + 1) * tile_size, n_key)
    for first in range(begin, end, BN):
        places = first + tl.arange(0, BN)
        k_at = k_start + places[:, None] * k_t + features[None, :]
        k = tl.load(k_at, mask=width & (places < n_key)[:, None], other=0.0)
        scores = _base2(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, HAS_SOFTCAP)
        counts = (places[None, :] >= start[:, None]) & (places[None, :] < stop[:, None])
        top, inside = tl.max(tl.where(counts, scores, HIDDEN), 1, return_indices=True)
        key = tl.where(top > best, first + inside, key)
        best = tl.maximum(top, best)
    tl.store(KEY + before + rows, key.to(tl.int64), mask=n < n_query)
