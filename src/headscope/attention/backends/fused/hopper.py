"""The flash-attention pass for Hopper GPUs, in Gluon, with explicit warp specialisation.

One group of warps copies tiles of keys and values to shared memory; two others compute 64 rows each. These two do not
wait for each other, so that one's softmax and statistics overlap with the other's matrix products; and each starts the
dot products of its next tile before the softmax of the last. The arithmetic and arguments are those of
``kernels.attend``.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LOWEST = gl.constexpr(-1e30)
HIDDEN = gl.constexpr(-1e38)
ROWS = gl.constexpr(128)  # of a block: 64 for each of the two groups
KEYS = gl.constexpr(128)  # of a tile
STAGES = gl.constexpr(3)  # tiles in flight
DOTS = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))
REGISTERS = 168  # per thread at the start; later 240 in the two computing groups and 24 in the copying one


def described(tensor: Tensor, rows: int, width: int) -> Any:
    """Describe tiles of ``[batch, head, position, d_head]`` to the tensor memory accelerator, which pads with zeros."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=4)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, rows, width], layout)


@gluon.jit
def _fetch(K, V, ring, item, kv, begin, end):
    """Copy tiles of keys and values to shared memory as buffers become free."""
    k_tiles, k_full, k_free, v_tiles, v_full, v_free = ring
    n = 0
    for first in range(begin, end, KEYS):
        stage, turn = n % STAGES, (n // STAGES & 1) ^ 1
        mbarrier.wait(k_free.index(stage), turn)
        mbarrier.expect(k_full.index(stage), K.block_type.nbytes)
        tma.async_copy_global_to_shared(K, [item, kv, first, 0], k_full.index(stage), k_tiles.index(stage))
        mbarrier.wait(v_free.index(stage), turn)
        mbarrier.expect(v_full.index(stage), V.block_type.nbytes)
        tma.async_copy_global_to_shared(V, [item, kv, first, 0], v_full.index(stage), v_tiles.index(stage))
        n += 1  # noqa: SIM113 - compiled, not a Python loop


@gluon.jit
def _ask(q, ring, n, more, DP: gl.constexpr):
    """Start the dot products of tile ``n``. Without ``more`` tiles the keys are stale, and the result is not used."""
    mbarrier.wait(ring[1].index(n % STAGES), n // STAGES & 1, pred=more)
    keys = ring[0].index(n % STAGES).reshape([KEYS, DP]).permute((1, 0))
    return warpgroup_mma(q, keys, gl.zeros([64, KEYS], gl.float32, DOTS), use_acc=False, is_async=True)


@gluon.jit
def _moments(powers):
    """Compute Σ p, Σ p·x and Σ p·x² per row; x = 8·far + near is the offset from the tile's middle, far a constant."""
    eighths = gl.reshape(powers, [64, KEYS // 8, 8])
    whole: gl.constexpr = eighths.type.layout
    far = gl.arange(0, KEYS // 8, gl.SliceLayout(0, gl.SliceLayout(2, whole))) - (KEYS // 8 - 1) / 2
    far = far.expand_dims(0).expand_dims(2)
    zeroth, first, second = gl.sum(eighths, 1), gl.sum(eighths * far, 1), gl.sum(eighths * (far * far), 1)
    rows: gl.constexpr = gl.SliceLayout(1, DOTS)
    place: gl.constexpr = zeroth.type.layout
    near = (gl.arange(0, 8, gl.SliceLayout(0, place)) - 3.5)[None, :]
    sums = gl.convert_layout(gl.sum(zeroth, 1), rows)
    firsts = gl.convert_layout(gl.sum(8 * first + near * zeroth, 1), rows)
    seconds = gl.convert_layout(gl.sum(64 * second + near * (16 * first + near * zeroth), 1), rows)
    return sums, firsts, seconds


@gluon.jit
def _fold(
    state, dots, at, low, high, scale,
    MASKED: gl.constexpr, ENTROPY: gl.constexpr, DISTANCE: gl.constexpr, STRONGEST: gl.constexpr,
):  # fmt: skip
    """Add the keys ``at : at + KEYS`` to the running sums."""
    highest, total, expected, origin, one, two = state
    if MASKED:
        columns = at + gl.arange(0, KEYS, gl.SliceLayout(0, DOTS))
        seen = (columns[None, :] >= low[:, None]) & (columns[None, :] < high[:, None])
        scores = gl.where(seen, dots * scale, HIDDEN)
        top = gl.max(scores, 1)
        risen = gl.maximum(highest, top)
        scores = scores - risen[:, None]
    else:
        top = gl.max(dots, 1) * scale
        risen = gl.maximum(highest, top)
        scores = dots * scale - risen[:, None]
    powers = gl.exp2(scores)
    fall = highest - risen
    shrink = gl.exp2(fall)
    if ENTROPY:
        expected = (expected + fall * total) * shrink + gl.sum(powers * scores, 1)
    middle = at + (KEYS - 1) / 2
    moved = gl.where(top > highest, middle, origin) if DISTANCE or STRONGEST else origin
    if DISTANCE:
        sums, firsts, seconds = _moments(powers)
        step, apart = moved - origin, middle - moved
        two = (two - step * (2 * one - step * total)) * shrink + seconds + apart * (2 * firsts + apart * sums)
        one = (one - step * total) * shrink + firsts + apart * sums
    else:
        sums = gl.sum(powers, 1)
    return powers, shrink, (risen, total * shrink + sums, expected, moved, one, two)


@gluon.jit
def _tiles(
    acc, state, dots, n, q, ring, begin, end, last, low, high, scale, DP: gl.constexpr,
    MASKED: gl.constexpr, ENTROPY: gl.constexpr, DISTANCE: gl.constexpr, STRONGEST: gl.constexpr,
):  # fmt: skip
    """Process the tiles from ``begin`` to ``end``. ``dots`` are the first tile's; those of the next are returned."""
    _, _, k_free, v_tiles, v_full, v_free = ring
    Z: gl.constexpr = acc.type.layout
    for at in range(begin, end, KEYS):
        stage, more = n % STAGES, at + KEYS < last
        ahead = _ask(q, ring, n + 1, more, DP)
        powers, shrink, state = _fold(state, dots, at, low, high, scale, MASKED, ENTROPY, DISTANCE, STRONGEST)
        weights = gl.convert_layout(powers.to(v_tiles.dtype), gl.DotOperandLayout(0, Z, 2))
        acc = acc * gl.convert_layout(shrink, gl.SliceLayout(1, Z))[:, None]
        mbarrier.wait(v_full.index(stage), n // STAGES & 1)
        acc = warpgroup_mma(weights, v_tiles.index(stage).reshape([KEYS, DP]), acc, is_async=True)
        dots, acc = warpgroup_mma_wait(0, deps=[ahead, acc])
        gl.thread_barrier()  # one thread signals for all, so all must have arrived
        mbarrier.arrive(v_free.index(stage), count=1)
        mbarrier.arrive(k_free.index((n + 1) % STAGES), count=1, pred=more)
        n += 1
    return acc, state, dots, n


@gluon.jit
def _attend(
    q_tile, q_full, ring, outputs, LOW, HIGH, where, strides, bounds, scale,
    PART: gl.constexpr, D: gl.constexpr, DP: gl.constexpr, HAS_LOW: gl.constexpr,
    ENTROPY: gl.constexpr, DISTANCE: gl.constexpr, STRONGEST: gl.constexpr,
):  # fmt: skip
    """Attend for the 64 rows of one group of warps."""
    item, _, _, row, n_query, _, stride_mask = where
    begin, clear, clear_end, end = bounds
    lines: gl.constexpr = gl.SliceLayout(1, DOTS)
    held = gl.minimum(row + PART * 64 + gl.arange(0, 64, lines), n_query - 1)
    low, high = gl.load(LOW + item * stride_mask + held), gl.load(HIGH + item * stride_mask + held)
    zeros = gl.zeros([64], gl.float32, lines)
    state = (zeros + LOWEST, zeros, zeros, zeros, zeros, zeros)
    acc = gl.zeros([64, DP], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DP, 16]))
    mbarrier.wait(q_full, 0)
    q = q_tile.reshape([ROWS, DP]).slice(PART * 64, 64)
    dots = warpgroup_mma_wait(0, deps=[_ask(q, ring, 0, begin < end, DP)])
    gl.thread_barrier()
    mbarrier.arrive(ring[2].index(0), count=1, pred=begin < end)
    n = 0
    if HAS_LOW:
        acc, state, dots, n = _tiles(
            acc, state, dots, n, q, ring, begin, clear, end, low, high, scale, DP, True, ENTROPY, DISTANCE, STRONGEST
        )
    acc, state, dots, n = _tiles(
        acc, state, dots, n, q, ring, clear, clear_end, end, low, high, scale, DP, False, ENTROPY, DISTANCE, STRONGEST
    )
    acc, state, dots, n = _tiles(
        acc, state, dots, n, q, ring, clear_end, end, end, low, high, scale, DP, True, ENTROPY, DISTANCE, STRONGEST
    )
    _store(acc, state, outputs, where, strides, PART, D, DP, ENTROPY, DISTANCE, STRONGEST)


@gluon.jit
def _store(
    acc, state, outputs, where, strides, PART: gl.constexpr, D: gl.constexpr, DP: gl.constexpr,
    ENTROPY: gl.constexpr, DISTANCE: gl.constexpr, STRONGEST: gl.constexpr,
):  # fmt: skip
    """Divide by the totals and write the results."""
    OUT, LSE, ENT, MEAN, SPREAD, WEIGHT, TILE = outputs
    item, head, n_heads, row, n_query, n_key, _ = where
    o_b, o_h, o_t = strides
    highest, total, expected, origin, one, two = state
    sees = total > 0
    share = gl.where(sees, 1.0 / gl.where(sees, total, 1.0), 0.0)
    Z: gl.constexpr = acc.type.layout
    features = gl.arange(0, DP, gl.SliceLayout(0, Z))
    z_rows = row + PART * 64 + gl.arange(0, 64, gl.SliceLayout(1, Z))
    o_at = OUT + item.to(gl.int64) * o_b + head.to(gl.int64) * o_h + z_rows[:, None] * o_t + features[None, :]
    z = acc * gl.convert_layout(share, gl.SliceLayout(1, Z))[:, None]
    gl.store(o_at, z.to(OUT.dtype.element_ty), mask=(z_rows < n_query)[:, None] & (features < D)[None, :])
    rows = row + PART * 64 + gl.arange(0, 64, gl.SliceLayout(1, DOTS))
    real, at = rows < n_query, (item * n_heads + head).to(gl.int64) * n_query + rows
    log_total = gl.log2(gl.where(sees, total, 1.0))
    ln2: gl.constexpr = 0.6931471805599453
    gl.store(LSE + at, gl.where(sees, (highest + log_total) * ln2, float("-inf")), mask=real)
    if ENTROPY:
        gl.store(ENT + at, gl.maximum((log_total - expected * share) * ln2, 0.0), mask=real)
    if DISTANCE:
        mean = one * share
        gl.store(MEAN + at, gl.where(sees, (rows + (n_key - n_query) - origin) - mean, 0.0), mask=real)
        gl.store(SPREAD + at, gl.sqrt(gl.maximum(two * share - mean * mean, 0.0)), mask=real)
    if STRONGEST:
        gl.store(WEIGHT + at, share, mask=real)
        gl.store(TILE + at, gl.where(sees, (origin / KEYS).to(gl.int32), -1), mask=real)


@gluon.jit
def _barriers(n: gl.constexpr, count: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [n, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(n):
        mbarrier.init(bars.index(i), count=count)
    return bars


@gluon.jit
def attend(
    Q, K, V, OUT, LSE, ENT, MEAN, SPREAD, WEIGHT, TILE, LOW, HIGH,
    n_query, n_key, n_kv_heads, scale, stride_mask, o_b, o_h, o_t,
    GROUP: gl.constexpr, D: gl.constexpr, DP: gl.constexpr, HAS_LOW: gl.constexpr,
    ENTROPY: gl.constexpr, DISTANCE: gl.constexpr, STRONGEST: gl.constexpr,
):  # fmt: skip
    """Attend for a block of rows of one head. Blocks with most keys start first; heads that share keys run together."""
    n_blocks = gl.cdiv(n_query, ROWS)
    section, within = gl.program_id(0) // (n_blocks * GROUP), gl.program_id(0) % (n_blocks * GROUP)
    row = (n_blocks - 1 - within // GROUP) * ROWS
    item, kv = section // n_kv_heads, section % n_kv_heads
    head = kv * GROUP + within % GROUP
    held = gl.minimum(row + gl.arange(0, ROWS, gl.BlockedLayout([1], [32], [4], [0])), n_query - 1)
    high = gl.load(HIGH + item * stride_mask + held)
    end, clear_end = gl.max(high, 0), gl.min(high, 0) // KEYS * KEYS
    begin, clear = 0, 0
    if HAS_LOW:
        low = gl.load(LOW + item * stride_mask + held)
        begin = gl.min(low, 0) // KEYS * KEYS
        clear = gl.minimum(gl.maximum(gl.cdiv(gl.max(low, 0), KEYS) * KEYS, begin), end)
    clear_end = gl.maximum(clear_end, clear)
    q_tile = gl.allocate_shared_memory(Q.dtype, Q.block_type.shape, Q.layout)
    k_tiles = gl.allocate_shared_memory(K.dtype, [STAGES, 1, 1, KEYS, DP], K.layout)
    v_tiles = gl.allocate_shared_memory(V.dtype, [STAGES, 1, 1, KEYS, DP], V.layout)
    q_full = _barriers(1, 1).index(0)
    ring = (k_tiles, _barriers(STAGES, 1), _barriers(STAGES, 2), v_tiles, _barriers(STAGES, 1), _barriers(STAGES, 2))
    gl.thread_barrier()
    mbarrier.expect(q_full, Q.block_type.nbytes)
    tma.async_copy_global_to_shared(Q, [item, head, row, 0], q_full, q_tile)
    outputs, strides = (OUT, LSE, ENT, MEAN, SPREAD, WEIGHT, TILE), (o_b, o_h, o_t)
    where, bounds = (item, head, n_kv_heads * GROUP, row, n_query, n_key, stride_mask), (begin, clear, clear_end, end)
    gl.warp_specialize(
        [
            (_attend, (q_tile, q_full, ring, outputs, LOW, HIGH, where, strides, bounds, scale,
                       0, D, DP, HAS_LOW, ENTROPY, DISTANCE, STRONGEST)),
            (_attend, (q_tile, q_full, ring, outputs, LOW, HIGH, where, strides, bounds, scale,
                       1, D, DP, HAS_LOW, ENTROPY, DISTANCE, STRONGEST)),
            (_fetch, (K, V, ring, item, kv, begin, end)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
