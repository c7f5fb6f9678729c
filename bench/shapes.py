"""Observing at the head sizes of other models, and within windows: ``python bench/shapes.py`` (GPU).

*Everything* is as in ``bench/observe.py``: the output, every statistic and five questions of every head, beside cuDNN's
attention, in bfloat16 and causal. A window is beside PyTorch's flex attention with the same window, unobserved.
``--device cpu --lengths 256`` tries the program itself: float32 beside SDPA, and flex attention uncompiled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measure import interleaved, machine, working, write
from observe import CAUSAL, Problem, _with
from torch.nn.attention import SDPBackend

from headscope.attention.engine import observe
from headscope.attention.masks import causal, window
from headscope.attention.scores import Scores

SHAPES = ((32, 8, 128), (12, 12, 64), (16, 8, 256), (8, 1, 128), (32, 8, 64), (16, 16, 128), (8, 1, 256), (12, 1, 64))
"""Query heads, KV heads, d_head."""
LENGTHS = (4096, 8192, 16384)
WINDOWS = ((32, 8, 128), (12, 12, 64))
WINDOW_LENGTHS = (16384, 65536)
WIDTH = 1024


Shape = tuple[int, int, int]


def drawn(shape: Shape, length: int, device: str) -> Problem:
    heads, kv_heads, d_head = shape
    tokens, dtype = Problem.draw(device, length).tokens, torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v = (torch.randn(1, n, length, d_head, device=device, dtype=dtype) for n in (heads, kv_heads, kv_heads))
    return Problem(q, k, v, tokens)


def row(what: str, shape: Shape, problem: Problem, work: dict[str, Callable[[], Any]], seconds: float) -> Any:
    """Times of all contenders; the first is what the others are compared with. One that fails is named."""
    length, device, first = len(problem.tokens), problem.q.device.type, next(iter(work))
    work, failed = working(work, device)
    times = interleaved(work, device=device, seconds=seconds, least=5)
    ratios = {name: round(each.median_ms / times[first].median_ms, 3) for name, each in times.items() if first in times}
    print(what, shape, length, {name: f"{times[name].median_ms:.3f} ms ({ratio:.2f} x)" for name, ratio in
          ratios.items()}, flush=True)  # fmt: skip
    return {"what": what, "heads": shape[0], "kv_heads": shape[1], "d_head": shape[2], "tokens": length,
            "times": times, "ratios": ratios, "failed": failed}  # fmt: skip


def causal_work(problem: Problem) -> dict[str, Callable[[], Any]]:
    q, k, v, _ = problem
    plain = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    base = {"cudnn": partial(_with, SDPBackend.CUDNN_ATTENTION, plain)} if q.is_cuda else {"sdpa": plain}
    return base | {
        "everything": partial(observe, q, k, v, scores=CAUSAL, questions=problem.questions()),
    }


def window_work(problem: Problem) -> dict[str, Callable[[], Any]]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v, _ = problem
    length = q.shape[2]

    def inside(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (query >= key) & (query - key < WIDTH)

    @cache
    def prepared() -> tuple[Any, Any]:
        mask = create_block_mask(inside, None, None, length, length, device=q.device.type)
        return mask, torch.compile(flex_attention) if q.is_cuda else flex_attention

    def by_flex() -> Any:
        mask, flex = prepared()
        return flex(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])

    scores = Scores(mask=causal() & window(WIDTH))
    return {
        "flex": by_flex,
        "output alone": partial(observe, q, k, v, scores=scores, statistics=set()),
        "everything": partial(observe, q, k, v, scores=scores, questions=problem.questions()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--lengths", type=int, nargs="+", help="instead of the usual ones")
    parser.add_argument("--seconds", type=float, default=1.0, help="for one shape and length")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "shapes-gpu.json")
    chosen = parser.parse_args()
    about, rows = machine(chosen.device), []
    causal_cases = [("causal", shape, length) for shape in SHAPES for length in chosen.lengths or LENGTHS]
    window_cases = [("window", shape, length) for shape in WINDOWS for length in chosen.lengths or WINDOW_LENGTHS]
    for what, shape, length in causal_cases + window_cases:
        goal = 1.0 if what == "window" else 2.0 if length < 8192 else 1.35
        try:
            problem = drawn(shape, length, chosen.device)
            work = causal_work(problem) if what == "causal" else window_work(problem)
            rows.append(row(what, shape, problem, work, chosen.seconds) | {"goal": goal})
        except Exception as error:  # the other shapes are measured all the same
            said = f"{type(error).__name__}: {error}"[:400]
            rows.append({"what": what, "shape": shape, "tokens": length, "failed": {"row": said}})
        write(chosen.out, benchmark="shapes", about=about, rows=rows)


if __name__ == "__main__":
    main()
