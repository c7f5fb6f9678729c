"""What seeing every head costs: plain attention, ours with statistics, and the eager way to the same numbers.

    python bench/observe.py --device cpu      12 heads of 64, causal, float32
    python bench/observe.py --device cuda     32 query heads, 8 KV heads of 128, causal, bfloat16

Everything means entropy, distance, strongest key, and five questions: previous, itself, first, duplicate, induction.
Tokens for the last two are drawn by Zipf's law with Mandelbrot's shift, 1/(rank + 2.7) over 50,000 ranks: about one
pair in two hundred has equal tokens, as in English text. The layers of a model put the same questions, so the labels
are sorted once a text; "new labels" counts that in, as the first layer would.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from measure import interleaved, machine, peak_bytes, write
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

CAUSAL = Scores(mask=causal())
RESULTS = Path(__file__).parent / "results"
LONGEST_EAGER = {"cpu": 4096, "cuda": 8192}
LENGTHS = {"cpu": [1024, 4096], "cuda": [2048, 8192, 32768, 131072]}


class Problem(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    tokens: Tensor

    @classmethod
    def draw(cls, device: str, length: int) -> Problem:
        generator = torch.Generator().manual_seed(length)
        heads, kv_heads, d_head, dtype = (
            (12, 12, 64, torch.float32) if device == "cpu" else (32, 8, 128, torch.bfloat16)
        )
        q, k, v = (
            torch.randn(1, n, length, d_head, generator=generator if device == "cpu" else None, device=device).to(dtype)
            for n in (heads, kv_heads, kv_heads)
        )
        chances = 1 / (torch.arange(1, 50_001, dtype=torch.float64) + 2.7)
        tokens = torch.multinomial(chances, length, replacement=True, generator=generator)
        return cls(q, k, v, tokens.to(device))

    def questions(self) -> dict[str, Question]:
        place = torch.arange(len(self.tokens), device=self.tokens.device)
        before = F.pad(self.tokens[:-1], (1, 0), value=-1)
        return {
            "previous": Question(place - 1, place),
            "itself": Question(place, place),
            "first": Question(torch.zeros_like(place), place),
            "duplicate": Question(self.tokens, self.tokens, exclude_self=True),
            "induction": Question(self.tokens, before, exclude_self=True),
        }


def eager(problem: Problem) -> dict[str, Tensor]:
    """The same numbers the way everybody gets them today: store the pattern, then reduce it."""
    q, k, v = problem[:3]
    group, length = q.shape[1] // k.shape[1], q.shape[2]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    place = torch.arange(length, device=q.device)
    hidden = place[:, None] < place
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf"))
    weights = torch.softmax(scores, -1, dtype=torch.float32)
    del scores
    found = {"output": weights.to(v.dtype) @ v, "entropy": torch.special.entr(weights).sum(-1)}
    distance = (place[:, None] - place).float()
    found["distance"] = (weights * distance).sum(-1)
    found["spread"] = ((weights * distance.square()).sum(-1) - found["distance"].square()).clamp(min=0).sqrt()
    found["strongest"], found["key"] = weights.max(-1)
    for name, question in problem.questions().items():
        equal = question.query[0][:, None] == question.key[0]
        if question.exclude_self:
            equal &= place[:, None] != place
        found[name] = (weights * equal).sum(-1)
    return found


def contenders(problem: Problem, device: str) -> dict[str, Callable[[], Any]]:
    q, k, v, _ = problem
    plain = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    ours: dict[str, Callable[[], Any]] = {
        "lse+entropy": partial(observe, q, k, v, scores=CAUSAL, statistics={"entropy"}),
        "statistics": partial(observe, q, k, v, scores=CAUSAL),
        "everything": partial(observe, q, k, v, scores=CAUSAL, questions=problem.questions()),
        "everything, new labels": lambda: observe(q, k, v, scores=CAUSAL, questions=problem.questions()),
    }
    if len(problem.tokens) <= LONGEST_EAGER[device]:
        ours["eager"] = partial(eager, problem)
    if device == "cpu":
        return {"sdpa": plain} | ours
    return {
        "cudnn": partial(_with, SDPBackend.CUDNN_ATTENTION, plain),
        "flash": partial(_with, SDPBackend.FLASH_ATTENTION, plain),
    } | ours


def _with(backend: SDPBackend, work: Callable[[], Any]) -> Any:
    with sdpa_kernel(backend):
        return work()


def errors(problem: Problem, n_rows: int = 64) -> dict[str, float]:
    """Against float32, on rows spread over the text: output relative, the rest the largest difference."""
    q, k, v, _ = problem
    rows = torch.linspace(0, q.shape[2] - 1, n_rows, device=q.device).long()
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    place = torch.arange(k.shape[2], device=q.device)
    scores = torch.einsum("bhqd,bhkd->bhqk", q[:, :, rows].float(), wide_k) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(place > rows[:, None], float("-inf")), -1)
    seen = observe(q, k, v, scores=CAUSAL, questions=problem.questions())
    exact = weights @ wide_v
    distance = (rows[:, None] - place).double()
    mean = (weights * distance).sum(-1)
    spread = (weights * (distance - mean[..., None]).square()).sum(-1).sqrt()
    found = {
        "output": float((seen.output[:, :, rows].float() - exact).norm() / exact.norm()),
        "entropy": _largest(seen.entropy[:, :, rows], torch.special.entr(weights).sum(-1)),
        "distance": _largest(seen.distance.mean[:, :, rows], mean),
        "spread": _largest(seen.distance.std[:, :, rows], spread),
        "strongest weight": _largest(seen.strongest.weight[:, :, rows], weights.amax(-1)),
        "weight at the strongest key": _largest(
            weights.gather(-1, seen.strongest.key[:, :, rows, None])[..., 0], weights.amax(-1)
        ),
    }
    for name, question in problem.questions().items():
        equal = question.query[0][rows, None] == question.key[0]
        if question.exclude_self:
            equal &= rows[:, None] != place
        found[f"mass {name}"] = _largest(seen.mass[name][:, :, rows], (weights * equal).sum(-1))
    return found


def _largest(ours: Tensor, exact: Tensor) -> float:
    return float((ours.double() - exact.double()).abs().max())


def measure(device: str, length: int, seconds: float) -> list[dict[str, Any]]:
    problem = Problem.draw(device, length)
    work = contenders(problem, device)
    timings = interleaved(work, device=device, seconds=seconds, least=5)
    base = timings["cudnn" if device == "cuda" else "sdpa"].median_ms
    rows: list[dict[str, Any]] = []
    for name, timing in timings.items():
        memory = peak_bytes(work[name], device)
        rows.append({"tokens": length, "what": name, "time": timing, "peak_mib": round(memory / 2**20, 1)})
        print(
            f"{length:>7} {name:22} {timing!s:50} {timing.median_ms / base:6.2f}×  {memory / 2**20:10.1f} MiB",
            flush=True,
        )
    found = errors(problem)
    print(f"{length:>7} errors: " + ", ".join(f"{name} {value:.2g}" for name, value in found.items()), flush=True)
    rows.append({"tokens": length, "what": "error against float32", "errors": found})
    return rows


def main(arguments: Mapping[str, Any]) -> None:
    if arguments["threads"]:
        torch.set_num_threads(arguments["threads"])
    device, about = arguments["device"], machine(arguments["device"])
    rows = []
    for length in arguments["lengths"] or LENGTHS[device]:
        rows += measure(device, length, arguments["seconds"])
    name = "h200" if "H200" in about["device"] else device
    out = arguments["out"] or RESULTS / f"observe-{name}.json"
    write(out, benchmark="observe", about=about, rows=rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--lengths", type=int, nargs="*")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each length, all contenders together")
    parser.add_argument("--threads", type=int, help="of the CPU; one is steadiest on a machine that others use too")
    parser.add_argument("--out", type=Path)
    main(vars(parser.parse_args()))
