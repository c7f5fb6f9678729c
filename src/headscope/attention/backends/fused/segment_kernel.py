"""The Triton kernel that sums the statistics of many layers over segments of rows: a scan's pieces of documents."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _fold(state, values, valid):
    """Add a tile ``[quantity, column]`` to sums, squares and extremes of its quantities; return its largest columns."""
    total, square, high, low = state
    wide = tl.where(valid, values, 0.0).to(tl.float64)
    top, at = tl.max(tl.where(valid, values, float("-inf")), 1, return_indices=True)
    bottom = tl.min(tl.where(valid, values, float("inf")), 1)
    state = (total + tl.sum(wide, 1), square + tl.sum(wide * wide, 1), tl.maximum(high, top), tl.minimum(low, bottom))
    return state, top > high, at


@triton.jit
def _write(state, SUMS, SQUARES, HIGH, LOW, at, real):
    total, square, high, low = state
    tl.store(SUMS + at, total, mask=real)
    tl.store(SQUARES + at, square, mask=real)
    tl.store(HIGH + at, high.to(tl.float64), mask=real)
    tl.store(LOW + at, low.to(tl.float64), mask=real)


@triton.jit
def segments(
    VALUES, KEY, VALID, SHARES, ITSELF, SEGMENTS, SUMS, SQUARES, HIGH, LOW, COUNT, ENTROPY, DISTANCE,
    SCORE, COLUMN, STRONGEST, n_rows, n_heads, n_query, n_segments, size, itself_at, width,
    T: tl.constexpr, N: tl.constexpr, QP: tl.constexpr, NP: tl.constexpr, BLOCK: tl.constexpr,
    ENTROPY_BINS: tl.constexpr, DISTANCE_BINS: tl.constexpr, BINS: tl.constexpr,
):  # fmt: skip
    """One segment in one head of one layer. Quantities are ``T`` traits, ``N`` masses, and a null for each mass."""
    segment, head = tl.program_id(0), tl.program_id(1)
    layer, within, n_all = head // n_heads, head % n_heads, tl.num_programs(1)
    row = tl.load(SEGMENTS + segment * 3)
    start, stop = tl.load(SEGMENTS + segment * 3 + 1), tl.load(SEGMENTS + segment * 3 + 2)
    base = ((layer * n_rows + row).to(tl.int64) * n_heads + within) * n_query
    quantity, null = tl.arange(0, QP), tl.arange(0, NP)
    seen, asked = quantity < T + N, null < N
    itself = tl.load(ITSELF + null, mask=asked, other=0.0)
    valid_at = VALID + row.to(tl.int64) * (T + N) * n_query
    zeros, blank = tl.zeros([QP], dtype=tl.float64), tl.zeros([QP], dtype=tl.float32)
    state = (zeros, zeros, blank + float("-inf"), blank + float("inf"))
    none, empty = tl.zeros([NP], dtype=tl.float64), tl.zeros([NP], dtype=tl.float32)
    nulls = (none, none, empty + float("-inf"), empty + float("inf"))
    best = tl.zeros([QP], dtype=tl.int32) + start
    count = tl.zeros([QP], dtype=tl.int32)
    by_entropy, by_distance = tl.zeros([BINS], dtype=tl.int32), tl.zeros([BINS], dtype=tl.int32)
    for first in range(start, stop, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        inside = columns < stop
        here = seen[:, None] & inside[None, :]
        valid = tl.load(valid_at + quantity[:, None] * n_query + columns[None, :], mask=here, other=0) != 0
        values = tl.load(
            VALUES + quantity[:, None].to(tl.int64) * size + base + columns[None, :], mask=here, other=0.0
        )  # fmt: skip
        state, better, at = _fold(state, values, valid)
        best = tl.where(better, first + at, best)
        count += tl.sum(valid.to(tl.int32), 1)
        own = tl.load(VALUES + itself_at * size + base + columns, mask=inside, other=0.0)
        there = asked[:, None] & inside[None, :]
        share = tl.load(
            SHARES + (row.to(tl.int64) * N + null[:, None]) * n_query + columns[None, :], mask=there, other=0.0
        )  # fmt: skip
        answers = tl.load(valid_at + (T + null[:, None]) * n_query + columns[None, :], mask=there, other=0) != 0
        nulls, _, _ = _fold(nulls, share * (1.0 - itself[:, None] * own[None, :]), answers)
        counted = tl.load(valid_at + columns, mask=inside, other=0) != 0
        entropy = tl.load(VALUES + base + columns, mask=inside, other=0.0)
        near = (entropy / width).to(tl.int32)
        near = tl.minimum(tl.maximum(near, 0), ENTROPY_BINS - 1)
        by_entropy += tl.histogram(tl.where(counted, near, BINS - 1), BINS)
        far = tl.maximum(tl.abs(tl.load(VALUES + size + base + columns, mask=inside, other=0.0)), 0.00390625)
        power = (far.to(tl.int32, bitcast=True) >> 23) - 127  # floor of the logarithm: the exponent of the number
        power = tl.minimum(tl.maximum(power + 2, 0), DISTANCE_BINS - 1)
        by_distance += tl.histogram(tl.where(counted, power, BINS - 1), BINS)
    at = (segment * (T + 2 * N)).to(tl.int64) * n_all + head
    _write(state, SUMS, SQUARES, HIGH, LOW, at + quantity * n_all, seen)
    _write(nulls, SUMS, SQUARES, HIGH, LOW, at + (T + N + null) * n_all, asked)
    bins, place = tl.arange(0, BINS), (segment.to(tl.int64) * n_all + head)
    tl.store(ENTROPY + place * ENTROPY_BINS + bins, by_entropy, mask=bins < ENTROPY_BINS)
    tl.store(DISTANCE + place * DISTANCE_BINS + bins, by_distance, mask=bins < DISTANCE_BINS)
    mass = seen & (quantity >= T)
    top = ((quantity - T) * n_all + head).to(tl.int64) * n_segments + segment
    tl.store(SCORE + top, state[2], mask=mass)
    tl.store(COLUMN + top, best.to(tl.int64), mask=mass)
    tl.store(STRONGEST + top, tl.load(KEY + base + best, mask=mass, other=0), mask=mass)
    tl.store(COUNT + segment * (T + N) + quantity, count.to(tl.int64), mask=seen & (head == 0))
